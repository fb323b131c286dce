"""The world in which messages are late: what a path holds back arrives, in order, after its sender has given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation.links import Standstills
from splitbrain.harness.simulation.network import SimNetwork
from splitbrain.harness.simulation.worlds import WORLDS, Latency, Stalls, late_s, world
from splitbrain.workloads.queue import SETTLE_S
from tests.cli.test_arguments import OPTIONS
from tests.simulation.test_network import MS, S, Town, broken, play, send_all

SOON = Stalls(every_ns=500 * MS, length=Latency(10 * S, 10 * S))
"""Every connection stands still within its first second, for ten."""


def with_stalls(town: Town, stalls: Stalls | None) -> None:
    """Let new connections between the nodes of a town stand still like this."""
    nature = msgspec.structs.replace(world("lan", Rng(0)), stalls=stalls)
    town.network.links = SimNetwork(town.loop, Streams(1), ("n1", "n2"), nature, None).links


def test_what_a_path_holds_back_arrives_in_order_after_its_sender_has_given_up_and_then_the_end() -> None:
    async def script(town: Town) -> None:
        with_stalls(town, SOON)
        await town.serve()
        connection = await town.connect()
        await town.wait(1)  # its path stands
        send_all(connection, 5)
        began_ns = town.loop.now_ns
        assert "no acknowledgement" in await broken(connection.receive())
        assert 2 * S <= town.loop.now_ns - began_ns < 2.1 * S
        send_all(connection, 5, first=5)  # on a broken connection: lost
        assert town.numbers() == []
        await town.wait(8.5)
        assert town.numbers() == list(range(5))
        assert town.got[0][0] - began_ns > 7 * S
        assert "no acknowledgement" in await broken(town.accepted[0].receive())

    play(script)


def test_a_new_connection_takes_another_path_and_what_the_former_one_carries_arrives_after_it() -> None:
    async def script(town: Town) -> None:
        with_stalls(town, SOON)
        await town.serve()
        former = await town.connect()
        await town.wait(1)
        send_all(former, 1)
        await broken(former.receive())
        with_stalls(town, None)
        send_all(await town.connect(), 1, first=1)
        await town.wait(10)
        assert town.numbers() == [1, 0]

    play(script)


def test_a_short_stall_breaks_nothing() -> None:
    async def script(town: Town) -> None:
        with_stalls(town, Stalls(every_ns=200 * MS, length=Latency(1 * S, 1 * S)))
        await town.serve()
        connection = await town.connect()
        for number in range(100):
            send_all(connection, 1, first=number)
            await town.wait(0.05)
        await town.wait(2)
        assert town.numbers() == list(range(100))
        gaps = [later - sooner for (sooner, _), (later, _) in zip(town.got, town.got[1:], strict=False)]
        assert max(gaps) > 0.9 * S

    play(script)


def test_stalls_do_not_depend_on_what_is_sent() -> None:
    often, seldom = (Standstills(SOON, Rng(7), 0) for _ in range(2))
    for now_ns in range(0, 60 * S, 10 * MS):
        rest_ns = often.rest_ns(now_ns)
        if now_ns % (1 * S) == 0:
            assert seldom.rest_ns(now_ns) == rest_ns


def late_replies(world: str, seed: int) -> int:
    """Replies of old terms that leaders of three nodes received, which hand leadership over all the time."""
    given = {"backend": "sim", "nemesis": "transfer-often", "interval": 1.0, "rate": 60.0, "time_limit": 60.0}
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **given, "world": world, "seed": seed})))
    assert left.failure is None
    return left.marks["reply of an old term ignored"]


@pytest.mark.slow
def test_replies_of_old_terms_arrive_where_messages_are_late_and_not_otherwise() -> None:
    found = next((seed for seed in range(1, 30) if late_replies("late", seed)), None)
    assert found is not None, "none of 29 runs got a reply of an old term"
    assert late_replies("lan", found) == 0


# --- what follows for a test ------------------------------------------------------------------------------------------


def options(workload: str, **given: object) -> RunOptions:
    return RunOptions.of(**{**OPTIONS, "backend": "sim", "workload": workload, **given})


def composed(workload: str, **given: object) -> Test:
    return compose(options(workload, **given))


def outcome(workload: str, **given: object) -> Outcome:
    return carry_out(options(workload, **given)).outcome


def options_of(test: Test, checker: str) -> Mapping[str, Any]:
    return next(spec.options for spec in test.workload.checkers if spec.name == checker)


def test_something_may_arrive_half_a_minute_late_in_one_world_only() -> None:
    late = {name: late_s(world(name, Rng(1))) for name in WORLDS}
    assert late == {**dict.fromkeys(WORLDS, 0.0), "late": 30.0}
    assert composed("register", world="late").late_s == 30.0
    assert composed("register").late_s == 0.0


@pytest.mark.parametrize(
    ("workload", "checker"),
    [("queue", "queue"), ("poison", "poison"), ("conversion", "queue"), ("dead-letter", "dead-letter")],
)
def test_a_queue_is_taken_for_empty_only_when_no_request_of_a_client_that_is_gone_may_arrive(
    workload: str, checker: str
) -> None:
    assert options_of(composed(workload), checker)["settle_s"] == SETTLE_S
    assert options_of(composed(workload, world="late"), checker)["settle_s"] == SETTLE_S + 30.0


def test_groups_of_queues_and_streams_have_more_time_to_recover_where_each_op_takes_long() -> None:
    def bound_s(workload: str, world: str, **given: object) -> float:
        return options_of(composed(workload, world=world, **given), "quorum-progress")["recovery_bound_s"]

    assert bound_s("register", "slow-disks") == bound_s("register", "lan")
    assert bound_s("queue", "lan") < bound_s("register", "lan") + 0.1
    assert bound_s("queue", "slow-disks") > bound_s("queue", "lan") + 7
    assert bound_s("queue", "slow-disks", progress_bound=3.0) == 3.0


@pytest.mark.slow
def test_a_message_that_comes_back_late_is_not_taken_for_lost() -> None:
    """A client gave up a drain, whose request stood on its way: the message that it took was back after 10 s."""
    given = {
        "world": "late",
        "nemesis": "packet,partition-ring,transfer",
        "nodes": "4",
        "concurrency": "10n",
        "rate": 50.0,
    }
    given |= {"time_limit": 30.0, "interval": 2.0, "op_timeout": 5.0, "seed": 8036}
    given |= {"settings": "chunk-bytes=2000,max-batch=1,max-pending=128,max-pipeline=64"}
    assert outcome("queue", **given) is not Outcome.VIOLATION


@pytest.mark.slow
def test_queues_that_are_formed_slowly_on_slow_disks_violate_no_rule() -> None:
    """With syncs of up to 570 ms a queue had no leader for 7.2 s."""
    given = {"world": "swarm", "nemesis": "partition", "concurrency": "30n", "rate": 20.0, "burst": 10, "overlap": 0.9}
    given |= {"time_limit": 55.0, "interval": 14.0, "seed": 8265}
    given |= {"settings": "apply-slice=16,max-batch=1,snapshot-interval=16"}
    assert outcome("poison", **given) is Outcome.PASS
