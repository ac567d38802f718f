"""Make the mistakes of mutants.toml, one at a time in a copy of the sources: the tests must notice each.

    python tests/kill_mutants.py
    python tests/kill_mutants.py haar-sign plan-tied-entry --jobs 2

First all tests that are named there run on the sources as they are, and must pass. Exit code 1 where they do
not, where a mutant survives, or where its text does not occur exactly once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import final

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "squircuit"
LIST = Path(__file__).with_name("mutants.toml")
LONGEST = 600
"""Seconds after which tests count as failed: a mistake may be a loop without end."""
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile", "first-failure")
PASSED, FAILED = 0, 1
"""Exit codes of pytest; others mean that tests were not found, or could not be read."""


@final
@dataclass(frozen=True)
class Mutant:
    """One small mistake.

    Args:
        name: of its own.
        file: relative to the package.
        original: text that occurs exactly once in the file.
        replacement: what is there instead.
        breaks: what goes wrong, in a sentence.
        killed_by: files or node ids of pytest of which one test at least must fail.
    """

    name: str
    file: str
    original: str
    replacement: str
    breaks: str
    killed_by: tuple[str, ...]

    def problem(self) -> str | None:
        """Why the mistake cannot be made, if it cannot."""
        path = SOURCES / self.file
        if not path.is_file():
            return f"there is no file {self.file}"
        count = path.read_text(encoding="utf-8").count(self.original)
        return None if count == 1 else f"its text occurs {count} times in {self.file}, not once"

    def apply(self, package: Path) -> None:
        """Make the mistake in a copy of the package."""
        path = package / self.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(self.original, self.replacement), encoding="utf-8")


@final
@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    verdict: str  #: "killed", "SURVIVED" or what else is wrong
    seconds: float = 0.0
    output: str = ""

    @property
    def is_good(self) -> bool:
        return self.verdict == "killed"

    def __str__(self) -> str:
        line = f"{self.verdict:<9} {self.seconds:6.1f} s  {self.mutant.name}"
        return line if self.is_good else f"{line}: {self.mutant.breaks}\n{self.output}".rstrip()


def mutants() -> list[Mutant]:
    """The list, in its order."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "killed_by": tuple(entry["killed_by"])}) for entry in entries]


def run(mutant: Mutant) -> Outcome:
    """Make the mistake in a copy, and see whether its tests fail."""
    problem = mutant.problem()
    if problem is not None:
        return Outcome(mutant, "BROKEN", output=problem)
    started = time.monotonic()
    code, output = _tested(mutant.killed_by, mutant)
    verdict = {FAILED: "killed", PASSED: "SURVIVED"}.get(code, "BROKEN")
    return Outcome(mutant, verdict, time.monotonic() - started, output)


def _tested(targets: Iterable[str], mutant: Mutant | None = None) -> tuple[int, str]:
    """The exit code and the last lines of pytest on a copy of the sources, with a mistake or without."""
    with tempfile.TemporaryDirectory(prefix="squircuit-mutant-") as folder:
        package = Path(folder) / SOURCES.name
        shutil.copytree(SOURCES, package)
        if mutant is not None:
            mutant.apply(package)
        command = [sys.executable, "-m", "pytest", *OPTIONS, *targets]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=_environment(folder), capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            return FAILED, f"stopped after {LONGEST} s"
        return done.returncode, "\n".join((done.stdout + done.stderr).splitlines()[-12:])


def _environment(folder: str) -> dict[str, str]:
    """That of this process, with the copy found first, and without what a pytest around it has set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join(filter(None, [folder, kept.get("PYTHONPATH")]))
    return {"OMP_NUM_THREADS": "1"} | kept | {"PYTHONPATH": path}


def outcomes(chosen: Sequence[Mutant], jobs: int) -> Iterator[Outcome]:
    """What became of each, in their order; so many at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(run, chosen)


def _chosen(names: Sequence[str]) -> list[Mutant]:
    listed = mutants()
    unknown = set(names) - {mutant.name for mutant in listed}
    if unknown:
        sys.exit(f"no mutant is called {', '.join(sorted(unknown))}; see {LIST.name}")
    return [mutant for mutant in listed if not names or mutant.name in names]


def main() -> int:
    """Run, report, and say by the exit code whether all were killed."""
    parser = argparse.ArgumentParser(description="Small mistakes that the tests must notice.")
    parser.add_argument("names", nargs="*", help="mutants to run; default all")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    options = parser.parse_args()
    chosen = _chosen(options.names)
    code, output = _tested(dict.fromkeys(target for mutant in chosen for target in mutant.killed_by))
    if code != PASSED:
        print(f"The tests fail without any mistake:\n{output}")
        return 1
    survived = 0
    for outcome in outcomes(chosen, options.jobs):
        print(outcome, flush=True)
        survived += not outcome.is_good
    print(f"{len(chosen) - survived} of {len(chosen)} mutants were killed.")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
