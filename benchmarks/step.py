"""Times one whole training step (forward, backward, optimiser) and its peak memory, ours beside peers.

    python benchmarks/step.py --kind unitary-kronecker --units 8 --peer ours --peer ours-graph
    python benchmarks/step.py --suite cpu --device cpu --peer ours --peer cirkit --cirkit PATH

See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import peers
from measure import Plan, Row, measure
from report import machine, table, write_json
from setups import KINDS, Setup, suite


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--tf32", nargs="?", const="on", default="off", choices=("on", "off", "both"))
    parser.add_argument("--rounds", type=int, default=1, help="times that every peer has its turn")
    add_rows(parser)
    return checked(parser, arguments)


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Options that choose models and peers."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--suite", help="gpu, cpu, kronecker, hadamard, halves, squared, squared-kronecker or 32"
    )
    parser.add_argument("--kind", default="unitary-kronecker", choices=KINDS)
    parser.add_argument("--units", type=int, action="append", help="K, may be repeated (default 8)")
    parser.add_argument("--batch", type=int, help="default 256, or that of the suite")
    parser.add_argument("--side", type=int, help="of the image (default: that of the set-up)")
    parser.add_argument("--parts", type=int, choices=(2, 4), help="of a block (default 4, as in the paper)")
    parser.add_argument("--set-up", choices=("28", "32"), default="28", help="of the paper: see README.md")
    parser.add_argument("--peer", action="append", help="ours, ours-graph, ours-landing, cirkit, pogo, …")
    add_common(parser)
    return parser


def checked(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options with their set-ups; an unknown peer or suite is an error of the command line."""
    options = parser.parse_args(arguments)
    try:
        for name in options.peer or []:
            peers.check_name(name)
        options.setups = setups(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def add_common(parser: argparse.ArgumentParser) -> None:
    """Options of all programs here."""
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--cirkit", default="", help="folder that holds the package cirkit")
    parser.add_argument("--prototype", default="", help="folder that holds prototype.py")


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Options of programs that make rows."""
    parser.add_argument("--one-process", action="store_true", help="start no process for each row")
    parser.add_argument("--busy", action="store_true", help="on a CPU, time of the process, not of the clock")
    parser.add_argument(
        "--limit", type=float, default=Plan.limit, help="seconds that such a process may take"
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file")


def plan(options: argparse.Namespace) -> Plan:
    folders = {"cirkit": options.cirkit, "prototype": options.prototype}
    return Plan(
        options.repeats, options.warm_up, folders, not options.one_process, options.limit, options.busy
    )


def setups(options: argparse.Namespace) -> list[Setup]:
    if options.suite:
        chosen = suite(options.suite)
    else:
        inputs = "learnt" if options.set_up == "28" else "fixed"
        base = Setup(options.kind, side=int(options.set_up), inputs=inputs)
        chosen = [base.with_(units=units) for units in options.units or [8]]
    changes = {name: getattr(options, name) for name in ("batch", "side", "parts") if getattr(options, name)}
    return [setup.with_(device=options.device, **changes) for setup in chosen]


def compare(setup: Setup, names: Sequence[str], options: argparse.Namespace) -> list[Row]:
    """The rows of one model; with several rounds the peers take turns, and their times are put together."""
    pairs = [(name, on) for name in names for on in precisions(name, options.tf32)]
    rows: list[Row] = []
    for _ in range(options.rounds):
        turn = [measure(name, setup.with_(tf32=on), plan(options)) for name, on in pairs]
        rows = [_merge(old, new) for old, new in zip(rows, turn, strict=True)] if rows else turn
    return rows


def precisions(name: str, choice: str) -> list[bool]:
    """Whether torch's switch for TF32 is on; ours decides for itself where TF32 serves: one row."""
    if choice == "both" and name.startswith("ours"):
        return [False]
    return {"on": [True], "off": [False], "both": [False, True]}[choice]


def _merge(old: Row, new: Row) -> Row:
    new.times, new.optimiser_times = old.times + new.times, old.optimiser_times + new.optimiser_times
    new.problem = old.problem or new.problem
    return new


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    names = options.peer or ["ours"]
    where = machine(options.device)
    print(where)
    rows: list[Row] = []
    for setup in options.setups:
        made = compare(setup, names, options)
        rows += made
        print(f"\n{setup.describe()}\n{table(made, made[0].peer)}", flush=True)
        if options.json:
            write_json(options.json, rows, machine=where)


if __name__ == "__main__":
    main()
