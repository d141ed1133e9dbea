"""Labels from texts: numbers, classes, missing values, and the implied task."""

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
    assert labels.problems.keys() == {2, 4}
    assert "'>10'" in labels.problems[4]


@pytest.mark.parametrize("text", ["", "1_000", "inf", "nan", "0x10", "1,5", "1.5 mg", "1e999"])
def test_texts_that_are_not_numbers(text: str) -> None:
    assert to_number(text) is None


def test_decimal_commas() -> None:
    values = one(["1,5", "2,25", "0,1"], decimal_comma=True).values[:, 0]
    assert values.tolist() == [1.5, 2.25, 0.1]
    assert one(["1,5", "2,25", "1,5"]).classes == ("1,5", "2,25")  # texts without the option


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "NaN", "null", "None", "-", "?"])
def test_missing(text: str) -> None:
    assert is_missing(text)


def test_words_are_classes() -> None:
    labels = one(["toxic", "safe", "", "toxic"])
    assert (labels.kind, labels.classes) == ("binary", ("safe", "toxic"))
    assert labels.values[:, 0].tolist()[:2] == [1.0, 0.0]
    assert labels.problems.keys() == {2}
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


def test_numbers_come_before_words_in_numerical_order() -> None:
    assert in_order(["b", "10", "a", "-1", "9"]) == ["-1", "9", "10", "a", "b"]


def test_whole_numbers() -> None:
    assert one(["0", "1.0", "1", "0.0"]).classes == ("0", "1")
    assert one(["1", "2", "3"] * 10).kind == "multiclass"
    assert one(["1", "2", "3"] * 3).kind == "regression"  # too few rows for three classes
    counts = one([str(k % 37) for k in range(200)])
    assert counts.kind == "regression"
    assert one(["1", "2", "3"] * 10, task="regression").kind == "regression"
    assert one([str(k % 37) for k in range(200)], task="multiclass").kind == "multiclass"


def test_classes_in_another_order() -> None:
    labels = one(["b", "a", "c"], classes=["c", "b"])
    assert labels.values[:, 0].tolist()[0] == 1
    assert labels.problems.keys() == {1}


def test_several_labels() -> None:
    labels = read_labels([["0", "1", ""], ["yes", "no", ""]], ["a", "b"], "auto")
    assert labels.kind == "multilabel"
    assert labels.values[:2].tolist() == [[0, 1], [1, 0]]
    assert labels.problems.keys() == {2}
    numbers = read_labels([["0.5", "", "2"], ["100", "200", "x"]], ["a", "b"])
    assert numbers.kind == "regression"
    assert np.isnan(numbers.values).tolist() == [[False, False], [True, False], [False, True]]
    constant = read_labels([["0", "0"], ["0", "1"]], ["a", "b"])
    assert constant.values.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("columns", "task", "value"),
    [
        ([["", "NA"]], "auto", "'a'"),
        ([["active", "active", ""]], "auto", "'active'"),
        ([[f"name {k}" for k in range(40)]], "auto", "40"),
        ([["a", "b"]], "regression", "'a'"),
        ([["0", "1"], ["0.5", "2"]], "auto", "'b'"),
        ([["0", "1"], ["1", "2"]], "multiclass", "2"),
        ([["0", "1", "0"] * 2, ["x", "y", "z"] * 2], "multilabel", "'b'"),
    ],
)
def test_labels_that_fit_no_task_are_errors(
    columns: list[list[str]], task: str, value: str
) -> None:
    with pytest.raises(DataError, match=value):
        read_labels(columns, ["a", "b"][: len(columns)], task)


def test_very_long_numbers_are_parsed_in_linear_time() -> None:
    assert to_number("1" * 300_000 + "x") is None
    assert to_number("0." + "1" * 300_000) == pytest.approx(1 / 9)


def test_names_in_messages_are_short_and_printable() -> None:
    with pytest.raises(DataError) as caught:
        read_labels([["a", "a"]], ["\x1b[31m" + "n" * 1000])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
