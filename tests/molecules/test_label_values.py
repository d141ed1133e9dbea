"""Labels as texts: numbers, words, what is missing, and the task they suggest."""

from __future__ import annotations

import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.molecules.label_values import Labels, in_order, is_missing, read_labels, to_number


def one(cells: list[str], **options: object) -> Labels:
    return read_labels([cells], ["y"], **options)  # type: ignore[arg-type]


def test_numbers() -> None:
    labels = one(["1.5", "-2", "NA", "1e3", ">10", *map(str, np.linspace(0, 1, 20))])
    assert labels.kind == "regression"
    assert labels.values[:2, 0].tolist() == [1.5, -2.0]
    assert labels.values[3] == 1000
    assert labels.problems == {2: "no label", 4: "the label '>10' is not a number"}


@pytest.mark.parametrize("text", ["", "1_000", "inf", "nan", "0x10", "1,5", "1.5 mg", "1e999"])
def test_what_is_not_a_number(text: str) -> None:
    assert to_number(text) is None


def test_decimal_commas() -> None:
    values = one(["1,5", "2,25", "0,1"], decimal_comma=True).values[:, 0]
    assert values.tolist() == [1.5, 2.25, 0.1]


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "NaN", "null", "None", "-", "?"])
def test_missing(text: str) -> None:
    assert is_missing(text)


def test_words_are_classes() -> None:
    labels = one(["toxic", "safe", "", "toxic"])
    assert (labels.kind, labels.classes) == ("binary", ("safe", "toxic"))
    assert labels.values[:, 0].tolist()[:2] == [1.0, 0.0]
    assert labels.problems == {2: "no label"}
    assert one(["low", "high", "medium"] * 9).kind == "multiclass"


@pytest.mark.parametrize(
    "order",
    [
        ["inactive", "active"], ["no", "yes"], ["negative", "positive"], ["FALSE", "TRUE"],
        ["non-mutagen", "mutagen"], ["0", "1"], ["2", "10"], ["insoluble", "soluble"], ["a", "b"],
    ],
)  # fmt: skip
def test_the_negative_class_comes_first(order: list[str]) -> None:
    assert in_order(order) == in_order(order[::-1]) == order


def test_whole_numbers() -> None:
    assert one(["0", "1.0", "1", "0.0"]).classes == ("0", "1")
    assert one(["1", "2", "3"] * 10).kind == "multiclass"
    counts = one([str(k % 37) for k in range(200)])
    assert counts.kind == "regression"
    assert one(["1", "2", "3"] * 10, task="regression").kind == "regression"
    assert one([str(k % 37) for k in range(200)], task="multiclass").kind == "multiclass"


def test_classes_in_another_order() -> None:
    labels = one(["b", "a", "c"], classes=["c", "b"])
    assert labels.values[:, 0].tolist()[0] == 1
    assert labels.problems == {1: "the class 'a' is not one of c, b"}


def test_several_labels() -> None:
    labels = read_labels([["0", "1", ""], ["yes", "no", ""]], ["a", "b"], "auto")
    assert labels.kind == "multilabel"
    assert labels.values[:2].tolist() == [[0, 1], [1, 0]]
    assert labels.problems == {2: "no label"}
    numbers = read_labels([["0.5", "", "2"], ["100", "200", "x"]], ["a", "b"])
    assert numbers.kind == "regression"
    assert np.isnan(numbers.values).tolist() == [[False, False], [True, False], [False, True]]
    constant = read_labels([["0", "0"], ["0", "1"]], ["a", "b"])
    assert constant.values.tolist() == [[0, 0], [0, 1]]


def test_labels_that_fit_no_task() -> None:
    with pytest.raises(DataError, match="all its cells are missing"):
        one(["", "NA"])
    with pytest.raises(DataError, match="one class only, 'active'"):
        one(["active", "active", ""])
    with pytest.raises(DataError, match="40 different values in 40 rows"):
        one([f"name {k}" for k in range(40)])
    with pytest.raises(DataError, match="holds no numbers"):
        one(["a", "b"], task="regression")
    with pytest.raises(DataError, match="all yes or no, or all numbers"):
        read_labels([["0", "1"], ["0.5", "2"]], ["a", "b"])
    with pytest.raises(DataError, match="one column of labels, not 2"):
        read_labels([["0", "1"], ["1", "2"]], ["a", "b"], "multiclass")


def test_a_very_long_cell_is_read_in_one_pass() -> None:
    assert to_number("1" * 300_000 + "x") is None
    assert to_number("0." + "1" * 300_000) == pytest.approx(1 / 9)


def test_names_in_messages_are_short_and_printable() -> None:
    with pytest.raises(DataError) as caught:
        read_labels([["a", "a"]], ["\x1b[31m" + "n" * 1000])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
