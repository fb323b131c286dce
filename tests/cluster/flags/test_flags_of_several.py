"""Several members that change flags at once, and members that are away: what is done stays, and no request hangs."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import suppress
from types import coroutine
from unittest.mock import MagicMock

from splitbrain.cluster.flagkeeper import FlagKeeper
from splitbrain.cluster.flags.effects import Answer, RunCallback
from splitbrain.cluster.flags.machine import TICK_MS
from splitbrain.cluster.flags.messages import Accept
from splitbrain.cluster.flags.registry import registry_of
from splitbrain.cluster.raft.membership import Configuration
from tests.cluster.flags.support import World

FLAG, OTHER = "probe_001", "probe_002"
ENABLED = dict.fromkeys(("n1", "n2", "n3"), "enabled")


def three() -> World:
    world = World(3)
    world.run(1000)
    return world


def knows(world: World, name: str) -> bool:
    record = world.members[name].record
    return record is not None and FLAG in record.enabled


def test_who_waits_for_a_member_that_is_down_is_answered_in_time_and_nothing_of_it_happens_later() -> None:
    world = three()
    first = world.enable("n1", FLAG, 5_000)
    world.until(lambda: knows(world, "n1") or knows(world, "n2"))
    world.kill("n3")
    world.run(8_000)
    assert world.answers[first].failed is None
    late = [world.enable("n1", OTHER, 1_000) for _ in range(3)]
    world.run(3_000)
    assert {world.answers[each].failed for each in late} <= {"missing_nodes", "busy"}
    world.start("n3")
    world.run(10_000)
    assert world.states(FLAG) == ENABLED
    assert set(world.states(OTHER).values()) == {"disabled"}


def test_a_request_behind_a_change_that_cannot_be_decided_is_answered_in_time() -> None:
    world = three()
    first = world.enable("n1", FLAG, 60_000)
    world.until(lambda: any(each.sender == "n1" and isinstance(each.message, Accept) for each in world.network))
    world.network.clear()
    world.cut.add("n1")
    second = world.enable("n1", OTHER, 1_000)
    world.run(3_000)
    assert first not in world.answers
    assert world.answers[second].failed == "busy"


def test_a_request_that_did_not_enable_a_flag_does_not_fail_if_another_did() -> None:
    world = three()
    second = world.enable("n2", FLAG, 5_000)
    world.network = [each for each in world.network if (each.sender, each.to) != ("n2", "n3")]
    first = world.enable("n1", FLAG, 5_000)
    world.until(lambda: first in world.answers)
    assert world.states(FLAG) == ENABLED
    world.kill("n3")
    world.run(8_000)
    assert (world.answers[first].failed, world.answers[second].failed) == (None, None)


def test_to_enable_what_is_enabled_succeeds_also_if_it_is_experimental() -> None:
    world = three()
    flags = world.members["n1"].flags
    assert flags is not None
    flags.enable(900, "khepri_db", 5_000, experimental=True)
    world.tick("n1")
    world.run(3_000)
    assert world.states("khepri_db") == ENABLED
    again = world.enable("n1", "khepri_db")
    assert world.answers[again].failed is None


def test_a_change_that_is_undone_leaves_a_flag_that_another_one_has_enabled() -> None:
    world = three()
    first = world.enable("n1", FLAG, 60_000)
    world.enable("n2", FLAG, 60_000)
    world.until(lambda: first in world.answers and not world.network and not world.callbacks)
    world.now_ms += TICK_MS
    world.tick("n2")
    for _ in range(4):
        if world.network:
            world.deliver(0)
    world.cut.add("n2")
    world.run(12_000)
    world.cut.clear()
    world.run(5_000)
    assert world.states(FLAG) == ENABLED
    assert all(FLAG in member.done for member in world.members.values())


def test_a_slow_callback_of_an_undone_change_does_not_undo_that_of_the_next() -> None:
    world = three()
    first = world.enable("n1", FLAG, 1_000)
    world.until(lambda: first in world.answers, slow="n3")
    assert world.answers[first].failed == "missing_nodes"
    world.until(lambda: not any(member.record and member.record.pending for member in world.members.values()), "n3")
    second = world.enable("n2", FLAG)
    world.until(lambda: any(_is_of(effect, "n2") for name, effect in world.callbacks if name == "n3"), slow="n3")
    world.call_back(next(place for place, (_, effect) in enumerate(world.callbacks) if _is_of(effect, "n2")))
    world.call_back(0)
    world.until(lambda: second in world.answers)
    assert world.answers[second].failed is None
    assert world.states(FLAG) == ENABLED
    assert FLAG in world.members["n3"].done


def _is_of(effect: RunCallback, controller: str) -> bool:
    return effect.op is not None and effect.op.controller == controller


def test_the_only_member_that_is_left_by_force_decides_what_was_under_way() -> None:
    for controller in ("n1", "n2"):
        world = three()
        world.enable(controller, FLAG, 60_000)
        world.until(lambda world=world: all(each.record and each.record.pending for each in world.members.values()))
        world.kill("n2")
        world.kill("n3")
        world.network.clear()
        world.shrink("n1")
        world.run(60_000)
        assert world.state("n1", FLAG) in ("enabled", "disabled")
        asked = world.enable("n1", OTHER)
        world.run(3_000)
        assert (world.answers[asked].failed, world.state("n1", OTHER)) == (None, "enabled")


def test_a_node_takes_nothing_over_before_it_belongs_to_the_cluster_for_good() -> None:
    """What makes it a member may be taken back as long as it is not committed."""
    world = three()
    world.add("n4", belongs=False)
    world.run(3_000)
    assert world.state("n4", FLAG) == "unknown"
    world.belong("n4")
    world.run(3_000)
    assert world.state("n4", FLAG) == "disabled"


def test_a_change_begins_while_a_member_that_is_down_does_not_know_the_last_decision() -> None:
    world = World(3)
    world.run(1_000)
    world.enable("n1", FLAG, 2_000)
    world.until(lambda: "enabled" in world.states(FLAG).values())
    world.kill("n3")
    world.run(4_000)
    second = world.enable("n1", OTHER, 20_000)
    world.run(2_000)
    assert world.answers[second].failed == "missing_nodes", "it had its turn"
    third = world.enable("n1", OTHER, 20_000)
    world.start("n3")
    world.run(20_000)
    assert world.answers[third].failed is None
    assert set(world.states(FLAG).values()) == set(world.states(OTHER).values()) == {"enabled"}


def test_a_node_that_is_no_member_any_more_begins_nothing() -> None:
    world = World(3)
    world.run(1_000)
    world.enable("n1", FLAG, 5_000)
    waits = world.enable("n1", OTHER, 20_000)
    world.configuration = ("n2", "n3")
    world.configure()
    world.run(15_000)
    assert world.answers[waits].failed == "not_synchronised"


def test_a_change_that_was_undone_is_not_answered_as_done_where_a_member_that_is_down_does_not_know() -> None:
    world = World(3)
    world.run(1_000)
    request = world.enable("n1", FLAG, 12_000)
    world.until(lambda: any(each.sender == "n1" and isinstance(each.message, Accept) for each in world.network))
    world.network.clear()
    world.cut.add("n1")
    world.run(6_000)
    assert world.state("n2", FLAG) == "disabled", "the others finished it"
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
        return next(row.state for row in keeper.listed().flags if row.name == FLAG)

    answers: list[Answer] = []
    keeper.enable(FLAG, 1_000, answers.append, experimental=False)
    work: Coroutine[None, None, None] = runtime.spawn.call_args.args[0]
    seen = [state()]
    with suppress(StopIteration):
        while True:
            work.send(None)
            seen.append(state())
    assert seen[:2] == ["disabled", "disabled"], "the mark is not on the disk yet"
    assert [answer.failed for answer in answers] == [None]
    assert state() == "enabled"
