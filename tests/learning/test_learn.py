"""Laws of `learn`: one call, one normalised model that answers everything."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.learning import fit_mixture, learn
from squircuit.learning.candidates import candidates
from squircuit.learning.learn import Budget
from squircuit.learning.members import Encoding, GaussianMixture, has_spikes, part_of

RNG = np.random.default_rng(0)


def people(count=240, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, count)
    height = rng.normal(1.65 + 0.12 * sex, 0.07, count)
    income = np.where(rng.random(count) < 0.6, 0.0, rng.lognormal(8, 1, count).round())
    return {"sex": np.array(["f", "m"])[sex].tolist(), "height": height, "income": income}


@pytest.fixture(scope="module")
def model():
    return learn(people(), progress=False, members=["mixtures"], minutes=0.1)


def grid():
    """Heights, and nodes and weights of a rule over incomes that is fine about 0, where a spike is."""
    heights, width = np.linspace(1.0, 2.5, 120, retstep=True)
    far = np.geomspace(1e-2, 1e9, 160)
    ends = np.unique(np.concatenate([-far, [-0.5, 0.0, 0.5], far]))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    incomes, masses = (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()
    return heights, width, incomes, masses


@torch.no_grad()
def test_the_density_of_a_mixed_table_integrates_to_one(model):
    heights, width, incomes, masses = grid()
    h, i = (a.ravel() for a in np.meshgrid(heights, incomes, indexing="ij"))
    total = 0.0
    for sex in (0, 1):
        rows = torch.tensor(np.stack([np.full(len(h), sex), h, i], axis=1))
        p = torch.cat([model.log_prob(part) for part in rows.split(100_000)]).exp().numpy()
        total += (p.reshape(len(heights), -1) @ masses).sum() * width
    assert total == pytest.approx(1, abs=1e-2)


def test_log_z_is_zero(model):
    assert model.log_partition().item() == pytest.approx(0, abs=1e-9)


def test_marginals_are_integrals_of_the_density(model):
    heights, width, *_ = grid()
    rows = torch.tensor([[0.0, 1.7, 0.0], [1.0, 1.8, 3000.0]])
    direct = model.log_prob(rows, missing=[False, True, False]).exp()
    for row, value in zip(rows, direct, strict=True):
        every = row.repeat(len(heights), 1)
        every[:, 1] = torch.tensor(heights)
        assert model.log_prob(every).exp().sum().item() * width == pytest.approx(value.item(), rel=2e-3)


def test_samples_have_the_spikes_of_the_data(model):
    drawn = model.sample(4000, seed=1)
    zeros = (drawn[:, 2].round() == 0).double().mean().item()
    assert zeros == pytest.approx(0.6, abs=0.12)
    assert drawn[:, 0].mean().item() == pytest.approx(0.5, abs=0.15)


def test_a_stack_is_no_worse_than_its_members_on_the_rows_that_weigh_it(model):
    members = model.notes["learn"]["members"]
    assert sum(row["share"] for row in members) == pytest.approx(1)
    assert members[0]["share"] > 0
    assert [row["share"] for row in members] == sorted((row["share"] for row in members), reverse=True)


def test_learning_is_better_than_one_gaussian_on_new_rows(model):
    new = sq.data.table(people(2000, seed=7)).rows
    first = candidates(sq.data.table(people()), ["mixtures"], 1e9)[0]
    assert isinstance(first, GaussianMixture)
    table = sq.data.table(people())
    one = GaussianMixture(1).fit(table, None, 0, torch.device("cpu"))
    score = model.log_prob(new).mean().item()
    assert score > one.log_prob(sq.data.Rows.of(new)).mean().item() + 1


def test_members_and_their_circuits_are_the_same_density():
    table = sq.data.table(people())
    for candidate in (
        GaussianMixture(3),
        GaussianMixture(2, "diagonal", knots=8),
        GaussianMixture(2, "tied", knots=8, bins=8),
        GaussianMixture(4, bins=16),
    ):
        member = candidate.fit(table, None, 1, torch.device("cpu"))
        found = member.model().log_prob(table.rows, table.missing)
        torch.testing.assert_close(found, member.log_prob(table.cells), atol=1e-8, rtol=1e-8)


def test_a_wider_member_has_covariances_so_many_times_as_large():
    table = sq.data.table(RNG.normal(size=(200, 2)))
    for covariance in ("full", "diagonal", "tied"):
        one = GaussianMixture(1, covariance).fit(table, None, 1, torch.device("cpu"))
        wide = one.widened(4.0).model()
        torch.testing.assert_close(wide.variance(), 4 * one.model().variance())
        torch.testing.assert_close(wide.mean(), one.model().mean())


def test_a_wider_member_keeps_the_share_of_rows_on_a_value_that_most_of_them_have():
    rain = np.where(RNG.random(300) < 0.9, 0.0, RNG.exponential(3.0, 300).round(4))
    table = sq.data.table({"rain": rain, "x": RNG.normal(size=300) + (rain > 0)})
    one = GaussianMixture(3, knots=64).fit(table, None, 1, torch.device("cpu"))
    column = table.columns[0]
    for width in (1.0, 2.5):
        drawn = one.widened(width).model().sample(4000, seed=0).reshape(-1, 2).detach()
        zeros = (column.rounded(drawn[:, 0].numpy()) == 0).mean()
        assert zeros == pytest.approx((rain == 0).mean(), abs=0.02)
    spread = one.widened(2.5).found.covariances[:, 1, 1] / one.found.covariances[:, 1, 1]
    torch.testing.assert_close(spread, torch.full_like(spread, 2.5))


def test_periodic_columns_are_left_to_trees():
    angles = {"angle": RNG.uniform(0, 360, 60), "x": RNG.normal(size=60)}
    table = sq.data.table(angles, {"angle": "periodic:360"})
    assert {type(one).__name__ for one in candidates(table, ["mixtures", "trees"], 1e12)} == {"Tree"}
    with pytest.raises(sq.ParameterError, match="Fix: add 'trees'"):
        learn(table, members=["mixtures"], progress=False)


def test_rows_with_gaps_teach_and_are_scored_by_their_marginals():
    data = people()
    data["height"] = np.where(RNG.random(240) < 0.3, np.nan, data["height"])
    table = sq.data.table(data)
    member = GaussianMixture(3, knots=8).fit(table, None, 1, torch.device("cpu"))
    found = member.model().log_prob(table.rows, table.missing)
    torch.testing.assert_close(found, member.log_prob(table.cells), atol=1e-8, rtol=1e-8)


def test_the_same_seed_gives_the_same_model_and_another_seed_another():
    x = RNG.normal(size=(150, 2))
    first, second, other = (
        learn(x, seed=seed, progress=False, members=["mixtures"], minutes=0.02).log_prob(x)
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_given_rows_weigh_the_members_where_there_are_many_and_join_them_where_there_are_few():
    x = RNG.normal(size=(4200, 1))
    model = learn(x[:4000], x[4000:], progress=False, members=["mixtures"], minutes=0.001)
    assert model.notes["learn"]["held out"] == "given rows"
    model = learn(x[:200], x[200:300], progress=False, members=["mixtures"], minutes=0.001)
    assert model.notes["learn"]["held out"] == "5 folds"
    assert model.notes["learn"]["rows"] == 300


def test_rows_of_weight_zero_teach_nothing():
    x = np.concatenate([RNG.normal(size=(200, 1)), RNG.normal(30, 1, size=(200, 1))])
    weights = np.repeat([1.0, 0.0], 200)
    model = learn(x, weights=weights, progress=False, members=["mixtures"], minutes=0.02)
    assert model.log_prob([[0.0]]).item() - model.log_prob([[30.0]]).item() > 5


def test_models_are_saved_with_transforms_and_bins(model, tmp_path):
    model.save(tmp_path / "people.safetensors")
    again = sq.load(tmp_path / "people.safetensors")
    rows = sq.data.table(people()).rows
    torch.testing.assert_close(again.log_prob(rows), model.log_prob(rows))
    assert again.notes["learn"]["members"] == model.notes["learn"]["members"]


def test_encodings_change_no_density():
    x = np.concatenate([np.zeros(300), RNG.lognormal(size=200)])[:, None]
    table = sq.data.table(x, {"0": "continuous"})
    for encoding in (Encoding.fit(table, 32, 0), Encoding.fit(table, 0, 32)):
        seen, logs = encoding(table.cells)
        assert torch.isfinite(logs).all()
        assert seen.x.shape == x.shape


def test_columns_with_many_equal_values_have_spikes():
    assert has_spikes(np.array([0.0] * 92 + [float(v) for v in range(8)]))
    assert not has_spikes(RNG.normal(size=500))
    assert not has_spikes(np.array([np.nan, np.nan, 1.0]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minutes": 0}, "minutes=0"),
        ({"minutes": float("nan")}, "minutes=nan"),
        ({"members": ["mixture"]}, "did you mean 'mixtures'"),
        ({"members": "mixtures"}, "pass a list of kinds"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_learnt(options, words):
    with pytest.raises(sq.ParameterError, match=words):
        learn(RNG.normal(size=(50, 2)), progress=False, **options)


def test_weights_of_other_rows_are_refused():
    with pytest.raises(sq.DataError, match=r"weights: shape \(2,\) for 50 rows"):
        learn(RNG.normal(size=(50, 2)), weights=[1.0, 2.0], progress=False)


def test_images_are_sent_to_their_own_models():
    with pytest.raises(sq.ParameterError, match=r"learn is for tables.*sq\.model_for"):
        learn(np.zeros((20, 4, 4), dtype=np.uint8))


def test_parts_of_tables_keep_types():
    table = sq.data.table(people())
    assert part_of(table, np.arange(10)).schema == table.schema


def test_rows_from_loaders_of_torch_are_learnt_like_the_same_rows_in_an_array():
    rows = torch.tensor(np.column_stack([people()["height"], people(seed=1)["height"]]))
    data = torch.utils.data.TensorDataset(rows)
    loader = torch.utils.data.DataLoader(data, batch_size=50)
    models = [learn(given, progress=False, minutes=0.01) for given in (rows.numpy(), data, loader)]
    wanted, *found = (model.log_prob(rows) for model in models)
    assert all(torch.equal(one, wanted) for one in found)


def test_callbacks_see_every_candidate_and_end_the_search():
    seen = []
    model = learn(people(), progress=False, minutes=0.1, callbacks=[lambda event: seen.append(event)])
    tried = model.notes["learn"]["members"]
    assert len(tried) >= seen[-1].done == seen[-1].total == len(seen)
    assert seen[-1].scores["best"] == pytest.approx(max(row["score"] for row in tried))
    few = learn(people(), progress=False, minutes=0.1, callbacks=[lambda event: event.done == 2])
    names = {row["candidate"].split(", ")[0] for row in few.notes["learn"]["members"]}
    assert names <= {event.note.split(", ")[0] for event in seen[:2]}


def test_a_callback_that_cannot_be_called_is_refused_before_the_rows_are_read():
    with pytest.raises(sq.ParameterError, match="callbacks"):
        learn("nothing", callbacks=[1])


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_the_scale_of_weights_says_nothing(scale):
    rows = {name: values[:60] for name, values in people().items()}
    weights = np.arange(60) % 3
    first, second = (learn(rows, weights=w, progress=False, minutes=0.01) for w in (weights, weights * scale))
    asked = {"sex": ["f", "m"], "height": [1.6, 1.8], "income": [0.0, 900.0]}
    assert first.log_prob(asked).tolist() == pytest.approx(second.log_prob(asked).tolist(), abs=1e-6)


def test_too_few_rows_are_refused_with_one_fix():
    with pytest.raises(sq.DataError) as caught:
        learn({"a": [1.5, 2.5], "b": ["x", "y"]}, members=["trees"], progress=False)
    assert str(caught.value).count("Fix:") == 1
    assert "from 2 rows" in str(caught.value)


def test_two_rows_are_enough_for_one_gaussian():
    model = learn({"a": [1.5, 2.5], "b": ["x", "y"]}, progress=False, minutes=0.01)
    assert model.log_partition().item() == pytest.approx(0, abs=1e-9)
    assert {row["candidate"].split()[0] for row in model.notes["learn"]["members"]} <= {"1", "tree"}


def test_of_few_rows_and_many_columns_only_small_candidates_are_tried():
    few, enough = (candidates(sq.data.table(RNG.normal(size=(n, 9))), ["mixtures"], 1e12) for n in (50, 300))
    assert all(one.components == 1 or one.independent for one in few)
    assert any(one.components > 5 for one in enough)


def test_a_prior_that_takes_columns_to_be_independent_makes_correlations_smaller_and_keeps_variances():
    x = torch.from_numpy(RNG.normal(size=(30, 1)) + 0.1 * RNG.normal(size=(30, 3)))
    plain, apart = (fit_mixture(x, 1, prior=30.0, independent=s).covariances[0] for s in (0.0, 1.0))
    torch.testing.assert_close(apart.diagonal(), plain.diagonal(), rtol=1e-4, atol=0)
    torch.testing.assert_close(
        apart[0, 1:], plain[0, 1:] / 2, rtol=1e-4, atol=0
    )  # 30 rows and 30 of the prior
    with pytest.raises(sq.ParameterError, match="independent=2"):
        fit_mixture(x, 1, independent=2.0)


def test_numbers_that_repeat_are_found_as_well_as_by_a_mixture_of_scikit_learn():
    from sklearn.mixture import GaussianMixture as Peer

    rolls = np.random.default_rng(0).poisson(2.0, (500, 2)) / np.pi  # no step that would be found
    seen, new = rolls[:400], rolls[400:]
    columns = {"0": "continuous", "1": "continuous"}
    model = learn(sq.data.table(seen, columns), members=["mixtures"], progress=False, minutes=0.1)
    peer = Peer(30, reg_covar=1e-6, random_state=0).fit(seen)
    assert model.log_prob(new).mean().item() > peer.score(new)


def test_all_rows_are_learnt_from_with_what_one_fold_has_found_as_the_start():
    table = sq.data.table(RNG.normal(size=(80, 2)) + 6 * RNG.integers(0, 2, (80, 1)))
    candidate = GaussianMixture(2, prior=0.3, knots=8)
    fold = candidate.fit(part_of(table, range(60)), None, 0, torch.device("cpu"))
    found = candidate.refit(fold, table, 5, torch.device("cpu"))
    again = candidate.refit(fold, table, 6, torch.device("cpu"))
    assert torch.equal(found.found.means, again.found.means)  # the seed draws starts, and there is none
    torch.testing.assert_close(found.model().log_prob(table.rows), found.log_prob(table.cells))


def test_without_minutes_a_search_ends_by_work_and_not_by_how_busy_the_machine_is(monkeypatch):
    clock = {"waited": 0.0, "worked": 0.0}
    monkeypatch.setattr("time.monotonic", lambda: clock["waited"])
    monkeypatch.setattr("time.process_time", lambda: clock["worked"])
    table = sq.data.table(RNG.normal(size=(50, 2)))
    begun = {"started": 0.0, "worked": 0.0}
    ours, asked = (replace(Budget.of(table, minutes), **begun) for minutes in (None, 1.25))
    assert ours.seconds == asked.seconds == 75
    clock |= {"waited": 500.0, "worked": 30.0}  # other programs had the processors
    assert not ours.is_spent(20)
    assert asked.is_spent(1)
    assert not asked.is_spent(0)
    clock |= {"waited": 601.0}
    assert ours.is_spent(Budget.FLOOR)
    assert not ours.is_spent(Budget.FLOOR - 1)
    clock |= {"waited": 301.0, "worked": 301.0}
    assert ours.is_spent(Budget.FLOOR)
    assert not ours.is_spent(Budget.FLOOR - 1)


def test_a_column_that_nearly_determines_another_gains_its_nats():
    rng, noise = np.random.default_rng(0), 1e-4
    rows = [np.stack([z, z + noise * rng.normal(size=400)], axis=1) for z in rng.normal(size=(2, 400))]
    table = sq.data.table(rows[0])
    member = GaussianMixture(1, prior=0.3).fit(table, None, 0, torch.device("cpu"))
    entropy = 1 + np.log(2 * np.pi * noise)  # of z, and of what is added to it
    found = member.log_prob(table.schema.encode(rows[1])).mean().item()
    assert found == pytest.approx(-entropy, abs=0.15)
    assert member.model().log_prob(rows[1]).mean().item() == pytest.approx(found, abs=1e-6)
