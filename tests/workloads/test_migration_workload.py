"""The workload `migration`: clients leave room for a rollback, within bounded time, whatever the system answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from splitbrain.harness.generators import Generator, time_limit
from splitbrain.results.history import Op, OpType
from splitbrain.workloads.catalogue import build
from splitbrain.workloads.migration import DECLARE, DELETE, LOOK, Asking, calm, with_way_back
from tests.workloads.support import FIVE, drive, invocations

S = 1_000_000_000

Answers = Callable[[Op, str], tuple[OpType, str]]
"""Of an op and the store in force, how it ends, and the store in force after it."""


class Moved(msgspec.Struct, frozen=True):
    """A workload's generator, whose looks are answered by the store that is in force.

    `drive` completes ops with what they were asked; this puts the store into the completion of a look.
    """

    source: Generator
    answers: Answers
    store: str = "tables"

    def op(self, ctx: Any) -> Any:
        result = self.source.op(ctx)
        return None if result is None else (result[0], msgspec.structs.replace(self, source=result[1]))

    def update(self, ctx: Any, event: Op) -> Generator:
        if event.type == "invoke":
            return msgspec.structs.replace(self, source=self.source.update(ctx, event))
        how, store = self.answers(event, self.store)
        value = {"store": store} if event.f == LOOK and how == "ok" else event.value
        if event.f == "roll-back" and how == "fail":
            how, value = "ok", {"refused": "migration_refused: no way back"}
        done = msgspec.structs.replace(event, type=how, value=value)
        return msgspec.structs.replace(self, source=self.source.update(ctx, done), store=store)


def right(op: Op, store: str) -> tuple[OpType, str]:
    """A system that does at once what it is asked for."""
    return "ok", {"migrate": "tree", "roll-back": "tables"}.get(op.f, store)


def never(op: Op, store: str) -> tuple[OpType, str]:
    """One that cannot migrate."""
    return ("fail" if op.f in ("migrate", "roll-back") else "ok"), store


def asked(source: Generator, answers: Answers, *, ops_max: int = 4_000, concurrency: int = 10) -> list[Op]:
    made = drive(Moved(source, answers), ops_max=ops_max, apart_ns=10_000_000, concurrency=concurrency)
    return invocations(made)


def between(ops: Sequence[Op], first: str, second: str) -> set[str]:
    """Functions of the ops after the first of one and before the first of another one."""
    fs = [op.f for op in ops]
    begin = fs.index(first)
    return set(fs[begin + 1 : fs.index(second, begin)])


def test_nothing_is_changed_from_the_migration_until_the_rollback_and_nobody_migrates_right_after_it() -> None:
    ops = asked(with_way_back(30.0), right)
    assert between(ops, "migrate", "roll-back") == {LOOK}
    begin = next(op.time for op in ops if op.f == "migrate")
    back = next(op.time for op in ops if op.f == "roll-back")
    assert {op.f for op in ops if op.time < begin} == {DECLARE, DELETE, LOOK}
    after = [op for op in ops if op.time > back]
    again = next(op.time for op in after if op.f == "migrate")
    assert again - back >= 3 * S
    assert {DECLARE, DELETE, LOOK} == {op.f for op in after if op.time < again} - {"roll-back"}
    looks = {op.process for op in ops if op.f == LOOK and begin < op.time < back}
    assert looks == set(range(10)), "every client looks at the second store"


@pytest.mark.parametrize("time_limit_s", [2.0, 10.0, 30.0, 300.0])
def test_if_it_cannot_migrate_changes_go_on_after_half_of_the_time(time_limit_s: float) -> None:
    ops = asked(time_limit(time_limit_s, with_way_back(time_limit_s)), never, ops_max=40_000)
    first = next(op.time for op in ops if op.f == "migrate")
    last = max(op.time for op in ops if op.f == "migrate")
    goes_on = next(op.time for op in ops if op.f in (DECLARE, DELETE) and op.time > first)
    assert first <= 0.06 * time_limit_s * S
    assert goes_on <= 0.57 * time_limit_s * S
    assert last < goes_on, "the way back is left for the time after the faults"


def test_one_client_asks_at_a_time_and_not_at_once_again() -> None:
    ops = drive(Moved(Asking("migrate", "tree"), never), ops_max=300, took_ns=lambda op: S // 2, apart_ns=10_000_000)
    asking = [(op.time, op.type) for op in ops if op.f == "migrate"]
    assert len(asking) > 8
    for (begun, _), (ended, _) in zip(asking[::2], asking[1::2], strict=False):
        assert ended == begun + S // 2
    assert all(later[0] - earlier[0] >= 0.3 * S for earlier, later in zip(asking[1::2], asking[2::2], strict=False))


def test_looks_are_few_while_nothing_changes() -> None:
    ops = asked(time_limit(5.0, Asking("migrate", "tree")), never)
    assert 30 < sum(op.f == LOOK for op in ops) <= 51


def test_a_rollback_that_is_refused_ends_the_asking() -> None:
    ops = asked(Asking("roll-back", "tables"), lambda op, _: ("fail" if op.f == "roll-back" else "ok", "tree"))
    assert [op.f for op in ops].count("roll-back") == 1


def test_an_answer_of_the_store_counts_only_once_it_was_asked_for() -> None:
    ops = asked(Asking("roll-back", "tables"), right)
    assert ops[0].f == "roll-back"


def test_a_single_client_asks_and_looks_in_turn() -> None:
    ops = asked(with_way_back(30.0), right, concurrency=1, ops_max=1_500)
    assert between(ops, "migrate", "roll-back") == {LOOK}
    assert {"migrate", DECLARE} <= {op.f for op in ops[-1_000:]}


def test_with_the_faults_healed_it_is_moved_there_and_back_and_moved_among_changes() -> None:
    ops = asked(calm(), right)
    assert ops[0].f == "migrate"
    assert between(ops, "migrate", "roll-back") == {LOOK}
    assert {DECLARE, DELETE, "migrate"} <= {op.f for op in ops[20:]}
    assert ops[-1].time < 25 * S


def test_with_the_faults_healed_it_ends_also_if_nothing_is_ever_known() -> None:
    ops = asked(calm(), lambda _, store: ("info", store), ops_max=20_000)
    assert 20 * S < ops[-1].time < 30 * S


def test_final_ops_of_the_workload_come_to_an_end() -> None:
    final = build("migration", nodes=FIVE, concurrency=10).final_generator
    assert final is not None
    ops = asked(final, right)
    assert 0 < len(ops) < 1_000
    assert {op.f for op in ops[-10:]} == {LOOK}
