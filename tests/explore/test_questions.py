"""What the page is told is what enumeration of all rows, or an integral, says."""

import math

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.explore.exhibit import MOST_COLUMNS

from .conftest import asked, every_image, page_of, people, refusal

images = pytest.mark.parametrize("page", ["image_model"], indirect=True)
tables = pytest.mark.parametrize("page", ["table_model"], indirect=True)
dates = pytest.mark.parametrize("page", ["date_model"], indirect=True)
SEEN = [2, None, 0, None, None, 1]


def agreeing(states, pixels):
    """The rows that show what is seen."""
    fits = [states[:, v] == value for v, value in enumerate(pixels) if value is not None]
    return torch.stack(fits).all(dim=0) if fits else torch.ones(len(states), dtype=torch.bool)


@images
def test_the_likelihood_of_what_is_seen_is_the_sum_over_all_images_that_show_it(page, image_model):
    states, p = every_image(image_model)
    assert p.sum().item() == pytest.approx(1, abs=1e-5)
    expected = p[agreeing(states, SEEN)].sum().log().item()
    answer = asked(page, "likelihood", pixels=SEEN)
    assert answer["log_prob"] == pytest.approx(expected, abs=1e-4)
    assert answer["bits"] == pytest.approx(-expected / 3 / math.log(2), abs=1e-4)
    assert answer["members"] == []


@images
def test_mean_and_spread_of_pixels_are_those_of_all_images_that_show_what_is_seen(page, image_model):
    states, p = every_image(image_model)
    fits = agreeing(states, SEEN)
    x, shares = states[fits].double(), p[fits] / p[fits].sum()
    mean = shares @ x
    deviation = (shares @ (x - mean).square()).sqrt()
    answer = asked(page, "spread", pixels=SEEN)
    assert answer["mean"] == pytest.approx(mean.tolist(), abs=1e-4)
    assert answer["deviation"] == pytest.approx(deviation.tolist(), abs=1e-3)


@images
def test_completions_keep_what_is_seen_and_are_as_frequent_as_enumeration_says(page, image_model):
    states, p = every_image(image_model)
    fits = agreeing(states, SEEN)
    shares = dict(zip(map(tuple, states[fits].tolist()), (p[fits] / p[fits].sum()).tolist(), strict=True))
    drawn = [
        tuple(image)
        for seed in range(20)
        for image in asked(page, "completions", pixels=SEEN, count=24, seed=seed)["completions"]
    ]
    assert len(drawn) == 480
    likeliest = max(shares, key=shares.get)
    q = shares[likeliest]
    assert abs(drawn.count(likeliest) / 480 - q) < 5 * math.sqrt(q * (1 - q) / 480)
    assert set(drawn) <= set(shares)


@pytest.mark.parametrize("page", ["mixture"], indirect=True)
def test_the_class_of_an_image_is_by_the_rule_of_bayes(page, mixture, image_model):
    pixels = [1, 0, 2, 1, 0, 0]
    joint = [math.log(w) for w in (0.25, 0.75)]
    first = image_model.log_prob([pixels]).item()
    total = mixture.log_prob([pixels]).item()
    expected = math.exp(joint[0] + first - total)
    answer = asked(page, "likelihood", pixels=pixels)
    assert answer["classes"] == ["first", "second"]
    assert answer["members"] == pytest.approx([expected, 1 - expected], abs=1e-4)
    described = asked(page, "model")
    assert [member["share"] for member in described["members"]] == pytest.approx([0.25, 0.75])


@images
@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        ([1, 2], "2 numbers, but the model has 6 pixels"),
        ([1, 2, 3, 0, 0, 0], "3"),
        ([1.5, 0, 0, 0, 0, 0], "1.5 is no level"),
        (["x", 0, 0, 0, 0, 0], "'x' is no number"),
        ("all", "'all' is no list"),
    ],
)
def test_wrong_pixels_are_refused_in_one_line_that_names_them(page, pixels, said):
    assert said in refusal(page, "likelihood", pixels=pixels)


def density(model, cells, points):
    """p(height) on a grid by complete rows, all else summed over its states."""
    schema = model.schema
    total = torch.zeros(len(points), dtype=torch.float64)
    for group in ("a", "b", "c"):
        for children in schema.columns[1].states:
            for sex in ("f", "m"):
                row = {"group": group, "children": children, "sex": sex}
                if all(row[name] == value for name, value in cells.items()):
                    rows = [[group, children, x, sex] for x in points]
                    total += model.log_prob(torch.from_numpy(schema.encode(rows).x)).double().exp()
    return total


@tables
def test_distributions_given_a_cell_are_sums_and_integrals_of_the_joint_density(page, table_model):
    given = {"group": "b"}
    answer = asked(page, "distributions", evidence=given)
    height = answer["columns"]["height"]
    points = torch.tensor(height["points"], dtype=torch.float64)
    joint = density(table_model, given, points.tolist())
    wide = torch.linspace(0.5, 3.0, 2001, dtype=torch.float64)
    share = torch.trapezoid(density(table_model, given, wide.tolist()), wide)
    assert answer["log_prob"] == pytest.approx(share.log().item(), abs=1e-3)
    assert height["values"] == pytest.approx((joint / share).tolist(), rel=2e-3, abs=1e-3)
    for sex, p in zip(("f", "m"), answer["columns"]["sex"]["values"], strict=True):
        part = torch.trapezoid(density(table_model, {**given, "sex": sex}, wide.tolist()), wide)
        assert p == pytest.approx((part / share).item(), abs=1e-3)


@tables
def test_a_column_that_is_set_has_its_distribution_given_all_others_that_are(page, table_model):
    given = {"sex": "m", "group": "b"}
    found = asked(page, "distributions", evidence=given)["columns"]
    wide = torch.linspace(0.5, 3.0, 2001, dtype=torch.float64).tolist()
    for name, states in (("group", ("a", "b", "c")), ("sex", ("f", "m"))):
        joint = torch.stack([density(table_model, {**given, name: state}, wide) for state in states])
        p = torch.trapezoid(joint, torch.tensor(wide))
        assert found[name]["values"] == pytest.approx((p / p.sum()).tolist(), abs=1e-3)


@pytest.mark.parametrize("page", ["mixture"], indirect=True)
def test_completions_of_a_class_are_as_frequent_as_its_own_model_says(page, image_model):
    states, p = every_image(image_model)
    fits = agreeing(states, SEEN)
    mean, first = (p[fits] / p[fits].sum()) @ states[fits].double(), {"class": "first"}
    drawn = [
        image
        for seed in range(20)
        for image in asked(page, "completions", pixels=SEEN, count=24, seed=seed, **first)["completions"]
    ]
    assert torch.tensor(drawn).double().mean(dim=0).tolist() == pytest.approx(mean.tolist(), abs=0.2)
    assert "is no class" in refusal(page, "completions", pixels=SEEN, **{"class": "third"})


@tables
def test_a_pair_of_columns_has_the_joint_density_and_its_states_add_up_to_one(page, table_model):
    both = asked(page, "pair", x="group", y="sex")
    assert sum(map(sum, both["values"])) == pytest.approx(1, abs=1e-4)
    mixed = asked(page, "pair", x="height", y="children", evidence={"sex": "m"})
    points, states = mixed["x"]["points"], mixed["y"]["points"]
    wide = torch.linspace(0.5, 3.0, 2001, dtype=torch.float64)
    share = torch.trapezoid(density(table_model, {"sex": "m"}, wide.tolist()), wide)
    column = density(table_model, {"sex": "m", "children": states[1]}, points) / share
    assert [row[1] for row in mixed["values"]] == pytest.approx(column.tolist(), rel=2e-3, abs=1e-4)


@tables
def test_samples_keep_what_is_set_and_are_in_the_words_of_the_table(page):
    answer = asked(page, "samples", evidence={"group": "c", "height": 1.81234}, count=20)
    assert answer["names"] == ["group", "children", "height", "sex"]
    assert {(row[0], row[2]) for row in answer["rows"]} == {("c", 1.81234)}
    assert {row[3] for row in answer["rows"]} <= {"f", "m"}
    assert asked(page, "samples", seed=1) != asked(page, "samples", seed=2)


@tables
def test_the_oddest_cell_of_a_row_is_the_one_that_was_put_wrong(page, table_model):
    heights = people()["height"]
    row = f"a\t0\t{heights.max() + 0.4:.3f}\tf"
    answer = asked(page, "score", text=row)
    assert answer["oddest"] == "height"
    encoded = table_model.schema.encode([row.split("\t")])
    assert answer["log_prob"] == pytest.approx(table_model.log_prob(encoded.x).item(), abs=1e-4)
    sex = next(cell for cell in answer["cells"] if cell["column"] == "sex")
    both = {s: table_model.log_prob(table_model.schema.encode([[*row.split("\t")[:3], s]]).x) for s in "fm"}
    p = {s: both[s].double().exp().item() for s in "fm"}
    assert math.exp(sex["log_prob"]) == pytest.approx(p["f"] / (p["f"] + p["m"]), abs=1e-4)
    expected = 1.0 if p["f"] >= p["m"] else p["f"] / (p["f"] + p["m"])
    assert sex["tail"] == pytest.approx(expected, abs=1e-4)


@tables
def test_a_row_may_be_pasted_with_names_above_in_any_order_and_with_gaps(page):
    plain = asked(page, "score", text="b,2,1.7,")
    named = asked(page, "score", text="height;group;children\n1.7;b;2")
    assert named == plain
    assert [cell["column"] for cell in plain["cells"]] == ["group", "children", "height"]


@tables
@pytest.mark.parametrize(
    ("kind", "question", "said"),
    [
        ("distributions", {"evidence": {"grup": "a"}}, "did you mean 'group'?"),
        ("distributions", {"evidence": {"group": "z"}}, "unknown category 'z'"),
        ("distributions", {"evidence": {"height": "tall"}}, "'tall' is not a number"),
        ("distributions", {"evidence": {"height": [1]}}, "no cell"),
        ("distributions", {"evidence": 3}, "3 is no dict"),
        ("samples", {"count": 10**9}, "no whole number from 1 to 1000"),
        ("samples", {"seed": -1}, "no whole number"),
        ("score", {"text": "a,b"}, "2 cells, but the model has 4 columns"),
        ("score", {"text": " "}, "nothing was pasted"),
        ("score", {"text": ",,,"}, "every cell is empty"),
        ("score", {}, "None is no text"),
        ("pair", {"x": "sex", "y": "sex"}, "same column"),
    ],
)
def test_wrong_questions_are_refused_in_one_line_that_names_what_is_wrong(page, kind, question, said):
    assert said in refusal(page, kind, **question)


@tables
def test_the_page_is_told_the_columns_the_properties_and_the_drawing(page, table_model):
    described = asked(page, "model")
    assert [column["kind"] for column in described["columns"]] == [c.kind for c in table_model.schema.columns]
    assert described["columns"][0]["states"] == ["a", "b", "c"]
    low, high = described["columns"][2]["low"], described["columns"][2]["high"]
    heights = people()["height"]
    assert low < heights.min() < heights.max() < high
    found = asked(page, "properties")
    assert {entry["name"]: entry["holds"] for entry in found["properties"]}["unitary"] is True
    assert found["log_z"] == pytest.approx(0, abs=1e-5)
    drawn = asked(page, "drawing")
    assert "height" in drawn["svg"]
    assert sum(group["layers"] for group in drawn["groups"]) == described["layers"]


@dates
def test_distributions_given_a_date_are_those_given_its_parts_and_sums_over_complete_rows(page, date_model):
    parts = {"day.month": 2, "day.weekday": "Fri", "day.week_of_4": 2}
    answer = asked(page, "distributions", evidence={"day": "2024-02-09"})
    assert answer == asked(page, "distributions", evidence=parts)
    assert answer == asked(page, "distributions", evidence={"day": "09.02.2024"})  # as the table has it
    assert {name: answer["columns"][name]["value"] for name in parts} == parts
    states, p = every_image(date_model)
    fits = (states[:, :3] == torch.tensor([1, 4, 1])).all(dim=1)
    assert answer["log_prob"] == pytest.approx(p[fits].sum().log().item(), abs=1e-4)
    assert answer["columns"]["open"]["values"] == pytest.approx(
        (p[fits] / p[fits].sum()).reshape(5, 2).sum(dim=0).tolist(), abs=1e-4
    )
    both = asked(page, "distributions", evidence={"day": "2024-02-09", "open": "yes"})
    given = p * (states[:, 4] == 1)
    weekday = torch.stack([given[states[:, 1] == state].sum() for state in range(7)]) / given.sum()
    assert both["columns"]["day.weekday"]["values"] == pytest.approx(weekday.tolist(), abs=1e-4)


@dates
def test_a_date_is_sampled_and_scored_in_the_words_of_the_table(page, date_model):
    drawn = asked(page, "samples", evidence={"day": "2024-02-09"}, count=20)
    assert drawn["names"] == ["day", "open"]
    assert {row[0] for row in drawn["rows"]} == {"09.02.2024"}
    answer = asked(page, "score", text="09.02.2024; no")
    encoded = date_model.schema.encode([["09.02.2024", "no"]])
    expected = date_model.log_prob(encoded.x, encoded.missing).item()
    assert answer["log_prob"] == pytest.approx(expected, abs=1e-4)
    assert [cell["value"] for cell in answer["cells"]] == [
        "2 (09.02.2024)",
        "Fri (09.02.2024)",
        "2 (09.02.2024)",
        "no",
    ]


@dates
def test_a_pair_of_a_part_of_a_date_that_is_set_has_its_joint_distribution_given_the_other_parts(
    page, date_model
):
    both = asked(page, "pair", x="day.weekday", y="open", evidence={"day": "2024-02-09"})
    states, p = every_image(date_model)
    fits = (states[:, 0] == 1) & (states[:, 2] == 1)
    expected = (p[fits] / p[fits].sum()).reshape(7, 5, 2).sum(dim=1)  # Fridays of five are summed out
    assert torch.tensor(both["values"]).flatten().tolist() == pytest.approx(
        expected.flatten().tolist(), abs=1e-4
    )


@dates
@pytest.mark.parametrize(
    ("kind", "question", "said"),
    [
        ("distributions", {"evidence": {"day": "2024-02-30"}}, "column 'day': '2024-02-30' is no date"),
        ("distributions", {"evidence": {"day": "2023-02-03"}}, "its year is 2023, and in all rows"),
        ("distributions", {"evidence": {"day": 5}}, "column 'day'"),
        ("samples", {"evidence": {"dai": "2024-02-03"}}, "did you mean 'day'?"),
        ("score", {"text": "31.02.2024; no"}, "'31.02.2024' is no date as '31.12.2024'"),
    ],
)
def test_wrong_dates_are_refused_in_one_line(page, kind, question, said):
    assert said in refusal(page, kind, **question)


def test_the_field_of_a_date_is_what_its_parts_need_and_python_s_own_dates_become_texts():
    days = np.arange("2024-01-01", "2024-03-01", dtype="M8[D]")
    at = days.astype("M8[s]") + np.arange(len(days)) * np.timedelta64(61, "s")
    frame = {"day": days, "at": at, "midnight": days.astype("M8[s]"), "time": at.astype(object)}
    frame["time"] = [cell.time() for cell in frame["time"]]
    page = page_of(sq.table_model(frame, units=1, size=4, seed=0).eval().requires_grad_(False))
    told = {date["name"]: (date["field"], date["step"]) for date in asked(page, "model")["dates"]}
    assert told == {
        "day": ("date", None),
        "at": ("datetime-local", 1),
        "midnight": ("date", None),
        "time": ("time", 1),
    }
    given = {"day": "2024-02-09", "at": "2024-02-09T00:03:05", "midnight": "2024-02-09", "time": "00:03"}
    (row,) = asked(page, "samples", evidence=given, count=1)["rows"]
    assert row == ["2024-02-09", "2024-02-09 00:03:05", "2024-02-09 00:00:00", "00:03:00"]
    page.worker.close()


def test_a_model_of_very_many_columns_is_shown_without_them():
    columns = MOST_COLUMNS + 1
    circuit = sq.build(sq.regions.balanced_tree(columns), sq.Categorical(2), units=1, product="hadamard")
    page = page_of(sq.SquaredCircuit(circuit).eval().requires_grad_(False))
    described = asked(page, "model")
    assert (described["kind"], described["columns"], described["variables"]) == ("other", [], columns)
    assert asked(page, "properties")["log_z"] == pytest.approx(0, abs=1e-4)
    page.worker.close()
