"""Some ten thousand small histories, judged by everybody (`agreement` runs any number more)."""

from __future__ import annotations

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.deciders import DECIDERS
from tests.checkers.linearizable.agreement import Tally, compared, run, table
from tests.checkers.linearizable.small_histories import VOCABULARIES

SAMPLE = 600
HISTORIES = 12_000
PROCESSES = 2


def assert_agreement(tally: Tally, histories: int) -> None:
    assert tally.disagreements == []
    assert sum(sum(tally.judged(name, "definition")) for name in VOCABULARIES) == histories
    for judge in ("frontier", "frontier, tabulated", "depth-first", "portfolio"):
        assert sum(sum(tally.judged(name, judge)) for name in VOCABULARIES) == histories, judge


@pytest.mark.slow
def test_every_model_is_among_the_vocabularies() -> None:
    assert {vocabulary.model.partition("(")[0] for vocabulary in VOCABULARIES.values()} == set(models.names())


def test_everybody_agrees_with_the_definition_on_a_sample() -> None:
    assert_agreement(compared((0, SAMPLE)), SAMPLE)


@pytest.mark.slow
def test_everybody_agrees_with_the_definition_on_many_histories() -> None:
    *_, tally = run(HISTORIES, seed=SAMPLE, processes=PROCESSES)
    assert_agreement(tally, HISTORIES)
    assert tally.crashed > HISTORIES / 10
    for name in VOCABULARIES:
        assert min(tally.judged(name, "definition")) > 30, f"too few of one verdict: {name}"
    judges = {judge for _, judge, _ in tally.verdicts}
    missing = {algorithm for each in DECIDERS.values() for algorithm, _ in each} - judges
    assert missing == set(), "deciders that no history here was for"
    assert len(list(table(tally))) == len(VOCABULARIES) + 2
