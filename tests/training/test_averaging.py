"""What is kept of the weights."""

import torch

import squircuit as sq


def test_weights_are_kept_on_the_manifold_up_to_the_rounding_of_single_precision():
    circuit = sq.build(sq.regions.quad_tree((4, 4)), sq.Categorical(8), units=4, tie=1)
    model = sq.SquaredCircuit(circuit, seed=0)
    x = torch.randint(8, (200, 16), generator=torch.Generator().manual_seed(0))
    history = sq.fit(model, x, epochs=4, batch=20, lr=0.3, progress=False)
    for stack in model.stacks():
        exact = stack.detach().to(torch.complex128)
        off = exact @ exact.mH - torch.eye(stack.shape[1], dtype=exact.dtype)
        assert off.abs().max() < 3e-7
    assert abs(history.best.log_z) < 2e-6
