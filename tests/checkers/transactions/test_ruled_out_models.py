"""`not` and `also_not` by an independent derivation over the lattice, for every anomaly, pair and many sets of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import numpy as np

from splitbrain.checkers.transactions.models import (
    EXISTS,
    IMPLIED_ANOMALIES,
    IMPLIED_MODELS,
    LADDER,
    PROSCRIBED,
    anomaly_names,
    boundary,
)
from tests.checkers.transactions.test_isolation_checkers import judge

ANOMALIES = anomaly_names()
MODELS = sorted({*IMPLIED_MODELS, *(each for implied in IMPLIED_MODELS.values() for each in implied)})


def closure(names: list[str], edges: Iterable[tuple[str, str]]) -> np.ndarray:
    """Whether one name leads to another, or is it: as a matrix that is squared until nothing changes."""
    matrix = np.eye(len(names), dtype=np.bool_)
    for one, other in edges:
        matrix[names.index(one), names.index(other)] = True
    while True:
        longer = (matrix.astype(np.int64) @ matrix.astype(np.int64)) > 0
        if (longer == matrix).all():
            return matrix
        matrix = longer


STRONGER = closure(MODELS, [(one, other) for one, implied in IMPLIED_MODELS.items() for other in implied])
EVERY = sorted({*ANOMALIES, *IMPLIED_ANOMALIES})
WORSE = closure(EVERY, [(one, other) for one, implied in IMPLIED_ANOMALIES.items() for other in implied])


def derived(anomalies: Iterable[str]) -> tuple[list[str], list[str]]:
    """Models that proscribe something that is shown, and all that imply them; those without a weaker one first."""
    shown = np.zeros(len(EVERY), np.bool_)
    for each in anomalies:
        shown |= WORSE[EVERY.index(each)]
    names = {each for each, is_shown in zip(EVERY, shown, strict=True) if is_shown}
    direct = [
        bool(names & {*PROSCRIBED.get(model, ()), *([f"{model}{EXISTS}"] if model in LADDER else [])})
        for model in MODELS
    ]
    out = [place for place in range(len(MODELS)) if (STRONGER[place] & np.array(direct)).any()]
    weakest = [one for one in out if not any(STRONGER[one, other] for other in out if other != one)]
    return [MODELS[each] for each in weakest], [MODELS[each] for each in out if each not in weakest]


def test_the_weakest_models_of_each_set_of_anomalies_are_those_that_follow() -> None:
    rng = random.Random(20)
    sets: list[tuple[str, ...]] = [(), *((each,) for each in ANOMALIES), *itertools.combinations(ANOMALIES, 2)]
    sets += [tuple(rng.sample(ANOMALIES, rng.randint(3, 12))) for _ in range(1_000)]
    for each in sets:
        weakest, stronger = boundary(each)
        assert (sorted(weakest), sorted(stronger)) == derived(each), each


def test_no_weaker_model_is_named_than_those_whose_orders_were_looked_at() -> None:
    """Process 0 wrote twice, and its second write was read without the first: real time says so, and its order does."""
    text = """
    0 invoke [[:append :x 1]]
    0 ok     [[:append :x 1]]
    0 invoke [[:append :y 1]]
    0 ok     [[:append :y 1]]
    1 invoke [[:r :y nil] [:r :x nil]]
    1 ok     [[:r :y [1]] [:r :x []]]
    """
    by_realtime = judge(text, consistency_models=["strict-serializable"])
    assert by_realtime.evidence["not"] == ["strong-snapshot-isolation"]
    assert "strong-serializable" in by_realtime.evidence["also_not"]
    by_process = judge(text, consistency_models=["strong-session-serializable"])
    assert by_process.evidence["not"] == ["strong-session-snapshot-isolation"]
    assert {"strong-snapshot-isolation", "strong-serializable"} <= set(by_process.evidence["also_not"])
