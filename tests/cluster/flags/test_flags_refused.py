"""What a controller refuses (FF-1, FF-2), what waits, and who may join (FF-3); and which registries there cannot be."""

from __future__ import annotations

import pytest

from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.flags.machine import TICK_MS
from splitbrain.cluster.flags.registry import BUILT_IN, Flag, Registry, probe_name, registry_of
from tests.cluster.flags.support import World

FLAG = probe_name(1)


def refused(world: World, flag: str, name: str = "n1") -> tuple[str | None, str]:
    request = world.enable(name, flag)
    world.run(12_000)
    answer = world.answers[request]
    assert "enabled" not in world.states(flag).values() or answer.failed is None
    return answer.failed, answer.detail


def test_ff_2_all_members_must_run() -> None:
    world = World(3)
    world.kill("n3")
    assert refused(world, FLAG) == ("missing_nodes", "n3 did not answer: all members must run")
    world.start("n3")
    assert refused(world, FLAG)[0] is None


def test_ff_2_all_members_must_know_the_flag() -> None:
    world = World(2)
    world.add("n3", founder=True, probes=0)
    failed, detail = refused(world, FLAG)
    assert failed == "unsupported"
    assert "not known on n3" in detail


def test_ff_1_an_experimental_flag_takes_an_opt_in() -> None:
    assert refused(World(1), "khepri_db")[0] == "experimental"
    assert refused(World(1), "nothing")[0] == "unknown_flag"


def test_ff_2_what_a_flag_depends_on_is_enabled_first() -> None:
    world = World(3)
    assert refused(world, probe_name(4)) == (None, "")
    assert {flag: set(world.states(flag).values()) for flag in map(probe_name, (2, 3, 4))} == {
        probe_name(2): {"disabled"},
        probe_name(3): {"enabled"},
        probe_name(4): {"enabled"},
    }
    done = world.members["n2"].done
    assert done == [probe_name(3), probe_name(4)]


def test_ff_2_one_change_at_a_time_and_the_others_wait() -> None:
    world = World(3)
    requests = [world.enable(name, probe_name(number)) for number, name in enumerate(world.members, 1)]
    most = 0
    for _ in range(2_000):
        if world.network:
            world.deliver(0)
        elif world.callbacks:
            world.call_back(0)
        else:
            world.now_ms += TICK_MS
            for name in world.members:
                world.tick(name)
        changing = {
            pending.flag
            for member in world.members.values()
            if member.record is not None
            for pending in member.record.pending
            if pending.vote is not None
        }
        most = max(most, len(changing))
    assert most == 1
    assert [world.answers[request].failed for request in requests] == [None, None, None]


def test_ff_3_a_member_that_joins_takes_over_what_is_enabled_with_what_it_takes() -> None:
    world = World(3)
    refused(world, probe_name(4))
    world.add("n4")
    assert world.state("n4", probe_name(4)) == "unknown"
    world.run(1_000)
    assert world.state("n4", probe_name(4)) == "enabled"
    assert world.members["n4"].done == [probe_name(3), probe_name(4)]


def test_ff_3_a_member_that_does_not_know_an_enabled_flag_does_not_join() -> None:
    world = World(3)
    refused(world, FLAG)
    world.add("n4", probes=0)
    world.run(1_000)
    why = world.members["n4"].stopped_with
    assert why is not None
    assert f"{FLAG} is enabled in this cluster, and the program of n4 does not know it" in why


def test_ff_3_founders_know_that_nothing_is_enabled_and_a_member_that_joins_asks_one_of_them() -> None:
    world = World(1)
    refused(world, FLAG)
    world.kill("n1")
    world.add("n2")
    world.add("n3")
    world.run(4_000)
    assert {world.state(name, FLAG) for name in ("n2", "n3")} == {"unknown"}, "they do not believe each other"
    world.start("n1")
    world.run(4_000)
    assert set(world.states(FLAG).values()) == {"enabled"}


def test_ff_1_who_asks_whether_a_flag_is_enabled_waits_while_it_changes() -> None:
    world = World(3)
    world.enable("n1", FLAG)
    while world.state("n2", FLAG) != "state_changing":
        world.deliver(0)
    flags = world.members["n2"].flags
    assert flags is not None
    flags.is_enabled(99, FLAG, 5_000)
    world.tick("n2")
    assert 99 not in world.answers
    world.run(1_000)
    assert world.answers[99].enabled


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([Flag("a", "stable"), Flag("a", "stable")], "two feature flags 'a'"),
        ([Flag("a", "stable", ("b",))], "depends on b, which is not known"),
        ([Flag("a", "stable", ("b",)), Flag("b", "stable", ("a",))], "depends on itself: a > b > a"),
        ([Flag("a", "required", ("b",)), Flag("b", "stable")], "a is required, and depends on one that is not"),
    ],
)
def test_a_registry_that_makes_no_sense_is_refused(flags: list[Flag], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        Registry(flags)


def test_required_flags_are_enabled_from_the_start() -> None:
    assert set(registry_of(4).required) == {name for name, flag in BUILT_IN.items() if flag.stability == "required"}
    assert set(World(3).states("feature_flags").values()) == {"enabled"}
