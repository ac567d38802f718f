"""Run by test_processes: one of several processes that train the same models through torch.distributed.

    python two_processes.py RANK SIZE FOLDER

writes what it has found to FOLDER/RANK.pt.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import distributed

import squircuit as sq
from squircuit.training.loop import Loop

QUICK = {"progress": False, "epochs": 3, "batch": 30, "lr": 0.1, "seed": 3}


def coins(n=180, gaps=0.0):
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(2, (n, 1), generator=generator)
    rows = ((first + (torch.rand(n, 4, generator=generator) < 0.1).long()) % 2).double()
    return torch.where(torch.rand(n, 4, generator=generator) < gaps, torch.nan, rows)


def mostly_unknown():
    """Of four rows one has known cells, so that the rows of some process mostly have none."""
    return torch.where((torch.arange(180) % 4 == 0)[:, None], coins(), torch.nan)


def points():
    return torch.randn(180, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def model(tree=sq.regions.balanced_tree, family=None, d=4, seed=0, **options):
    circuit = sq.build(tree(d), family or sq.Categorical(2), 2, **options)
    return sq.SquaredCircuit(circuit, seed=seed, dtype=torch.complex128)


def mixture():
    options = {"tie": "inputs", "components": 2, "root_weights": "learnable"}
    return sq.mixture([model(sq.regions.balanced_tree, **options), model(sq.regions.linear, **options)])


CASES = {
    "semi-unitary": (model, coins, {}),
    "a batch that does not divide": (model, coins, {"batch": 25}),
    "gaps": (model, lambda: coins(gaps=0.3), {}),
    "free": (lambda: model(unitary=False), coins, {"lr": 0.02}),
    "pogo": (model, coins, {"optimiser": "pogo"}),
    "landing": (model, coins, {"optimiser": "landing-pc", "lr": 0.02}),
    "average, early stopping": (model, coins, {"average": 0.9, "patience": 1, "epochs": 8, "lr": 1.0}),
    "tied": (lambda: model(tie=0), coins, {}),
    "mixture": (mixture, coins, {}),
    "mixture together": (mixture, lambda: coins(gaps=0.3), {"apart": False}),
    "weights": (model, coins, {"weights": torch.arange(180) % 5}),
    "weights and gaps": (model, lambda: coins(gaps=0.3), {"weights": torch.arange(180) % 5}),
    "noise": (lambda: model(family=sq.Hermite(4), d=3), points, {"jitter": 0.2}),
}


def trained(name, processes=None, **more):
    """Losses of all epochs, weights, and how it ended."""
    make, data, options = CASES.get(name, (model, mostly_unknown, {"batch": 3}))
    made = make()
    history = sq.fit(made, data(), processes=processes, **QUICK | options | more)
    rows = [(row.epoch, row.step, row.train, row.valid, row.log_z) for row in history.rows]
    return rows, {n: p.detach() for n, p in made.named_parameters()}, history.stopped


def interrupted(processes, folder):
    """The last process alone is told to stop, in its fifth step; process 0 writes, and all stop."""
    ordinary, steps = Loop._look, []

    def look(loop):
        ordinary(loop)
        steps.append(None)
        if len(steps) == 5 and processes.rank == processes.size - 1:
            signal.raise_signal(signal.SIGINT)

    Loop._look = look
    try:
        return trained("average, early stopping", processes, run=folder / "run", checkpoint_minutes=0.0)
    finally:
        Loop._look = ordinary


def refused(call):
    try:
        call()
    except sq.SquircuitError as error:
        return f"{type(error).__name__}: {error}"


def start_apart(processes):
    """Every process brings other weights; those of process 0 count."""
    made = model(seed=processes.rank)
    sq.fit(made, coins(), processes=processes, **QUICK)
    return {n: p.detach() for n, p in made.named_parameters()}


def main(rank, size, folder):
    distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=size)
    processes = sq.training.Distributed()
    found = {name: trained(name, processes) for name in CASES}
    found |= {f"{name}, sharded": trained(name, shard="optimiser") for name in CASES}
    found["mostly unknown"] = trained("mostly unknown", processes)
    found["started apart"] = start_apart(processes)
    found["interrupted"] = interrupted(processes, folder)
    found["resumed"] = trained("average, early stopping", processes, run=folder / "run", resume=True)
    (folder / "file").write_text("") if rank == 0 else None
    distributed.barrier()
    found["no folder"] = refused(lambda: trained("gaps", processes, run=folder / "file" / "run"))
    found["small batch"] = refused(lambda: trained("gaps", processes, batch=1))
    torch.save(found, folder / f"{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
