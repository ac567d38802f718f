"""Laws of the estimators: exact densities, untouched observations, the same result from the same seed."""

from __future__ import annotations

import io
import math
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import squircuit as sq
from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Parameter
from squircuit.data import Rows
from squircuit.estimators.means import means
from squircuit.models.mixture import unmixed

Density = sq.estimators.SquaredCircuitDensity
Imputer = sq.estimators.SquaredCircuitImputer
Outlier = sq.estimators.SquaredCircuitOutlier
FEW = {"epochs": 4, "random_state": 0}
NAN = float("nan")


def points(n: int = 120, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 2))


def people(n: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=n)
    columns = {
        "colour": np.array(["blue", "green", "red"], dtype=object)[group],
        "children": rng.integers(4, size=n).astype(float),
        "height": 1.6 + 0.1 * group + 0.03 * rng.normal(size=n),
    }
    frame = pd.DataFrame(columns, index=[f"row {i}" for i in range(n)])
    frame.loc["row 0", "colour"] = None
    frame.loc["row 1", ["children", "height"]] = np.nan
    return frame


@pytest.fixture(scope="module")
def density():
    return Density(**FEW).fit(points())


@pytest.fixture(scope="module")
def of_people():
    return Density(**{**FEW, "epochs": 15}).fit(people())


# ------------------------------------------------------------------ densities


def test_scores_are_the_exact_log_density_of_the_circuit(density):
    x = points(20, seed=1)
    circuit = density.model_.circuit()
    exact = sq.evaluate(circuit, torch.from_numpy(x)).abs().square() @ circuit.root_shares
    assert density.score_samples(x) == pytest.approx(exact.log().numpy(), abs=1e-9)
    assert density.score(x) == pytest.approx(exact.log().sum().item())


def test_the_density_of_one_column_integrates_to_one():
    one = Density(**FEW).fit(points()[:, :1])
    grid = np.linspace(-30, 30, 200_001)
    assert np.trapezoid(np.exp(one.score_samples(grid[:, None])), grid) == pytest.approx(1, abs=1e-9)


def test_the_density_of_two_columns_integrates_to_one_and_nan_marginalises(density):
    families = {layer.variable: layer.family for layer in density.model_.structure.inputs}
    (x, v), (y, w) = ((part.numpy() for part in families[k].rule()) for k in range(2))
    rows = np.stack(np.meshgrid(x, y, indexing="ij"), axis=2).reshape(-1, 2)
    first = np.exp(density.score_samples(rows)).reshape(len(x), len(y)) @ w
    assert first @ v == pytest.approx(1, abs=1e-6)
    asked = np.stack([x, np.full(len(x), NAN)], axis=1)
    assert np.exp(density.score_samples(asked)) == pytest.approx(first, abs=1e-6)


def test_a_row_without_cells_scores_zero(density):
    assert density.score_samples([[NAN, NAN]]) == pytest.approx([0.0], abs=1e-12)


def test_probabilities_of_mixed_columns_add_up_with_what_was_never_seen(of_people):
    states = [(c, n, NAN) for c in ("blue", "green", "red", "pink") for n in (0, 1, 2, 3, 9)]
    frame = pd.DataFrame(states, columns=["colour", "children", "height"])
    scores = of_people.score_samples(frame).reshape(4, 5)
    assert np.exp(scores).sum() == pytest.approx(1)
    new = 1 / (2 * people().count() + 2)
    assert np.exp(scores[3]).sum() == pytest.approx(new["colour"])
    assert np.exp(scores[:, 4]).sum() == pytest.approx(new["children"])


def test_a_fold_without_a_rare_value_scores_it_as_improbable_and_not_as_impossible():
    rng = np.random.default_rng(0)
    texts = np.concatenate([["once"], ["twice"] * 2, rng.choice(["a", "b", "c"], 57)]).astype(object)
    frame = pd.DataFrame({"text": texts, "size": rng.normal(size=60)})
    folds = cross_val_score(Density(**FEW), frame, cv=KFold(3))
    assert np.isfinite(folds).all()


def test_polars_and_pandas_frames_score_alike_and_samples_come_back_as_frames(of_people):
    frame = people()
    again = Density(**{**FEW, "epochs": 15}).fit(pl.from_pandas(frame))
    assert again.score_samples(pl.from_pandas(frame)) == pytest.approx(of_people.score_samples(frame))
    drawn = of_people.sample(200, random_state=0)
    assert list(drawn.columns) == ["colour", "children", "height"]
    assert set(drawn["colour"]) == {"blue", "green", "red"}
    assert drawn["height"].dtype == np.float64
    means = drawn.groupby("colour")["height"].mean()
    assert means["blue"] < means["green"] < means["red"]
    assert isinstance(again.sample(2, random_state=0), pl.DataFrame)


def test_types_of_columns_are_inferred_from_values_and_overridden():
    x = np.stack([np.arange(40) % 3, np.linspace(0, 1, 40), np.arange(40) % 2], axis=1)
    kinds = [column.kind for column in Density(**FEW).fit(x).model_.schema.columns]
    assert kinds == ["count", "continuous", "binary"]
    fitted = Density(**FEW, columns={0: "count:0:9", "2": "drop"}).fit(x)
    assert [column.size for column in fitted.model_.schema.columns] == [10, 0]
    assert np.isfinite(fitted.score_samples([[7, 0.5, 1]]))
    everywhere = Density(**FEW, columns="continuous").fit(x[:, :2])
    assert {column.kind for column in everywhere.model_.schema.columns} == {"continuous"}


def test_training_fits_better_than_no_training():
    x, new = points(200), points(300, seed=1)
    first = Density(epochs=1, lr=1e-9, random_state=0).fit(x).score(new)
    assert Density(epochs=15, random_state=0).fit(x).score(new) > first + 100


# ------------------------------------------------------------------ randomness, copies


@pytest.mark.parametrize("make", [Density, Outlier])
def test_the_same_random_state_gives_the_same_scores_and_another_one_others(make):
    x = points()
    a, b = (make(**FEW).fit(x).score_samples(x) for _ in range(2))
    other = make(**{**FEW, "random_state": 1}).fit(x).score_samples(x)
    assert (a == b).all()
    assert (a != other).any()


def test_the_same_random_state_gives_the_same_samples(density):
    a, b, other = (density.sample(5, random_state=seed) for seed in (3, 3, 4))
    assert (a == b).all()
    assert (a != other).any()


class Plain(pickle.Unpickler):
    """Remembers of which modules a pickle wants something."""

    def __init__(self, file):
        super().__init__(file)
        self.modules = set()

    def find_class(self, module, name):
        self.modules.add(module.partition(".")[0] if not module.startswith("squircuit") else module)
        return super().find_class(module, name)


def require_same(again, of_people):
    frame = people()
    assert (again.score_samples(frame) == of_people.score_samples(frame)).all()
    assert again.history_.to_dict() == of_people.history_.to_dict()
    assert again.model_.schema == of_people.model_.schema


def test_pickles_answer_alike_and_hold_plain_data(of_people):
    unpickler = Plain(io.BytesIO(pickle.dumps(of_people)))
    require_same(unpickler.load(), of_people)
    assert unpickler.modules <= {"squircuit.estimators.density", "numpy", "builtins", "copyreg"}


def test_joblib_keeps_it(of_people, tmp_path):
    joblib.dump(of_people, tmp_path / "people.joblib")
    require_same(joblib.load(tmp_path / "people.joblib"), of_people)


def test_clones_have_the_parameters_and_nothing_learnt(density):
    copy = clone(density)
    assert copy.get_params() == density.get_params()
    with pytest.raises(NotFittedError):
        copy.score_samples(points())
    assert copy.set_params(units=4).units == 4


def test_it_works_in_pipelines_searches_and_cross_validation():
    x = points()
    pipeline = make_pipeline(StandardScaler(), Density(**FEW))
    search = GridSearchCV(pipeline, {"squaredcircuitdensity__units": np.array([1, 4])}, cv=2).fit(x)
    assert search.best_params_ == {"squaredcircuitdensity__units": 4}  # one unit: independent columns
    assert np.isfinite(cross_val_score(Density(**FEW), x, cv=2)).all()


# ------------------------------------------------------------------ imputation


def gaps(x: np.ndarray, seed: int = 0) -> np.ndarray:
    holes = np.random.default_rng(seed).random(x.shape) < 0.3
    return np.where(holes, NAN, x)


@pytest.mark.parametrize("strategy", ["mean", "mode", "sample"])
def test_observed_cells_are_untouched_and_all_others_filled(strategy):
    x = gaps(points())
    filled = Imputer(strategy, **FEW).fit_transform(x)
    known = ~np.isnan(x)
    assert (filled[known] == x[known]).all()
    assert np.isfinite(filled).all()
    assert (filled == Imputer(strategy, **FEW).fit_transform(x)).all()


def test_the_mean_is_that_of_the_conditional_density():
    imputer = Imputer(**FEW).fit(points())
    grid = np.linspace(-40, 40, 400_001)
    rows = torch.from_numpy(np.stack([np.full(400_001, 0.7), grid], axis=1))
    p = imputer.model_.log_prob(rows).exp().detach().numpy()
    mean = np.trapezoid(grid * p, grid) / np.trapezoid(p, grid)
    assert imputer.transform([[0.7, NAN]])[0, 1] == pytest.approx(mean, abs=1e-7)
    mode = grid[p.argmax()]
    assert imputer.set_params(strategy="mode").transform([[0.7, NAN]])[0, 1] == pytest.approx(mode, abs=1e-2)


def test_the_mean_of_a_discrete_column_is_of_its_values_and_that_of_a_circle_its_direction():
    rng = np.random.default_rng(0)
    x = np.stack([rng.choice([5.0, 7.0], 200), np.mod(rng.normal(0, 10, 200), 360)], axis=1)
    imputer = Imputer(**FEW, columns={1: "periodic:360"}).fit(x)
    number, angle = imputer.transform([[NAN, NAN]])[0]
    p = np.exp([imputer.model_.log_prob([[k, NAN]]).item() for k in (0, 1)])
    assert number == pytest.approx(p @ [5, 7])
    assert min(angle, 360 - angle) < 40  # the mean of numbers would be near 180


def test_the_mean_of_a_mixture_is_the_average_of_its_members_means_by_their_shares():
    x = points(60)
    x[:, 1] = x[:, 1] > 0
    imputer = Imputer(**FEW, members=2).fit(x)
    members = unmixed(imputer.model_)
    assert len(members) > 1
    grid = np.linspace(-40, 40, 80_001)
    number, state = 0.0, 0.0
    for share, member in members:
        rows = torch.from_numpy(np.stack([grid, np.full(80_001, 1.0)], axis=1))
        p = member.log_prob(rows).exp().detach().numpy()
        number += share * np.trapezoid(grid * p, grid) / np.trapezoid(p, grid)
        odds = np.exp([member.log_prob([[0.7, k]]).item() for k in (0, 1)])
        state += share * odds[1] / odds.sum()
    assert imputer.transform([[NAN, 1.0]])[0, 0] == pytest.approx(number, abs=1e-5)
    assert imputer.transform([[0.7, NAN]])[0, 1] == pytest.approx(state, abs=1e-9)


def test_a_member_that_holds_a_row_to_be_impossible_has_no_say_in_its_gaps():
    tables = ([[0.5, 0.5], [1.0, 0.0]], [[0.2, 0.8], [0.5, 0.5]])  # of two columns, in two members
    members = []
    for number, table in enumerate(tables):
        inputs = [Input(v, sq.Categorical(2), weight=fixed(p, f"{number}.{v}")) for v, p in enumerate(table)]
        members.append((0.5, sq.SquaredCircuit(Circuit(Hadamard(inputs)), dtype=torch.float64)))
    x = np.array([[0.0, 1.0], [0.0, 0.0]])
    rows = Rows(x, np.array([[True, False], [True, False]]))
    columns = sq.data.table({"a": [0, 1], "b": [1, 0]}).columns
    found = means(members, rows, columns)
    assert list(found) == [0]
    assert found[0] == pytest.approx([0.8, (0.5 + 0.8) / 2])


def fixed(probabilities, name):
    value = torch.tensor([probabilities], dtype=torch.float64).sqrt()
    return Parameter((1, 2), Constraint.FREE, False, name, value)


def test_samples_follow_the_conditional_density():
    imputer = Imputer("sample", epochs=10, random_state=0).fit(points(200))
    drawn = imputer.transform(np.tile([[1.0, NAN]], (2000, 1)))[:, 1]
    mean = imputer.model_.mean([[1.0, NAN]])[0, 1].item()
    deviation = math.sqrt(imputer.model_.variance([[1.0, NAN]])[0, 1].item())
    assert abs(drawn.mean() - mean) < 5 * deviation / math.sqrt(2000)
    assert drawn.std() == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_with_texts_go_in_and_come_out_with_their_types(kind):
    frame = people()
    given = frame if kind == "pandas" else pl.from_pandas(frame)
    imputer = Imputer("mode", **{**FEW, "epochs": 15}).set_output(transform=kind).fit(given)
    filled = imputer.transform(given)
    assert type(filled) is type(given)
    assert list(filled.columns) == list(imputer.get_feature_names_out()) == list(frame.columns)
    table = filled if kind == "pandas" else filled.to_pandas().set_axis(frame.index)
    assert list(table.index) == list(frame.index)
    assert table["height"].dtype == np.float64
    assert not table.isna().to_numpy().any()
    pd.testing.assert_frame_equal(table[2:], frame[2:], check_dtype=False)


def test_a_value_never_seen_stays_and_the_rest_is_filled_as_if_it_were_missing():
    imputer = Imputer(**FEW).fit(people())
    new = pd.DataFrame([("pink", 1.0, NAN), (None, 1.0, NAN)], columns=people().columns)
    filled = imputer.transform(new)
    assert filled.iloc[0, 0] == "pink"
    assert filled.iloc[0, 2] == pytest.approx(filled.iloc[1, 2], rel=1e-12)


def test_columns_that_are_dropped_pass_through():
    frame = people().assign(name=[f"person {i}" for i in range(150)])
    imputer = Imputer(**FEW, columns={"name": "drop"}).set_output(transform="pandas").fit(frame)
    assert (imputer.transform(frame)["name"] == frame["name"]).all()


# ------------------------------------------------------------------ outliers


def test_scores_by_pairs_are_means_of_log_densities_of_two_columns_with_the_others_integrated_out():
    x = np.random.default_rng(0).normal(size=(80, 3))
    x[5, 1] = np.nan
    by_rows, by_pairs = (Outlier(pairs=pairs, **FEW).fit(x) for pairs in (False, True))
    shown = [[0, 1], [1, 2], [0, 2]]
    parts = [np.full_like(x, np.nan) for _ in shown]
    for part, columns in zip(parts, shown, strict=True):
        part[:, columns] = x[:, columns]
    expected = np.mean([by_rows.score_samples(part) for part in parts], axis=0)
    np.testing.assert_allclose(by_pairs.score_samples(x), expected, rtol=1e-6)
    assert (by_pairs.predict(x) == -1).mean() == pytest.approx(0.1, abs=0.02)


def test_the_share_of_outliers_among_the_training_rows_is_the_contamination():
    x = points(200)
    detector = Outlier(contamination=0.05, **FEW).fit(x)
    assert (detector.predict(x) == -1).mean() == pytest.approx(0.05)
    assert detector.decision_function(x) == pytest.approx(detector.score_samples(x) - detector.offset_)
    assert detector.predict([[30.0, -30.0], [0.0, 0.0]]).tolist() == [-1, 1]


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (Density(columns={"9": "continuous"}), "no column '9'"),
        (Density(epochs=0), "epochs=0"),
        (Density(columns="continous"), "did you mean 'continuous'"),
        (Imputer("median"), "strategy='median'"),
        (Outlier(contamination=0.9), r"contamination=0\.9"),
    ],
)
def test_wrong_parameters_are_named(estimator, words):
    with pytest.raises(sq.ParameterError, match=words):
        estimator.fit(points())


@pytest.mark.process
def test_without_scikit_learn_all_else_is_imported_and_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import squircuit as sq; from squircuit import *\n"
        "try: sq.estimators\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "pip install 'squircuit[estimators]'" in done.stdout, done.stderr


@pytest.mark.parametrize("dtype", [str, object])
def test_an_array_of_texts_is_refused_with_the_way_to_pass_it(dtype):
    X = np.array([["a", "b"], ["c", "d"]] * 10, dtype=dtype)
    with pytest.raises(sq.DataError, match=r"an array with texts, such as 'a'\. Fix: pass a data frame"):
        Density(epochs=1).fit(X)
    assert Density(epochs=1, random_state=0).fit(pd.DataFrame(X)).score_samples(pd.DataFrame(X)).shape == (
        20,
    )


def test_several_members_are_the_mixture_of_models_with_other_seeds_on_trees_of_drawn_rows():
    X = np.random.default_rng(0).normal(size=(60, 4))
    trees = [sq.regions.chow_liu(X), sq.regions.chow_liu(X, resample=1)]
    assert trees[0] != trees[1]
    options = {"units": 2, "epochs": 2, "size": 6}
    mixed = sq.estimators.SquaredCircuitDensity(members=2, components=2, random_state=0, **options).fit(X)
    seed = mixed._seed(0)
    table = sq.data.table(X)
    scores = []
    for number, tree in enumerate(trees):
        shape = {"size": 6, "components": 2, "regions": tree}
        model = sq.table_model(table, 2, **shape, seed=seed + number, dtype=torch.complex128)
        sq.fit(model, table, seed=seed + number, epochs=2, patience=10, valid_fraction=0.1, progress=False)
        scores.append(model.log_prob(torch.as_tensor(X)).detach().exp())
    assert np.exp(mixed.score_samples(X)) == pytest.approx((scores[0] + scores[1]).numpy() / 2)
    assert pickle.loads(pickle.dumps(mixed)).score(X) == pytest.approx(mixed.score(X))
    with pytest.raises(sq.ParameterError, match="members=0"):
        sq.estimators.SquaredCircuitDensity(members=0).fit(X)


@pytest.mark.parametrize("make", [Density, Imputer, Outlier])
@pytest.mark.parametrize("frame", [False, True])
def test_rows_of_sample_weight_0_are_as_absent_bit_for_bit(make, frame):
    X = people() if frame else points()
    weights = np.arange(len(X)) % 3
    some = make(**FEW).fit(X, sample_weight=weights)
    other = make(**FEW).fit(X[weights > 0], sample_weight=weights[weights > 0])
    assert some.history_.best.valid == other.history_.best.valid
    if make is Outlier:
        assert some.offset_ == pytest.approx(other.offset_, abs=1e-12)  # rounding goes by the rows at once
    pairs = zip(some.model_.parameters(), other.model_.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_sample_weights_move_the_density_where_the_weight_is():
    X = np.array([[0, 0], [0, 1], [1, 1]]).repeat(80, axis=0)
    weights = np.repeat([1.0, 1.0, 6.0], 80)
    shares = []
    for given in (None, weights):
        density = Density(roots=1, epochs=40, patience=0, random_state=0).fit(X, sample_weight=given)
        shares.append(np.exp(density.score_samples([[1, 1], [0, 1], [NAN, 1]])))
    assert shares[0] == pytest.approx([1 / 3, 1 / 3, 2 / 3], abs=0.05)
    assert shares[1] == pytest.approx([3 / 4, 1 / 8, 7 / 8], abs=0.05)


def test_the_threshold_of_outliers_is_a_share_of_the_weight():
    X, weights = points(), np.r_[np.full(60, 3.0), np.full(60, 1.0)]
    found = Outlier(contamination=0.2, **FEW).fit(X, sample_weight=weights)
    scores = found.score_samples(X)
    below = weights[scores < found.offset_].sum() / weights.sum()
    assert below <= 0.2 <= below + weights[scores == found.offset_].sum() / weights.sum()


# ------------------------------------------------------------------ resolution


def stones(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"price": rng.integers(326, 9000, n), "carat": rng.integers(20, 300, n) / 100})


def on_the_lattice(found) -> tuple[bool, bool]:
    """Whether the prices are whole numbers, and the carats those of two decimals."""
    price, carat = np.asarray(found, dtype=float).T
    return bool((price == np.rint(price)).all()), bool((carat == np.rint(carat * 100) / 100).all())


def test_samples_have_the_resolution_of_the_training_data():
    assert on_the_lattice(Density(**FEW).fit(stones()).sample(50, random_state=0)) == (True, True)
    assert on_the_lattice(Density(**FEW).fit(stones().to_numpy()).sample(50, random_state=0)) == (True, True)


def test_modes_and_samples_of_gaps_have_the_resolution_of_the_training_data_and_means_none():
    gaps = np.array([[400.5, NAN], [500.0, NAN], [NAN, 0.123], [NAN, 1.1]])
    for strategy, expected in (("sample", True), ("mode", True), ("mean", False)):
        filled = (
            Imputer(strategy=strategy, **FEW)
            .fit(stones())
            .transform(pd.DataFrame(gaps, columns=["price", "carat"]))
            .to_numpy()
        )
        known = ~np.isnan(gaps)
        np.testing.assert_array_equal(filled[known], gaps[known])
        assert on_the_lattice(np.stack([filled[2:, 0], filled[:2, 1]], axis=1)) == (expected, expected)


def types_of(frame):
    if hasattr(frame, "column_names"):
        return dict(zip(frame.column_names, frame.schema.types, strict=True))
    return dict(zip(frame.columns, frame.dtypes, strict=True))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_come_out_with_their_library_types_and_index(library):
    rng = np.random.default_rng(0)
    columns = {"n": rng.integers(0, 5, 60), "warm": rng.random(60) < 0.5, "kind": rng.choice(["a", "b"], 60)}
    frame = pd.DataFrame(columns, index=np.arange(60) * 2).astype({"n": "Int16", "warm": "boolean"})
    frame.iloc[[3, 7], [0, 1]] = None
    given = (
        frame
        if library == "pandas"
        else pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)
    )
    given = pytest.importorskip("polars").from_arrow(given) if library == "polars" else given
    filled = Imputer(strategy="mode", **FEW).fit(given).transform(given)
    drawn = Density(**FEW).fit(given).sample(5, random_state=0)
    for found in (filled, drawn):
        assert type(found) is type(given)
        assert types_of(found) == types_of(given)
    if library == "pandas":
        assert filled.index.equals(frame.index)
        known = frame.notna()
        assert filled.where(known).equals(frame)
        assert not filled.isna().any(axis=None)
