"""Keys in turns: a hard key keeps no other one from its verdict, and one violation is the verdict on all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from splitbrain.checkers.engine import judge
from splitbrain.checkers.linearizable.checker import check_ops
from splitbrain.checkers.turns import OTHERS_S, judge_in_turns
from splitbrain.checkers.verdict import CheckerSpec, Valid, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Key:
    """A key that takes so many seconds of a clock, of which it holds memory until it is decided."""

    name: str
    answer: Valid
    clock: Clock
    glance_s: float = 0.0
    search_s: float = 0.0
    ends_by: int = 0
    held: int = 1
    explained: bool = False
    turns: list[float] = field(default_factory=list[float])
    error: Exception | None = None
    valid: Valid | None = None

    @property
    def key(self) -> str:
        return self.name

    @property
    def memory_bytes(self) -> int:
        return self.held if self.turns and self.valid is None else 0

    def start(self) -> None:
        self.clock.now += self.glance_s
        if self.error is not None:
            raise self.error
        if self.search_s == 0.0:
            self.valid = self.answer

    def advance(self, seconds: float) -> bool:
        took = min(seconds, self.search_s - sum(self.turns))
        self.turns.append(took)
        self.clock.now += took
        if sum(self.turns) >= self.search_s - 1e-9:
            self.valid = self.answer
        return self.valid is not None

    def verdict(self, *, explained: bool = True) -> Verdict:
        assert self.valid is not None
        self.explained = explained and self.valid == "false"
        return Verdict(checker="x", valid=self.valid, key=self.name)

    def put_off(self) -> Verdict:
        return Verdict(checker="x", valid="unknown", key=self.name, sentence="put off")


def judged(clock: Clock, *keys: Key, memory_bytes: int = 1 << 30) -> list[str]:
    def broke(task: Any, error: Exception) -> Verdict:
        return Verdict(checker="x", valid="unknown", key=task.key, sentence=f"broke: {error}")

    verdicts = judge_in_turns(keys, broke, memory_bytes=memory_bytes, clock=clock)
    assert [verdict.key for verdict in verdicts] == [key.name for key in keys]
    return [verdict.valid for verdict in verdicts]


def test_a_hard_key_does_not_keep_a_violated_one_from_its_verdict() -> None:
    clock = Clock()
    hard, bad = Key("hard", "true", clock, search_s=60.0), Key("bad", "false", clock, search_s=0.3)
    assert judged(clock, hard, bad) == ["unknown", "false"]
    assert clock.now < 1.0 + 2 * OTHERS_S


def test_keys_that_a_glance_decides_come_before_all_searches() -> None:
    clock = Clock()
    hard, bad = Key("hard", "true", clock, search_s=60.0), Key("bad", "false", clock, glance_s=0.01)
    assert judged(clock, hard, bad) == ["unknown", "false"]
    assert sum(hard.turns) <= OTHERS_S + 0.01


def test_without_a_violation_every_key_is_judged_to_its_end() -> None:
    clock = Clock()
    keys = [Key(str(i), "true", clock, search_s=i * 7.0) for i in range(5)]
    assert judged(clock, *keys) == ["true"] * 5
    assert clock.now == pytest.approx(70.0)


def test_other_keys_have_as_much_time_as_the_verdict_took() -> None:
    clock = Clock()
    slow = Key("slow", "false", clock, glance_s=20.0)
    other, third = Key("other", "true", clock, search_s=9.0), Key("third", "true", clock, search_s=50.0)
    assert judged(clock, slow, other, third) == ["false", "true", "unknown"]
    assert clock.now <= 2 * 20.0 + OTHERS_S


def test_turns_become_longer_so_that_a_key_that_takes_long_has_few() -> None:
    clock = Clock()
    keys = [Key(str(i), "true", clock, search_s=50.0) for i in range(2)]
    assert judged(clock, *keys) == ["true"] * 2
    assert all(len(key.turns) <= 10 for key in keys)


def test_keys_that_were_not_looked_at_before_the_time_was_over_are_put_off() -> None:
    clock = Clock()
    bad = Key("bad", "false", clock, glance_s=0.1)
    others = [Key(str(i), "true", clock, glance_s=OTHERS_S) for i in range(5)]
    assert judged(clock, bad, *others) == ["false", "true", *["unknown"] * 4]


def test_only_the_violation_that_is_there_first_is_explained() -> None:
    clock = Clock()
    late, early = Key("late", "false", clock, ends_by=90), Key("early", "false", clock, ends_by=10)
    assert judged(clock, late, early) == ["false", "false"]
    assert (late.explained, early.explained) == (False, True)


def test_a_single_key_has_one_turn() -> None:
    clock = Clock()
    key = Key("only", "true", clock, search_s=40.0)
    assert judged(clock, key) == ["true"]
    assert key.turns == [40.0]


def test_where_waiting_keys_hold_too_much_a_turn_has_no_end() -> None:
    clock = Clock()
    keys = [Key(str(i), "true", clock, search_s=9.0, held=10) for i in range(4)]
    assert judged(clock, *keys, memory_bytes=15) == ["true"] * 4
    assert sum(len(key.turns) > 1 for key in keys) == 2


@pytest.mark.parametrize("error", [ValueError("oh"), UsageError("no such function")])
def test_a_key_that_breaks_or_is_wrong_keeps_no_other_from_its_verdict(error: Exception) -> None:
    clock = Clock()
    broken, bad = Key("broken", "true", clock, error=error), Key("bad", "false", clock)
    assert judged(clock, broken, bad) == ["unknown", "false"]
    assert judged(clock, bad, broken) == ["false", "unknown"]


# --- of linearizable --------------------------------------------------------------------------------------------------


def hard_key(key: str, clients: int) -> list[Op]:
    """Amounts that are added at once, no two sets of them with one sum; and a read of a sum that there is not."""
    adds = [Op(process=i, type="invoke", f="add", key=key, value=3 << i) for i in range(clients)]
    read = Op(process=clients, type="invoke", f="read", key=key)
    return [*adds, *(add.complete("ok", add.value) for add in adds), read, read.complete("ok", 1)]


def bad_key(key: str) -> list[Op]:
    read = Op(process=0, type="invoke", f="read", key=key)
    return [read, read.complete("ok", 7)]


def nothing(*_: Any, **__: Any) -> None:
    """A decider that has no answer."""


def numbered(ops: list[Op]) -> list[Op]:
    return [msgspec.structs.replace(op, index=index) for index, op in enumerate(ops)]


@pytest.mark.slow
def test_a_run_with_violated_keys_explains_the_first_of_them() -> None:
    ops = [*hard_key("a", 24), *bad_key("b"), *bad_key("c")]
    [verdict] = judge(to_table(numbered(ops)), [CheckerSpec("linearizable", {"model": "counter"})])
    assert verdict.valid == "false"
    assert verdict.evidence["key"] == "a"
    assert {"b", "c"} <= {*verdict.evidence["failing_keys"]}


def test_what_was_put_off_is_said_in_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter's decider is left out, so that the hard key is hard."""
    monkeypatch.setattr("splitbrain.checkers.linearizable.judging.decide", nothing)
    monkeypatch.setattr("splitbrain.checkers.turns.OTHERS_S", 0.0)
    verdict = check_ops([*hard_key("a", 24), *bad_key("b")], "counter")
    assert verdict.valid == "false"
    assert verdict.evidence["undecided_keys"] == ["a"]
    assert verdict.sentence.endswith("At least 1 of 2 keys is not linearizable. 1 was not judged to the end.")
