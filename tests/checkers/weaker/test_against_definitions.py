"""The deciders of weaker models agree with the definitions, in both directions, on small histories."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkers.weaker.definitions import calls_of, causal_models, is_sequential
from tests.checkers.weaker.support import NAMES, decided, drawn

SHAPES: list[dict[str, Any]] = [
    {"keys": 1, "processes": 2, "values": None, "crashes": False, "cas": False},
    {"keys": 2, "processes": 3, "values": None, "crashes": True, "cas": False},
    {"keys": 1, "processes": 3, "values": 2, "crashes": True, "cas": True},
    {"keys": 2, "processes": 2, "values": 2, "crashes": False, "cas": True},
    {"keys": 2, "processes": 3, "values": None, "crashes": True, "cas": True},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_sequential_consistency_is_decided_as_by_trying_all_orders(shape: dict[str, Any]) -> None:
    answers: list[bool] = []
    for seed in range(120):
        history = drawn(seed, ops=7, **shape)
        if not history:
            continue
        expected = is_sequential(calls_of(history))
        assert decided(history).holds[NAMES["SC"]] is expected, (seed, history)
        answers.append(expected)
    assert 10 < sum(answers) < len(answers) - 10


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_causal_models_are_decided_as_by_trying_all_causal_orders(shape: dict[str, Any]) -> None:
    seen: dict[tuple[str, bool], int] = {}
    for seed in range(60):
        history = drawn(1000 + seed, ops=4, **shape)
        if not history:
            continue
        expected = causal_models(calls_of(history))
        answer = decided(history)
        for name in ("CC", "CM", "CCv"):
            model = NAMES[name]
            if shape["values"] is None:
                assert model in answer.holds, (seed, history)
            if model in answer.holds:
                assert answer.holds[model] is (name in expected), (seed, name, history)
                seen[name, name in expected] = seen.get((name, name in expected), 0) + 1
    assert all(seen.get((name, answer), 0) > 3 for name in ("CC", "CM", "CCv") for answer in (True, False)), seen
