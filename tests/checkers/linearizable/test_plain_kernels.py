"""Kernels as plain Python say what the compiled ones say, step by step."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from splitbrain.checkers import kernels, models
from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.checkers.linearizable.search import Limits, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Model
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable.small_histories import VOCABULARIES, small_history
from tests.checkers.linearizable.support import Table

LIMITS = Limits(time_s=600.0)


class Form:
    """Stands in for the process's choice of form: always the same one."""

    def __init__(self, *, compiled: bool) -> None:
        self.compiled = compiled
        self.spent_s = 0.0

    def can_afford(self, args: tuple[Any, ...]) -> bool:
        return not self.compiled


def results(history: Sequence[Op], model: Model) -> Iterator[dict[str, Any]]:
    """All that both arms find out, on a model whose kind they see and on one whose kind they do not."""
    ops = read_ops(to_table(list(history)), model)
    for each in (model, Table(model)):
        stepper = Stepper(each, ops.transitions, cells=LIMITS.cells)
        for search in (Search(events(ops, stepper.observer), stepper, LIMITS), DepthFirst(ops, stepper, LIMITS)):
            result = search.run()
            yield {
                "answer": result.answer,
                "event": result.event,
                "frontier": result.frontier.tolist(),
                "reachable": result.reachable.tolist(),
                "complete": result.complete,
                "covering": result.covering,
            }


def judged(monkeypatch: pytest.MonkeyPatch, history: Sequence[Op], model: str, *, compiled: bool) -> Any:
    monkeypatch.setattr(kernels, "_process", Form(compiled=compiled))
    verdict = msgspec.structs.replace(check_ops(list(history), model), seconds=0.0)
    # How often the arms took turns depends on the clock.
    figures = {name: verdict.figures[name] for name in ("ops", "crashed")}
    told = msgspec.structs.replace(verdict, figures=figures)
    return told, list(results(history, models.model(model)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", VOCABULARIES)
def test_plain_and_compiled_kernels_find_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = VOCABULARIES[name]
    for seed in range(6):
        history = small_history(random.Random(f"forms {name} {seed}"), vocabulary)
        plain = judged(monkeypatch, history, vocabulary.model, compiled=False)
        assert plain == judged(monkeypatch, history, vocabulary.model, compiled=True)
