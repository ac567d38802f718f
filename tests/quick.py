"""The tests of what has changed, in under a minute: what `make quick` runs after lint and types.

    python tests/quick.py                # against the last commit, or where nothing has changed since, main
    python tests/quick.py --against v1   # against any commit
    python tests/quick.py --list         # the folders alone

A changed file of ``src/squircuit/<folder>`` or ``tests/<folder>`` asks for ``tests/<folder>`` and for the
doctests of the changed modules. Few examples are drawn, and tests with the marks ``slow`` and ``process`` are
left out. `make test` runs them all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ("-q", "-n", "2", "--hypothesis-profile", "quick", "-m", "not slow and not process and not gpu")
NO_TESTS = 5
"""pytest's exit code where no test is left."""


def changed(against: str | None) -> list[Path]:
    """The files that differ from a commit, and those that git does not know yet."""
    if against is not None:
        return _differing(against)
    return _differing("HEAD") or _differing(_git("merge-base", "HEAD", "main")[0])


def chosen(paths: Iterable[Path]) -> list[str]:
    """What pytest is to run of these changes, each once: folders and files of tests, and modules.

    Example:
        >>> chosen([Path("src/squircuit/optim/polar.py"), Path("docs/data.md")])
        ['src/squircuit/optim/polar.py', 'tests/optim']
    """
    found: set[str] = set()
    for path in paths:
        top, *rest = path.parts
        if path.suffix != ".py" or top not in ("src", "tests"):
            continue
        inside = rest[1:] if top == "src" else rest  # without "squircuit"
        if len(inside) > 1 and (ROOT / "tests" / inside[0]).is_dir():
            found.add(f"tests/{inside[0]}")
        elif top == "tests" and path.name.startswith("test_"):
            found.add(str(path))
        if top == "src" and (ROOT / path).exists():
            found.add(str(path))
    return sorted(found)


def _differing(commit: str) -> list[Path]:
    names = _git("diff", "--name-only", commit) + _git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in dict.fromkeys(names)]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", help="a commit")
    parser.add_argument("--list", action="store_true", help="say what would run")
    asked = parser.parse_args()
    found = chosen(changed(asked.against))
    print(*(found or ["no tests: nothing has changed"]), sep="\n", flush=True)
    if asked.list or not found:
        return 0
    code = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *found], cwd=ROOT, check=False
    ).returncode
    return 0 if code == NO_TESTS else code


if __name__ == "__main__":
    sys.exit(main())
