"""Some ten thousand small histories, judged by everybody (`agreement` runs any number more)."""

from __future__ import annotations

import msgspec
import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.deciders import DECIDERS
from splitbrain.results.history import Op
from tests.checkers.linearizable import independent
from tests.checkers.linearizable.agreement import Tally, compared, judgements, run, table
from tests.checkers.linearizable.small_histories import VOCABULARIES

SAMPLE = 600
HISTORIES = 2_500
PROCESSES = 2


def assert_agreement(tally: Tally, histories: int) -> None:
    assert tally.disagreements == []
    assert sum(sum(tally.judged(name, "definition")) for name in VOCABULARIES) == histories
    for judge in ("frontier", "frontier, tabulated", "depth-first", "portfolio"):
        assert sum(sum(tally.judged(name, judge)) for name in VOCABULARIES) == histories, judge


@pytest.mark.slow
def test_every_model_is_among_the_vocabularies() -> None:
    assert {vocabulary.model.partition("(")[0] for vocabulary in VOCABULARIES.values()} == set(models.names()) - {
        "tree"
    }, "that of trees is compared with the store"


def test_everybody_agrees_with_the_definition_on_a_sample() -> None:
    assert_agreement(compared((0, SAMPLE)), SAMPLE)


MISLEADING = {
    "ops that leave their list and return to it": (
        ("write", 1, 0, 2),
        ("write", 2, 1, 5),
        ("read", 1, 3, 4),
        ("read", 1, 6, 7),
    ),
    "a value that is overwritten before it is read": (
        ("write", 1, 0, 5),
        ("write", 2, 1, 2),
        ("read", 2, 3, 4),
        ("read", 1, 6, 7),
    ),
}
"""Function, value, and times of call and return: random histories seldom have what these tell apart."""


@pytest.mark.parametrize("name", MISLEADING)
def test_everybody_agrees_on_histories_in_which_two_orders_look_alike(name: str) -> None:
    ends: list[tuple[int, Op]] = []
    for process, (f, value, call, answer) in enumerate(MISLEADING[name]):
        asked = value if f == "write" else None
        ends += [
            (call, Op(index=0, time=call, process=process, type="invoke", f=f, value=asked)),
            (answer, Op(index=0, time=answer, process=process, type="ok", f=f, value=value)),
        ]
    ends.sort(key=lambda end: end[0])
    history = [msgspec.structs.replace(op, index=index) for index, (_, op) in enumerate(ends)]
    legal = independent.legal("register", history)
    said = dict(judgements(history, models.model("register")))
    assert said == dict.fromkeys(said, legal)


@pytest.mark.slow
def test_everybody_agrees_with_the_definition_on_many_histories() -> None:
    *_, tally = run(HISTORIES, seed=SAMPLE, processes=PROCESSES)
    assert_agreement(tally, HISTORIES)
    assert tally.crashed > HISTORIES / 10
    for name in VOCABULARIES:
        assert min(tally.judged(name, "definition")) > 4, f"too few of one verdict: {name}"
    judges = {judge for _, judge, _ in tally.verdicts}
    missing = {algorithm for each in DECIDERS.values() for algorithm, _ in each} - judges
    assert missing == set(), "deciders that no history here was for"
    assert len(list(table(tally))) == len(VOCABULARIES) + 2
