"""Run by test_processes: one of several processes that train the same models through torch.distributed.

    python two_processes.py RANK SIZE FOLDER [CASE …]

writes what it has found to FOLDER/RANK.pt.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import squircuit as sq
from squircuit.training.defaults import resolve
from squircuit.training.intake import open_data
from squircuit.training.loop import Loop
from squircuit.training.steps import Steps

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


SPREAD = ("a batch that does not divide", "free", "pogo", "average, early stopping", "mixture", "noise")
"""Those that are trained with weights in parts, too."""


def trained(name, **more):
    """Losses of all epochs, weights, and how it ended."""
    make, data, options = CASES.get(name, (model, mostly_unknown, {"batch": 3}))
    made = make()
    history = sq.fit(made, data(), **QUICK | options | more)
    rows = [(row.epoch, row.step, row.train, row.valid, row.log_z) for row in history.rows]
    return rows, {n: p.detach() for n, p in made.named_parameters()}, history.stopped


def interrupted(rank, size, folder, **more):
    """The last process alone is told to stop, in its fifth step; process 0 writes, and all stop."""
    ordinary, steps = Loop._look, []

    def look(loop):
        ordinary(loop)
        steps.append(None)
        if len(steps) == 5 and rank == size - 1:
            signal.raise_signal(signal.SIGINT)

    Loop._look = look
    try:
        return trained("average, early stopping", run=folder, checkpoint_minutes=0.0, **more)
    finally:
        Loop._look = ordinary


def gone_on_with(folder, rank, **more):
    """A copy of a run, gone on with."""
    copy = folder.with_name(f"{folder.name}, {more}")
    if rank == 0:
        shutil.copytree(folder, copy)
    distributed.barrier()
    return trained("average, early stopping", run=copy, resume=True, **more)


def refused(call):
    try:
        call()
    except sq.SquircuitError as error:
        return f"{type(error).__name__}: {error}"


def start_apart(rank):
    """Every process brings other weights; those of process 0 count."""
    made = model(seed=rank)
    sq.fit(made, coins(), **QUICK)
    return {n: p.detach() for n, p in made.named_parameters()}


def state_bytes(processes, **options):
    """Bytes of the optimiser's state after a step of a model of many matrices, and of its largest one."""
    made = model(d=16, unitary=False) if options.pop("free", False) else model(d=16)
    config = sq.TrainingConfig(optimiser="auto", lr=0.1, **options)
    config = resolve(config, made, open_data(made, coins()[:, :1].expand(-1, 16), None, config).train)
    steps = Steps(made, config, processes)
    steps(processes.share.part(sq.data.Rows(torch.zeros(8, 16, dtype=torch.int64))), 1.0)
    held = [value for state in steps.optimiser.state.values() for value in state.values() if value.ndim]
    return sum(map(nbytes, held)), 2 * max(nbytes(p[:1]) for p in made.parameters())


class Counted(Dataset):
    """Rows that are changed at random as they are read, by random numbers of torch where it is wished."""

    def __init__(self, x, changes=False):
        self.x, self.changes, self.read = x, changes, 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        self.read += 1
        return (self.x[number] + (torch.rand(4) < 0.1) * self.changes) % 2


class Flow(IterableDataset):
    """Rows that come one after the other, and that nobody can ask for by number."""

    def __iter__(self):
        return iter(coins())


def parquet(folder):
    """Two files of groups of 20 rows, read three groups at a time; the rows are in memory with gaps."""
    from pyarrow import parquet, table

    for number, rows in enumerate(coins(gaps=0.2).split(100)):
        path, new = folder / f"{number}.parquet", folder / f"{number}.{os.getpid()}"
        parquet.write_table(table({str(i): rows[:, i].numpy() for i in range(4)}), new, row_group_size=20)
        new.replace(path)
    return sq.data.Batches(f"{folder}/?.parquet", batch=30, window=3)


def npy(folder):
    np.save(folder / f"{os.getpid()}.npy", coins().numpy())
    return folder / f"{os.getpid()}.npy"


SOURCES = {
    "mapped": npy,
    "Parquet": parquet,
    "weighted stream": lambda _: sq.data.Batches(coins().numpy(), batch=30, weights=np.arange(180) % 5),
    "data set": lambda _: Counted(coins()),
    "data set of random rows": lambda _: Counted(coins(), changes=True),
    "loader": lambda _: DataLoader(Counted(coins()), batch_size=30, shuffle=True),
    "loader with workers": lambda _: DataLoader(TensorDataset(coins()), 30, shuffle=True, num_workers=2),
    "loader with a generator": lambda _: DataLoader(
        TensorDataset(coins()), 30, shuffle=True, generator=torch.Generator().manual_seed(1)
    ),
    "loader of an iterable": lambda _: DataLoader(Flow(), batch_size=30),
}
"""Data that is read while training; validation is by a loader that ends with a smaller batch."""


def streamed(name, folder):
    """Losses, weights and the end, as `trained` has them, and how many rows were read in the epochs."""
    source, made = SOURCES[name](folder), model()
    valid = DataLoader(Counted(coins(61)), batch_size=15)
    sets = {180: getattr(source, "dataset", source), 61: valid.dataset}
    counted = {rows: each for rows, each in sets.items() if isinstance(each, Counted)}
    ordinary = Loop.run

    def run(loop):
        for each in counted.values():
            each.read = 0  # what was looked at before does not count
        return ordinary(loop)

    Loop.run = run
    try:
        history = sq.fit(made, source, valid, **QUICK)
    finally:
        Loop.run = ordinary
    rows = [(row.epoch, row.step, row.train, row.valid, row.log_z) for row in history.rows]
    read = {rows: each.read for rows, each in counted.items()}
    return rows, {n: p.detach() for n, p in made.named_parameters()}, history.stopped, read


def asked(rank):
    """What a callback finds, and the model after the training, which is whole again."""
    made, found = model(), []
    calls = [lambda _: found.append(made.log_prob(coins()).mean().item())]
    sq.fit(made, coins(), callbacks=calls, shard="weights", **QUICK)
    return found, made.log_prob(coins()).mean().item(), made.is_spread


def refused_in_parts(folder):
    """Whether a model is whole, and as it was, after a folder of another run has been refused."""
    made = model(seed=5)
    before = {n: p.detach().clone() for n, p in made.named_parameters()}
    said = refused(lambda: sq.fit(made, coins(), run=folder, resume=True, shard="weights", **QUICK))
    same = [torch.equal(before[n], p) for n, p in made.named_parameters()]
    return said.partition("the run there has ")[2][:8], all(same), made.is_spread


def held(processes):
    """Bytes of weights and gradients between a backward pass and a step, whole and in parts."""
    found = {}
    for shard in ("none", "weights"):
        made = model(d=16)
        steps = Steps(made, sq.TrainingConfig(optimiser="polar", lr=0.1, shard=shard), processes)
        ordinary = steps._update
        steps._update = lambda made=made, shard=shard, ordinary=ordinary: (
            found.update({shard: [(nbytes(p), nbytes(p.grad)) for p in made.parameters()]}),
            ordinary(),
        )
        steps(processes.share.part(sq.data.Rows(torch.zeros(8, 16, dtype=torch.int64))), 1.0)
        found[shard] = [sum(column) for column in zip(*found[shard], strict=True)]
    return found


def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def mistakes(rank, folder):
    """What each process says where something is wrong, by what it is."""
    (folder / "file").write_text("") if rank == 0 else None
    distributed.barrier()
    other = model(d=4, seed=1, tie=0)
    beyond = torch.where(torch.arange(180)[:, None] == 7, 2, coins()) if rank else coins()
    hole = torch.where((torch.arange(180) == 7)[:, None], torch.nan, coins())
    uneven = DataLoader(Counted(coins()), batch_sampler=[range(30), [0], range(30)])
    few = {name: value for name, value in QUICK.items() if name != "batch"}
    calls = {
        "no folder": lambda: trained("gaps", run=folder / "file" / "run"),
        "small batch": lambda: trained("gaps", batch=1),
        "other options": lambda: trained("gaps", lr=0.1 * (1 + rank)),
        "no option": lambda: trained("gaps", **({"epoch": 3} if rank else {})),
        "other data": lambda: sq.fit(model(), coins(180 - rank), **QUICK),
        "bad data": lambda: sq.fit(model(), beyond, **QUICK),
        "gaps in parts": lambda: trained("gaps", shard="weights"),
        "few gaps in parts": lambda: sq.fit(model(), hole, coins(), shard="weights", **QUICK),
        "gaps to validate": lambda: sq.fit(model(), coins(), hole, shard="weights", **QUICK),
        "small batches": lambda: sq.fit(model(), uneven, **few),
        "another model": lambda: sq.fit(other if rank else model(), coins(), **QUICK),
    }
    return {name: refused(call) for name, call in calls.items()}


def main(rank, size, folder, cases):
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", store, rank=rank, world_size=size)
    found = {name: trained(name) for name in cases}
    found |= {f"{name}, sharded": trained(name, shard="optimiser") for name in cases}
    found |= {f"{name}, weights": trained(name, shard="weights") for name in cases if name in SPREAD}
    sources = SOURCES if cases == list(CASES) else ("Parquet", "data set of random rows", "loader")
    found |= {name: streamed(name, folder) for name in sources}
    if cases == list(CASES):
        processes = sq.training.Distributed()
        found["mostly unknown"] = trained("mostly unknown")
        found["started apart"] = start_apart(rank)
        found["interrupted"] = interrupted(rank, size, folder / "run")
        found["resumed"] = trained("average, early stopping", run=folder / "run", resume=True)
        found["interrupted, sharded"] = interrupted(rank, size, folder / "shards", shard="optimiser")
        found["resumed whole"] = gone_on_with(folder / "shards", rank)
        found["resumed, sharded"] = gone_on_with(folder / "shards", rank, shard="optimiser")
        found["interrupted, weights"] = interrupted(rank, size, folder / "parts", shard="weights")
        found["resumed from parts"] = gone_on_with(folder / "parts", rank)
        found["resumed, weights"] = gone_on_with(folder / "parts", rank, shard="weights")
        found["asked"] = asked(rank)
        found["refused"] = refused_in_parts(folder / "run")
        found["held"] = held(processes)
        found["bytes"] = state_bytes(processes, shard="optimiser")
        found["bytes, free"] = state_bytes(processes, shard="optimiser", free=True)
        found |= mistakes(rank, folder)
    torch.save(found, folder / f"{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:] or list(CASES))
