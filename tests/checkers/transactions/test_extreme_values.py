"""Values at the edges: negative ones and nil among elements, and the least numbers of 64 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table, write_parquet
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import read_table
from splitbrain.results.history import Mop, Op
from splitbrain.results.summarized import summarized

LEAST = -(1 << 63)


def judged(tmp_path: Path, checker: str, *mops: str, stored: bool = False, model: str = "serializable") -> Verdict:
    """The verdict on transactions that follow each other, with their micro-operations in EDN."""
    path = tmp_path / "history.edn"
    lines = [
        f"{{:type {kind}, :process {process}, :f :txn, :value {each}}}"
        for process, each in enumerate(mops)
        for kind in (":invoke", ":ok")
    ]
    path.write_text("\n".join(lines))
    history: Any = read_table(path)
    if stored:
        write_parquet(history, tmp_path / "history.parquet")
        history = summarized(tmp_path / "history.parquet") or history
    [verdict] = engine.judge(history, [CheckerSpec(checker, {"consistency_models": [model]})])
    return verdict


@pytest.mark.parametrize("element", ["-7", "nil", str(LEAST), str(LEAST + 1), str(1 << 63), str(LEAST - 1)])
@pytest.mark.parametrize("stored", [False, True])
def test_an_element_that_nothing_appended_is_garbage_whatever_it_is(tmp_path: Path, element: str, stored: bool) -> None:
    verdict = judged(tmp_path, "list-append", "[[:append 1 1]]", f"[[:r 1 [1 {element}]]]", stored=stored)
    assert (verdict.valid, verdict.anomalies) == ("false", ("garbage-read",)), verdict.sentence
    assert f"no transaction wrote {element}" in verdict.sentence


@pytest.mark.parametrize("value", ["-7", str(LEAST), str(LEAST + 1), str(LEAST + 2), str((1 << 63) - 1)])
@pytest.mark.parametrize("stored", [False, True])
def test_every_number_of_64_bits_is_a_value_of_a_register(tmp_path: Path, value: str, stored: bool) -> None:
    mops = (f"[[:w 1 {value}]]", f"[[:r 1 {value}] [:w 2 5]]", "[[:r 2 5] [:r 1 nil]]")
    verdict = judged(tmp_path, "rw-register", *mops, stored=stored)
    assert (verdict.valid, verdict.anomalies) == ("false", ("G-single-item",)), verdict.sentence
    garbage = judged(tmp_path, "rw-register", "[[:w 1 3]]", f"[[:r 1 {value}]]", stored=stored)
    assert garbage.anomalies == ("garbage-read",), garbage.sentence


@pytest.mark.parametrize("value", ["-7", str(LEAST), str(LEAST + 1), str((1 << 63) - 1)])
@pytest.mark.parametrize("stored", [False, True])
def test_every_number_of_64_bits_is_an_element_of_a_list(tmp_path: Path, value: str, stored: bool) -> None:
    mops = (f"[[:append 1 {value}]]", f"[[:r 1 [{value}]] [:append 2 5]]", "[[:r 2 [5]] [:r 1 []]]")
    verdict = judged(tmp_path, "list-append", *mops, stored=stored)
    assert (verdict.valid, verdict.anomalies) == ("false", ("G-single-item",)), verdict.sentence


@pytest.mark.parametrize("least", [LEAST, LEAST + 1])
def test_a_column_that_has_a_number_which_stands_for_nil_is_refused(tmp_path: Path, least: int) -> None:
    ops = [
        Op(index=at, time=at, process=0, type=kind, f="txn", mops=(Mop("append", "x", least),))
        for at, kind in enumerate(("invoke", "ok"))
    ]
    write_parquet(to_table(ops), tmp_path / "history.parquet")
    stored = summarized(tmp_path / "history.parquet")
    assert stored is not None
    for history in (to_table(ops), stored):
        with pytest.raises(HistoryFormatError, match="a value is below -9223372036854775806"):
            engine.judge(history, [CheckerSpec("list-append", {})])


def test_what_an_aborted_transaction_wrote_may_be_negative(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    steps = [
        (0, "invoke", "[[:w 1 -7]]"),
        (0, "fail", "[[:w 1 -7]]"),
        (1, "invoke", "[[:r 1 nil]]"),
        (1, "ok", "[[:r 1 -7]]"),
    ]
    path.write_text(
        "\n".join(f"{{:type :{kind}, :process {process}, :f :txn, :value {mops}}}" for process, kind, mops in steps)
    )
    [verdict] = engine.judge(read_table(path), [CheckerSpec("rw-register", {})])
    assert verdict.anomalies == ("G1a",), verdict.sentence
