"""Changes that are asked for again, too late, or of members that are gone: what is answered, and what stays done."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from unittest.mock import MagicMock

from splitbrain.cluster.flagkeeper import FlagKeeper
from splitbrain.cluster.flags.effects import Answer
from splitbrain.cluster.flags.machine import TICK_MS
from splitbrain.cluster.flags.messages import Accept
from splitbrain.cluster.flags.registry import probe_name, registry_of
from splitbrain.cluster.raft.membership import Configuration
from tests.cluster.flags.support import World

FIRST, SECOND = probe_name(1), probe_name(2)


def until(world: World, condition: Callable[[], bool], slow: str = "") -> None:
    """All goes on, but the callbacks of a slow member under its first change, until something is so."""
    for _ in range(1_000):
        if condition():
            return
        ready = [index for index, (name, _) in enumerate(world.callbacks) if name != slow]
        if ready:
            world.call_back(ready[0])
        elif world.network:
            world.deliver(0)
        else:
            world.now_ms += TICK_MS
            for name in world.members:
                world.tick(name)
    raise AssertionError("it does not come to that")


def one_enabled(world: World) -> bool:
    return "enabled" in world.states(FIRST).values()


def test_a_change_begins_while_a_member_that_is_down_does_not_know_the_last_decision() -> None:
    world = World(3)
    world.run(1_000)
    world.enable("n1", FIRST, 2_000)
    until(world, lambda: one_enabled(world))
    world.kill("n3")
    world.run(4_000)
    second = world.enable("n1", SECOND, 20_000)
    world.run(2_000)
    assert world.answers[second].failed == "missing_nodes", "it had its turn"
    third = world.enable("n1", SECOND, 20_000)
    world.start("n3")
    world.run(20_000)
    assert world.answers[third].failed is None
    assert set(world.states(FIRST).values()) == set(world.states(SECOND).values()) == {"enabled"}


def test_a_node_that_is_no_member_any_more_begins_nothing() -> None:
    world = World(3)
    world.run(1_000)
    world.enable("n1", FIRST, 5_000)
    waits = world.enable("n1", SECOND, 20_000)
    world.configuration = ("n2", "n3")
    world.configure()
    world.run(15_000)
    assert world.answers[waits].failed == "not_synchronised"


def test_a_change_that_was_undone_is_not_answered_as_done_where_a_member_that_is_down_does_not_know() -> None:
    world = World(3)
    world.run(1_000)
    request = world.enable("n1", FIRST, 12_000)
    until(world, lambda: any(each.sender == "n1" and isinstance(each.message, Accept) for each in world.network))
    world.network.clear()
    world.cut.add("n1")
    world.run(6_000)
    assert world.state("n2", FIRST) == "disabled", "the others finished it"
    world.kill("n3")
    world.cut.clear()
    world.run(8_000)
    assert world.answers[request].failed == "undone"


def test_a_node_lists_flags_as_its_disk_has_them() -> None:
    @coroutine
    def written(_name: str, _content: bytes) -> Generator[None]:
        yield

    runtime = MagicMock()
    runtime.disk.read.return_value = None
    runtime.disk.replace = written
    runtime.clock.monotonic_ns.return_value = 0
    configuration = Configuration(("n1",))
    keeper = FlagKeeper("n1", registry_of(1), True, runtime, MagicMock(), lambda: configuration, lambda: configuration)

    def state() -> str:
        return next(row.state for row in keeper.listed().flags if row.name == FIRST)

    answers: list[Answer] = []
    keeper.enable(FIRST, 1_000, answers.append, experimental=False)
    work: Coroutine[None, None, None] = runtime.spawn.call_args.args[0]
    seen = [state()]
    with suppress(StopIteration):
        while True:
            work.send(None)
            seen.append(state())
    assert seen[:2] == ["disabled", "disabled"], "the mark is not on the disk yet"
    assert [answer.failed for answer in answers] == [None]
    assert state() == "enabled"
