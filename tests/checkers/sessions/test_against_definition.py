"""The checker `session` says what its definition says, on small histories of every kind."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.sessions import Sessions
from splitbrain.checkers.weaker.models import SEQUENTIAL
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.brute_force import linearizable
from tests.checkers.sessions.definition import judge
from tests.checkers.support import Script
from tests.checkers.weaker.support import decided, drawn

OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"linearizable_writes": True},
    {"sessions": "connection"},
    {"follows": {"read": ["write"]}},
    {"follows": {"read-local": ["read"]}, "linearizable_writes": True},
    {"follows": {"read": ["write", "read-local"], "read-local": []}, "linearizable_writes": True},
    {
        "follows": {"read-local": ["read", "write"], "read": ["read-local"]},
        "same_term": ["read-local"],
        "linearizable_writes": True,
        "sessions": "connection",
    },
)


def random_history(seed: int) -> list[Op]:
    """At most five writes of one or two keys by up to four processes, and reads that return what was written at all."""
    draw = random.Random(seed)
    script = Script()
    keys = ["x", "y"][: draw.choice([1, 1, 2])]
    values = {key: list[int]() for key in keys}
    busy: dict[int, Op] = {}
    goes_on = draw.random() < 0.3  # with the same process after an op of unknown outcome
    threads = draw.randint(1, 4)
    processes = list(range(threads))
    unique, writes, repeats = iter(range(1, 100)), 0, draw.random() < 0.2
    for _ in range(draw.randint(6, 26)):
        at = draw.randrange(threads)
        process = processes[at]
        if process in busy:
            asked = busy.pop(process)
            how = draw.choices(["ok", "fail", "info"], [8, 1, 1])[0]
            term = draw.choice([None, 1, 1, 1, 2])
            answer: Any = asked.value
            if asked.f.startswith("read"):
                chosen = [*values[asked.key or ""], None]
                answer = draw.choice(chosen) if how == "ok" else None
            script.event(process, how, asked.f, answer, key=asked.key, term=term)  # pyright: ignore[reportArgumentType]
            if how == "info" and not goes_on:
                processes[at] += threads
            continue
        key, chance = draw.choice(keys), draw.random()
        f, value = draw.choice(["read", "read-local"]), None
        if chance < 0.5 and writes < 5:
            writes += 1
            new = draw.choice([1, 2]) if repeats else next(unique)
            f, value = ("write", new) if chance < 0.4 else ("cas", [draw.choice([*values[key], None]), new])
            values[key].append(new)
        busy[process] = script.event(process, "invoke", f, value, key=key)
    return script.ops


def verdict(history: list[Op], options: dict[str, Any]) -> str:
    return Sessions().check(to_table(history), options).valid


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**40), st.sampled_from(OPTIONS))
def test_the_verdict_is_that_of_trying_every_order_of_the_writes(seed: int, options: dict[str, Any]) -> None:
    history = random_history(seed)
    expected, found = judge(history, options), Sessions().check(to_table(history), options)
    assert (found.valid == "false") == (expected == "false"), found.sentence
    assert found.valid != "true" or expected == "true"
    if found.valid == "false":
        assert found.anomalies
        assert found.evidence["ops"]
    if expected == "true" and found.valid == "unknown":
        assert 0 in (found.figures["compared"], found.figures["reads"])


def test_the_drawn_histories_are_true_false_and_ambiguous_under_all_options() -> None:
    for options in OPTIONS:
        found = Counter(judge(random_history(seed), options) for seed in range(60))
        assert min(found[answer] for answer in ("true", "false")) >= 3, (options, found)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 2), st.booleans(), st.booleans())
def test_what_is_sequentially_consistent_keeps_all_session_guarantees(
    seed: int, keys: int, crashes: bool, cas: bool
) -> None:
    history = drawn(seed, ops=9, keys=keys, processes=3, values=None, crashes=crashes, cas=cas)
    if decided(history).holds.get(SEQUENTIAL):
        found = Sessions().check(to_table(history), {})
        # Sequential consistency takes no notice of real time, and allows reads of what is written only later.
        assert set(found.anomalies) <= {"thin-air-read"}, found.sentence


def step(state: Any, f: str, value: Any, result: Any) -> Any:
    """A register; its states are tuples, since None means impossible."""
    if f == "write":
        return (value,)
    if f == "cas":
        return (value[1],) if state == (value[0],) else None
    return state if result is None or (result,) == state else None


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**40))
def test_what_is_linearizable_keeps_all_session_guarantees_with_real_time_as_evidence(seed: int) -> None:
    history = [op for op in random_history(seed) if op.f != "read-local"]
    keys = {op.key for op in history}
    of_keys = [[op for op in history if op.key == key] for key in keys]
    answered = [op for op in history if op.type == "ok" and op.f == "read" and op.value is None]
    if not answered and all(linearizable(ops, (None,), step) for ops in of_keys):
        assert verdict(history, {"linearizable_writes": True}) != "false"


@pytest.mark.parametrize("options", OPTIONS)
def test_an_empty_history_proves_nothing(options: dict[str, Any]) -> None:
    assert verdict([], options) == "unknown"
