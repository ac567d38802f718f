"""Laws of stacking."""

import pytest
import torch
from scipy.optimize import minimize

import squircuit as sq
from squircuit.learning.stacking import stack, stacking_weights


def random_scores(members: int, rows: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(members, rows, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(5))
def test_weights_reach_the_maximum_that_another_optimiser_finds(seed):
    scores = random_scores(4, 30, seed)

    def loss(logits):
        return -torch.logsumexp(scores + torch.as_tensor(logits).log_softmax(0)[:, None], 0).mean().item()

    best = min(minimize(loss, torch.randn(4).numpy(), method="Nelder-Mead", tol=1e-10).fun for _ in range(3))
    weights = stacking_weights(scores, least=0.0)
    mine = -torch.logsumexp(scores + weights.log()[:, None], 0).mean().item()
    assert mine <= best + 1e-5
    assert weights.sum().item() == pytest.approx(1)


def test_whole_weights_of_rows_count_as_repeated_rows_and_zero_as_none():
    scores = random_scores(3, 6, 7)
    counts = torch.tensor([1, 2, 0, 3, 1, 1])
    repeated = stacking_weights(scores.repeat_interleave(counts, dim=1))
    torch.testing.assert_close(stacking_weights(scores, counts), repeated)


def test_scores_far_below_what_a_float_holds_are_weighed_alike():
    scores = random_scores(3, 20, 1)
    shifted = scores - torch.linspace(0, 1e6, 20, dtype=torch.float64)
    torch.testing.assert_close(stacking_weights(scores), stacking_weights(shifted), atol=1e-4, rtol=0)


def test_a_member_that_alone_knows_a_row_stays_however_small_its_share():
    scores = torch.zeros(2, 5000, dtype=torch.float64)
    scores[1] -= 20
    scores[0, 0] = -torch.inf
    assert stacking_weights(scores)[1] > 0


def test_a_row_that_no_member_knows_is_named():
    scores = torch.zeros(2, 3)
    scores[:, 1] = -torch.inf
    with pytest.raises(sq.DataError, match=r"row 1 is impossible under every member.*Fix"):
        stacking_weights(scores)


@pytest.mark.parametrize("weights", [[1.0], [-1.0, 1, 1], [0, 0, 0], [float("nan"), 1, 1]])
def test_weights_of_rows_that_are_none_are_refused(weights):
    with pytest.raises(sq.ParameterError, match="Fix: pass a number ≥ 0 for each"):
        stacking_weights(torch.zeros(2, 3), weights)


def test_a_stack_is_the_mixture_of_its_members_normalised_and_at_least_as_good_as_each():
    circuit = sq.build(sq.regions.linear(3), sq.Categorical(3), units=2)
    models = [sq.SquaredCircuit(circuit, seed=seed, dtype=torch.complex128).eval() for seed in range(4)]
    everything = torch.cartesian_prod(*[torch.arange(3)] * 3)
    rows = models[1].sample(200, seed=0)
    made = stack(models, rows)
    assert made.log_prob(everything).exp().sum().item() == pytest.approx(1)
    score = made.log_prob(rows).mean().item()
    assert score >= max(model.log_prob(rows).mean().item() for model in models) - 1e-6
    shares = torch.tensor(made.notes["stack"]["shares"])
    kept = [m for m, share in zip(models, shares, strict=True) if share > 0]
    direct = sum(s * m.log_prob(everything).exp() for s, m in zip(shares[shares > 0], kept, strict=True))
    torch.testing.assert_close(made.log_prob(everything).exp(), direct)


def test_a_stack_of_nothing_is_refused():
    with pytest.raises(sq.ParameterError, match="Fix: pass a list"):
        stack([], [[0, 1]])
