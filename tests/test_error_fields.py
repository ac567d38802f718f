"""Errors carry data: what is wrong, where, the value and the fix, said for Python and for the shell."""

import pickle

import pytest

import squircuit as sq
from squircuit.errors import SquircuitWarning, Wording, in_shell, is_whole

DROP = Wording("columns={'id': 'drop'}", "--columns id=drop")


def test_the_fields_of_an_error_are_its_message():
    error = sq.DataError("'x' is no number", where="a.csv, line 3", value="x", fix="leave it out, " + DROP)
    assert str(error) == "a.csv, line 3: 'x' is no number. Fix: leave it out, columns={'id': 'drop'}."
    assert error.shell == "a.csv, line 3: 'x' is no number. Fix: leave it out, --columns id=drop."
    assert (error.what, error.where, error.value) == ("'x' is no number", "a.csv, line 3", "x")


def test_a_message_in_one_text_is_taken_apart_and_repeated_letter_by_letter():
    for text in ("units=0 is too small. Fix: pass 1.", "no data: pass x", "units=0. Fix: did you mean 1?"):
        error = sq.ParameterError(text)
        assert str(error) == error.shell == text
    assert (error.what, error.fix) == ("units=0", "did you mean 1?")


@pytest.mark.parametrize(
    "error",
    [
        sq.DataError("what", where="here", value=3, fix="do " + DROP),
        sq.DataError("what", where=DROP, fix="do it"),
        sq.FormatError("all. Fix: in one."),
        sq.StructureError("smooth", "sum3", "inputs differ", "split them"),
        sq.data.MissingPackageError("no package. Fix: install it."),
    ],
)
def test_errors_survive_a_pickle_and_are_named_by_what_is_around_them(error):
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.shell, again.fix) == (str(error), error.shell, error.fix)
    around = error.at("valid")
    assert type(around) is type(error)
    assert (str(around), around.shell) == (f"valid: {error}", f"valid: {error.shell}")


def test_a_warning_has_the_words_of_the_shell_too():
    warning = SquircuitWarning("Leave it out with " + DROP + ".")
    assert str(warning) == "Leave it out with columns={'id': 'drop'}."
    assert in_shell(warning) == "Leave it out with --columns id=drop."
    assert in_shell(UserWarning("plain")) == "plain"


def test_whole_numbers_are_integers_in_a_range():
    assert [is_whole(value, 1, 3) for value in (0, 1, 3, 4, True, 2.0, "2", None)] == [
        False, True, True, False, False, False, False, False,
    ]  # fmt: skip
