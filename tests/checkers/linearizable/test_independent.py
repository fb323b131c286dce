"""The models that were written a second time: they cover all of ours, and notice where one of ours is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from splitbrain.checkers import models
from tests.checkers.linearizable import independent
from tests.checkers.linearizable.agreement import Tally, compare
from tests.checkers.linearizable.decided import acknowledged, history_of
from tests.checkers.linearizable.independent import MEANINGS, legal


def test_every_model_was_written_a_second_time() -> None:
    """That of trees as a store, with which whole runs compare it, and as `tests.cluster.tree.naive`."""
    assert set(MEANINGS) == set(models.names()) - {"tree"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "meant"), [("stack", "fifo-queue"), ("fifo-queue", "unordered-queue"), ("set", "grow-set")]
)
def test_a_model_that_means_something_else_is_noticed(name: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(MEANINGS[name], step=MEANINGS[meant].step)
    monkeypatch.setattr(independent, "MEANINGS", {**MEANINGS, name: other})
    tally = Tally()
    for seed in range(60):
        compare(name, seed, tally)
    assert tally.disagreements


def test_crashed_ops_happen_at_any_time_or_never_and_failed_ones_do_not() -> None:
    crashed = history_of((0, "invoke", "write", 1), (0, "info", "write", 1), *acknowledged(1, "read", None, None))
    assert legal("register", [*crashed, *history_of(*acknowledged(1, "read", None, 1))])
    failed = history_of((0, "invoke", "write", 1), (0, "fail", "write", 1), *acknowledged(1, "read", None, 1))
    assert not legal("register", failed)


def test_parameters_count() -> None:
    twice = history_of(*acknowledged(0, "acquire", None), *acknowledged(1, "acquire", None))
    assert legal("semaphore(2)", twice)
    assert not legal("semaphore", twice)
