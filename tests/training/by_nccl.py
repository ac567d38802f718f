"""Run by test_nccl: a process on the first GPU whose group talks by NCCL.

    python by_nccl.py RANK SIZE FOLDER

prints what it has found, or the error.
"""

import sys

import torch
from torch import distributed

import squircuit as sq
from squircuit.training.steps import Steps


def main(rank, size, folder):
    torch.cuda.set_device(0)
    place = f"file://{folder}/store"
    distributed.init_process_group("cpu:gloo,cuda:nccl", place, rank=rank, world_size=size)
    processes = sq.training.Distributed()
    try:
        print(said_by(processes), flush=True)
    except sq.SquircuitError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    distributed.destroy_process_group()


def said_by(processes):
    numbers = torch.arange(6, dtype=torch.float32, device="cuda")
    complex_ones = torch.complex(numbers, -numbers)
    sent = complex_ones.clone()
    processes.sum([sent, numbers])  # of two that share a GPU the first word is the error
    apart = processes.sum_apart(numbers.reshape(1, 6))
    gathered = processes.gather(numbers)
    processes.send(numbers, sender=0)
    processes.sum_at(numbers, receiver=0)
    for some, other in ((sent, complex_ones), (apart, numbers), (gathered[0], apart)):
        assert torch.equal(some, other)
    difference, captured = steps_of(processes)
    return f"sums are right; steps captured: {captured}; weights differ by {difference:.1e}"


def steps_of(processes):
    """How far steps whose gradients go by NCCL are from steps that send nothing, and whether captured."""
    processes.size = 2  # of which this is the first; the other's rows are never summed
    rows = sq.data.Rows(torch.randint(4, (64, 16), generator=torch.Generator().manual_seed(0)).cuda())
    part, found, captured = processes.share.part(rows), [], []
    for talks in (processes, sq.training.Processes()):
        model = sq.image_model((4, 4), units=4, levels=4).to("cuda")
        steps = Steps(model, sq.TrainingConfig(optimiser="polar", lr=0.1), talks)
        for _ in range(3):
            steps(part, 1.0)
        found.append([parameter.detach() for parameter in model.parameters()])
        captured.append(steps._captured is not None)
    torch.cuda.synchronize()
    return max(float((a - b).abs().max()) for a, b in zip(*found, strict=True)), captured[0]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
