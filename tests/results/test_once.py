"""What is made of the tables of a run is made once while the run is judged, and never for another run."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.consensus import ElectionSafety
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results import once as module
from splitbrain.results.arrow import to_table
from splitbrain.results.calls import client_calls, is_equal
from splitbrain.results.once import Kept, is_kept, once
from splitbrain.results.telemetry import table_of
from tests.cli.damaged_store import comparable
from tests.results.support import writes

WALL_NS = 1_790_000_000_000_000_000
SPECS = [CheckerSpec(name) for name in ("election-safety", "log-matching", "stats", "quorum-progress", "candidacy")]


def telemetry(*leaders: str) -> pa.Table:
    lines = [
        {"wall": WALL_NS + number, "event": "role", "term": 1, "role": "leader", "leader": node}
        for number, node in enumerate(leaders)
    ]
    return table_of(
        {
            node: [(0, json.dumps(line, separators=(",", ":")).encode())]
            for node, line in zip(leaders, lines, strict=True)
        }
    )


def test_a_function_of_a_table_is_called_once_where_the_table_is_kept() -> None:
    called: list[pa.Table] = []

    def rows(table: pa.Table) -> int:
        called.append(table)
        return table.num_rows

    one, other = (pa.table({"a": [1] * count}) for count in (1, 2))
    kept = Kept(one)
    with kept.used():
        assert [once(one, rows), once(one, rows), once(other, rows), once(other, rows)] == [1, 1, 2, 2]
        assert (is_kept(one), is_kept(other)) == (True, False)
    assert called == [one, other, other]
    assert not is_kept(one)
    assert once(one, rows) == 1
    assert len(called) == 4


def test_an_exception_is_not_kept() -> None:
    table = pa.table({"a": [1]})
    raised: list[int] = []

    def fails(_: pa.Table) -> None:
        raised.append(1)
        raise ValueError

    with Kept(table).used():
        for _ in range(2):
            with pytest.raises(ValueError):
                once(table, fails)
    assert len(raised) == 2


def test_of_a_large_table_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 3)
    small, large = (pa.table({"a": [1] * count}) for count in (3, 4))
    with Kept(small, large, None).used():
        assert (is_kept(small), is_kept(large)) == (True, False)


def test_texts_are_found_as_without() -> None:
    table = to_table(writes(8))
    alone = {text: is_equal(table, "f", text).tolist() for text in ("read", "write", "never")}
    with Kept(table).used():
        assert {text: is_equal(table, "f", text).tolist() for text in alone} == alone
        assert client_calls(table) is client_calls(table)


def test_consensus_is_judged_once_for_all_checkers_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[pa.Table] = []
    before: Any = ElectionSafety._judge.__func__  # pyright: ignore[reportPrivateUsage, reportFunctionMemberAccess]

    def counting(cls: type[ElectionSafety], table: pa.Table) -> Verdict:
        judged.append(table)
        return before(cls, table)

    monkeypatch.setattr(ElectionSafety, "_judge", classmethod(counting))
    ops = to_table(writes(8))
    sound, violated = telemetry("n1"), telemetry("n1", "n2")
    first, second = (comparable(engine.judge_each(ops, SPECS, table)) for table in (sound, violated))
    assert len(judged) == 2
    alone = [comparable(engine.judge_each(ops, [spec], violated))[0] for spec in SPECS]
    assert second == alone
    assert [verdict["valid"] for verdict in first[:1] + second[:1]] == [True, False]
    assert second[3]["anomalies"][0] == "Q5"
