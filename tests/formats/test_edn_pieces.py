"""A long EDN file is read some lines at a time, and becomes what it becomes at once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from splitbrain.results.arrow import array
from splitbrain.results.formats import edn, transactions
from splitbrain.results.formats.transactions import with_mops

LINES = [
    "{:index 0, :type :invoke, :process 0, :f :txn, :value [[:append 1 1] [:r 2 nil]]}",
    "{:index 1, :type :invoke, :process 1, :f :txn, :value [[:r 1 nil]]}",
    "{:index 2, :type :ok, :process 0, :f :txn, :value [[:append 1 1] [:r 2 [7 8]]]}",
    "; a comment",
    '{:type :info, :process 1, :f :txn, :value [[:r 1 nil]], :error "lost", :index 3}',
    "{:index 4, :type :invoke, :process 0, :f :txn, :value [[:r 2 nil]], :node n1}",
    '{:type :fail, :process 0, :f :txn, :value [[:r 2 nil]], :error "no", :index 5}',
    "{:index 6, :type :invoke, :process 0, :f :txn, :value [[:append 3 9]]}",
]


def columns(rows: Any) -> dict[str, Any]:
    found = {each.name: getattr(rows, each.name) for each in fields(rows)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    return value.to_pylist() if hasattr(value, "to_pylist") else value


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_lines_of_several_layouts_are_read_in_pieces_of_any_length(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    text = "\n".join(LINES)
    expected = columns(edn.read_slowly(text, "x"))
    monkeypatch.setattr(edn, "_AT_ONCE", at_once)
    monkeypatch.setattr(transactions, "_AT_ONCE", at_once)

    def refused(*_: object) -> Any:
        raise AssertionError("this was left to the parser")

    monkeypatch.setattr(edn, "read_slowly", refused)
    found = columns(edn.read(text, "x"))
    assert found["mops"][2][1]["values"] == [7, 8]
    assert found == expected


def test_a_key_that_is_a_number_in_one_piece_and_a_string_in_another_is_no_key_of_a_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, values = array(["txn"] * 2), ['[["w",1,5]]', '[["w","1",6]]']
    monkeypatch.setattr(transactions, "_AT_ONCE", 1)
    assert with_mops(f, array(values)) is None
    assert with_mops(f, array([values[0], '[["w",2,6]]'])) is not None
