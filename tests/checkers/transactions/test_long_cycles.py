"""What is said of a long cycle can be read, and its witness has every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.transactions.long_chains import PARTS, cycle_sentence, path_words
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.report.isolation import write_isolation
from tests.checkers.transactions.shapes import SHAPES, table_of

LENGTH = 300


def judged(shape: str, model: str) -> Verdict:
    spec = CheckerSpec(SHAPES[shape].checker, {"consistency_models": [model]})
    [verdict] = engine.judge(table_of(SHAPES[shape], LENGTH), [spec])
    return verdict


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("shape", "model"),
    [("long cycle", "serializable"), ("long cycle of lists", "serializable"), ("long cycle", "causal")],
)
def test_the_sentence_names_the_first_and_the_last_steps_and_the_witness_all(shape: str, model: str) -> None:
    verdict = judged(shape, model)
    assert verdict.valid == "false"
    assert verdict.sentence.count("because") == PARTS
    assert len(verdict.sentence) < 1200
    assert f"And so on: {LENGTH - PARTS} steps more" in verdict.sentence
    assert f"T{LENGTH} < T1, because" in verdict.sentence
    for [witness, *_] in verdict.evidence["anomalies"].values():
        assert len(witness.get("steps") or witness["edges"]) == len(witness["transactions"]) == LENGTH
        assert witness["sentence"] in verdict.sentence or witness["sentence"].count("because") == PARTS


def test_a_long_cycle_is_listed_in_the_report_and_it_says_that_it_is_not_drawn(tmp_path: Path) -> None:
    verdict = judged("long cycle", "serializable")
    page = tmp_path / "page.html"
    write_isolation(page, table_of(SHAPES["long cycle"], LENGTH), verdict.evidence, verdict.sentence, "history")
    text = page.read_text()
    assert "which are not drawn" in text
    assert "And so on" in text


def test_short_chains_are_told_whole() -> None:
    steps = [f"step {each}." for each in range(PARTS)]
    assert cycle_sentence(steps, "T1") == f"{' '.join(steps)} So T1 would come before itself."
    assert "And so on: 1 step more" in cycle_sentence([*steps, "end."], "T1")
    assert path_words([str(each) for each in range(PARTS)]) == "0 < 1 < 2 < 3 < 4 < 5 < 6 < 7"
    assert path_words([str(each) for each in range(12)]) == "0 < 1 < 2 < 3 < ... 4 more ... < 8 < 9 < 10 < 11"
