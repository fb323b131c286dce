"""What of a file is judged: transactions of independent keys each by itself, and ops that are no transactions not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import write_parquet
from splitbrain.results.formats import read_table
from splitbrain.results.reasons import Code
from splitbrain.results.summarized import summarized

TXN: Final = "{{:type :{}, :process {}, :f :{}, :value {}}}\n"


def called(process: int, asked: str, answered: str, f: str = "txn") -> str:
    return TXN.format("invoke", process, f, asked) + TXN.format("ok", process, f, answered)


def judged(folder: Path, text: str, model: str = "strict-serializable", *, stored: bool = False) -> Verdict:
    (folder / "history.edn").write_text(text)
    table = read_table(folder / "history.edn")
    spec = CheckerSpec("list-append", {"consistency_models": [model]})
    if not stored:
        return engine.judge(table, [spec], None, weaker=False)[0]
    write_parquet(table, folder / "history.parquet")
    kept = summarized(folder / "history.parquet")
    assert kept is not None
    return engine.judge_each(kept, [spec])[0]


OTHER_KEY: Final = called(0, "[3 [[:append x 1]]]", "[3 [[:append x 1]]]") + called(
    1, "[4 [[:r x nil]]]", "[4 [[:r x []]]]"
)
STALE: Final = called(0, "[4 [[:append x 2]]]", "[4 [[:append x 2]]]") + called(
    1, "[4 [[:r x nil]]]", "[4 [[:r x []]]]"
)


def test_transactions_of_independent_keys_have_nothing_in_common(tmp_path: Path) -> None:
    assert judged(tmp_path, OTHER_KEY).valid == "unknown"
    found = judged(tmp_path, OTHER_KEY + STALE)
    assert found.valid == "false"
    assert found.sentence.startswith("Key 4: Not strict-serializable: G-single-item-realtime.")
    assert found.figures["independent_keys"] == 2


def test_a_value_without_a_write_is_found_beside_transactions_that_only_their_ends_name(tmp_path: Path) -> None:
    text = called(0, "nil", "[[:append x 1]]") + called(1, "nil", "[[:r x [1 2]]]")
    assert judged(tmp_path, text).anomalies == ("garbage-read",)


SOUND: Final = (
    called(0, "[[:append x 1]]", "[[:append x 1]]")
    + called(1, "[[:r x nil]]", "[[:r x [1]]]")
    + called(0, "[[:append x 2]]", "[[:append x 2]]")
)


@pytest.mark.parametrize("stored", [False, True])
def test_ops_of_another_function_than_txn_keep_a_verdict_from_a_pass(tmp_path: Path, *, stored: bool) -> None:
    nemesis = TXN.format("info", ":nemesis", "kill", "nil")
    assert judged(tmp_path, SOUND + nemesis, stored=stored).inconclusive == ()
    found = judged(tmp_path, SOUND + called(2, "[[:r x nil]]", "[[:r x [2]]]", "transact"), stored=stored)
    assert found.valid == "true"
    [reason] = found.inconclusive
    assert reason.code == Code.NOT_JUDGED
    assert reason.sentence == "1 op of the function 'transact' is not judged by this checker."
