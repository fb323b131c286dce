"""What a history tells of the hosts' clocks."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.results.arrow import to_table
from splitbrain.results.clocks import clocks_in, clocks_of
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.faults import run_events
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.notes import Clocks


def clocks_read(*values: Any, process: int = HARNESS) -> Clocks:
    ops = [
        Op(index=number, time=number, process=process, type="info", f="clocks", value=value)
        for number, value in enumerate(values)
    ]
    table = to_table(ops)
    found = clocks_in(table)
    assert clocks_of(run_events(table)) == found
    return found


def value(offset_s: float, error_s: float) -> dict[str, Any]:
    return {"offsets_s": {"n1": offset_s, "n2": 0.0}, "errors_s": {"n1": error_s, "n2": 0.0}, "walls_s": {"n1": 0.5}}


def test_the_last_word_counts_and_the_largest_error_is_that_of_all() -> None:
    found = clocks_read(value(3.0, 0.5), value(-4.000000001, 0.002))
    assert found.offsets_s == {"n1": -4.000000001, "n2": 0.0}
    assert found.ahead_ns() == {"n1": -4_000_000_001, "n2": 0}
    assert found.error_s == 0.002
    assert found.walls_s == {"n1": 0.5}


def test_a_run_that_tells_nothing_has_no_error_and_no_offsets() -> None:
    found = clocks_read()
    assert (found, found.error_s, found.ahead_ns()) == (Clocks(), 0.0, {})


@pytest.mark.parametrize("junk", ["noon", {"offsets_s": {"n1": "far"}}, {"errors_s": [1]}, {"walls_s": {"n1": 1e300}}])
def test_a_damaged_note_on_clocks_is_no_word_on_them(junk: Any) -> None:
    with pytest.raises(HistoryFormatError, match="op 0: the harness's note 'clocks' is damaged"):
        clocks_read(junk)


def test_a_note_without_a_value_says_nothing_of_clocks() -> None:
    assert clocks_read(None) == Clocks()


def test_an_op_of_the_nemesis_of_that_name_is_none_of_the_harness() -> None:
    assert clocks_read(value(1.0, 1.0), process=NEMESIS) == Clocks()
