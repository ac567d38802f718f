"""What callbacks are told, what they may do, and how training ends by them."""

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.training import Callback, Event, StopTraining

from .conftest import coins, model_of_coins

QUICK = {"progress": False, "epochs": 6, "batch": 32, "lr": 0.1}


def weights_of(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def assert_same(some, other):
    assert all(torch.equal(some[name], weight) for name, weight in other.items())


@pytest.mark.parametrize("valid_every", [1, 2])
def test_a_callback_is_told_each_row_of_the_history(valid_every):
    events = []
    history = sq.fit(model_of_coins(), coins(), callbacks=[events.append], valid_every=valid_every, **QUICK)
    assert [(event.what, event.done, event.total) for event in events] == [
        ("epoch", i, 6) for i in range(1, 7)
    ]
    for event, row in zip(events, history.rows, strict=True):
        known = {"train": row.train, "valid": row.valid, "log_z": row.log_z, "lr": row.lr}
        scores = dict(event.scores)
        best = scores.pop("best", None)
        assert scores == {name: value for name, value in known.items() if value is not None}
        seen = [other.valid for other in history.rows[: row.epoch] if other.valid is not None]
        assert best == (min(seen) if seen else None)
        assert event.seconds == pytest.approx(row.seconds, abs=1e-3)


ANSWERS = [True, np.True_, torch.tensor(True), np.array(True)]


@pytest.mark.parametrize("answer", ANSWERS)
def test_true_of_any_kind_ends_training_with_the_best_weights(answer):
    model, kept = model_of_coins(), {}

    def third_epoch(event):
        kept[event.done] = weights_of(model)
        return answer if event.done == 3 else None

    history = sq.fit(model, coins(), callbacks=[third_epoch], **QUICK | {"lr": 1.0})
    assert history.stopped == "stopped by a callback: third_epoch"
    assert len(history.rows) == 3
    assert history.best_epoch == min(history.rows, key=lambda row: row.valid).epoch
    assert_same(weights_of(model), kept[history.best_epoch])
    assert not model.training


@pytest.mark.parametrize(
    "answer", [None, False, 1, "yes", 0.5, torch.tensor(1.0), torch.ones(2, dtype=torch.bool)]
)
def test_other_answers_mean_nothing(answer):
    history = sq.fit(model_of_coins(), coins(), callbacks=[lambda event: answer], **QUICK)
    assert history.stopped == "finished"


def test_an_exception_that_says_stop_ends_training_with_its_words():
    def enough(event):
        raise StopTraining("the forest can tell\nno more")

    history = sq.fit(model_of_coins(), coins(), callbacks=[enough], **QUICK)
    assert history.stopped == "stopped by a callback: the forest can tell no more"
    assert sq.History.from_dict(history.to_dict()) == sq.History(
        list(history.rows), history.unit, history.best_epoch, history.stopped
    )


def test_in_the_last_epoch_training_has_finished_whatever_callbacks_say():
    history = sq.fit(model_of_coins(), coins(), callbacks=[lambda event: event.done == 6], **QUICK)
    assert history.stopped == "finished"


def test_any_other_exception_is_raised_and_leaves_the_best_weights():
    model, kept = model_of_coins(), {}

    def fails(event):
        kept[event.scores["valid"]] = weights_of(model)
        if event.done == 4:
            raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        sq.fit(model, coins(), callbacks=[fails], **QUICK | {"lr": 1.0})
    assert_same(weights_of(model), kept[min(kept)])
    assert not model.training


@pytest.mark.parametrize("options", [{}, {"average": 0.9}, {"optimiser": "landing-sgd", "lr": 0.02}])
@pytest.mark.filterwarnings("ignore:the weights are off the manifold")
def test_the_model_that_a_callback_sees_is_the_one_that_was_validated(options):
    model, x, valid, found = model_of_coins(), coins(), coins(80, seed=7), []

    def ask(event):
        assert not model.training
        assert not torch.is_grad_enabled()
        found.append(-model.log_prob(valid).double().mean().item())

    history = sq.fit(model, x, valid, callbacks=[ask], **QUICK | options)
    assert found == pytest.approx([row.valid for row in history.rows], abs=1e-6)


def test_what_callbacks_do_changes_nothing_in_training():
    def meddle(event):
        torch.manual_seed(0)
        torch.rand(3)
        np.random.seed(0)  # noqa: NPY002
        for weight in changed.parameters():
            weight.zero_()
        changed.train()

    plain, changed = model_of_coins(), model_of_coins()
    without = sq.fit(plain, coins(), **QUICK)
    with_ = sq.fit(changed, coins(), callbacks=[meddle], **QUICK)
    assert [row.valid for row in with_.rows] == [row.valid for row in without.rows]
    assert_same(weights_of(changed), weights_of(plain))


def test_all_callbacks_are_called_in_order_also_after_one_that_stops():
    called = []

    def first(event):
        return called.append("first") or True

    def second(event):
        return called.append("second") or True

    history = sq.fit(model_of_coins(), coins(), callbacks=[first, second], **QUICK)
    assert called == ["first", "second"]
    assert history.stopped == "stopped by a callback: first"


class Watch(Callback):
    def __init__(self):
        self.events = []

    def start(self, event):
        self.events.append(event)

    step = __call__ = stop = start


@pytest.mark.parametrize("stops", [False, True])
def test_a_callback_object_sees_the_begin_every_step_every_epoch_and_the_end(stops):
    watch = Watch()
    end = [lambda event: event.done == 2] if stops else []
    history = sq.fit(model_of_coins(), coins(), callbacks=[watch, *end], **QUICK)
    words = [event.what for event in watch.events]
    assert (words[0], words[-1]) == ("start", "stop")
    assert words.count("epoch") == len(history.rows) == (2 if stops else 6)
    steps = [event.done for event in watch.events if event.what == "step"]
    assert sorted(set(steps)) == list(range(1, history.rows[-1].step + 1))
    assert {event.total for event in watch.events if event.what != "epoch"} == {6 * (216 // 32)}
    assert watch.events[-1].note == str(history).splitlines()[-1]


def test_the_end_is_told_without_a_note_after_an_error():
    watch = Watch()
    with pytest.raises(ZeroDivisionError):
        sq.fit(model_of_coins(), coins(), callbacks=[watch, lambda event: 1 / 0], **QUICK)
    assert watch.events[-1].what == "stop"
    assert watch.events[-1].note == ""


def test_a_run_that_a_callback_ended_has_ended(tmp_path):
    model = model_of_coins()
    options = QUICK | {"run": tmp_path, "resume": True}
    history = sq.fit(model, coins(), callbacks=[lambda event: event.done == 2], **options)
    other = model_of_coins(seed=5)
    assert sq.fit(other, coins(), **options) == history
    assert_same(weights_of(other), weights_of(model))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (print, r"callbacks=<built-in function print>. Fix: pass a list, callbacks=\[…\]"),
        ("abc", "callbacks='abc'. Fix: pass a list"),
        ([3], "callbacks: 3 cannot be called. Fix: pass functions of an event"),
        ([Watch], "callbacks: .*Watch.* cannot be called"),
    ],
)
def test_what_cannot_be_called_is_refused_before_training(given, message):
    with pytest.raises(sq.ParameterError, match=message):
        sq.fit(model_of_coins(), coins(), callbacks=given, **QUICK)


def test_an_event_prints_what_it_knows():
    assert (
        str(Event("member", 2, None, 3.2, {"valid": 1.5}, "a tree")) == "member 2: valid 1.5000, a tree (3 s)"
    )
    assert str(Event("start", 0, 10, 0.0)) == "start 0/10 (0 s)"
