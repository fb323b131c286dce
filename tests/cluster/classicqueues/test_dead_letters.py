"""Limits by policies, and dead letters of classic queues in nodes: handed over first, then dropped (CQ-5, CQ-6)."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from splitbrain.cluster.classic import ClassicQueue, DeadLetter, record
from splitbrain.cluster.classicclient import ClassicQueues
from splitbrain.cluster.classicpolicies import ClassicPolicies
from splitbrain.cluster.classicqueues.deadletters import Letters
from splitbrain.cluster.classicqueues.frames import Taken
from splitbrain.cluster.client import QueueOptions
from splitbrain.cluster.entities import policies, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.paths import POLICIES
from splitbrain.cluster.errors import UnavailableError
from splitbrain.cluster.marks import counted
from splitbrain.cluster.queueclient import Message
from splitbrain.cluster.tree import Tree
from splitbrain.cluster.tree.paths import format_path
from tests.cluster.queuegroups.support import in_cluster
from tests.cluster.support import World, eventually


async def queues_on(world: World, name: str = "n1") -> ClassicQueues:
    return await (await world.client(name)).classic_queues()


async def with_policy(world: World, definition: dict[str, Any], *, operator: bool = False) -> None:
    store = ClientStore(await world.client("n1"), 5000)
    await vhosts.declare(store, "/")
    await policies.put(store, "/", "p", "^c", definition, operator=operator)


async def given_back(queues: ClassicQueues, times: int, name: str = "c") -> None:
    for _ in range(times):
        message = await queues.take(name)
        assert message is not None
        await queues.settle(name, message, "requeue")


async def arrives(queues: ClassicQueues, name: str = "dead") -> Taken:
    async def look() -> Taken | None:
        try:
            return await queues.take(name)
        except UnavailableError:
            return None

    found = await eventually(look)
    await queues.settle(name, found)
    return found


async def limit_is(queues: ClassicQueues, limit: int | None, name: str = "c") -> None:
    async def look() -> bool | None:
        try:
            return (await queues.look(name)).limit == limit or None
        except UnavailableError:
            return None

    await eventually(look)


async def nothing_waits(queues: ClassicQueues, name: str = "c") -> None:
    async def look() -> bool | None:
        try:
            seen = await queues.look(name)
        except UnavailableError:
            return None
        return (seen.ready, seen.taken, seen.dead) == (0, 0, 0) or None

    await eventually(look)


def test_cq_6_the_lowest_of_declaration_policy_and_operators_policy_counts_and_takes_effect_at_once() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("c", node="n2", delivery_limit=5)
        await queues.put("c", b"1")
        await limit_is(queues, 5)
        await given_back(queues, 3)
        await with_policy(world, {"delivery-limit": 9})
        await with_policy(world, {"delivery-limit": 7}, operator=True)
        assert (await queues.look("c")).ready == 1
        await with_policy(world, {"delivery-limit": 1})
        await limit_is(queues, 1)
        seen = await queues.look("c")  # above it already: it went with the change
        assert (seen.ready, seen.dropped) == (0, 1)
        store = ClientStore(await world.client("n1"), 5000)
        await policies.clear(store, "/", "p")
        await limit_is(queues, 5)  # the operator's 7 is above that of the declaration
        await world.kill("n2")
        await world.start("n2")
        await limit_is(await queues_on(world, "n3"), 5)

    with counted() as marks:
        in_cluster(check)
    assert marks["settings of a classic queue changed"] >= 2


def test_cq_6_what_makes_no_sense_as_a_policy_is_none() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("c", delivery_limit=5)
        await with_policy(world, {"delivery-limit": 3})
        client = await world.client("n1")
        sound = {"vhost": "/", "name": "x", "pattern": "c", "definition": {"delivery-limit": 1}, "priority": 9}
        of_users = format_path((*POLICIES, node_name("/")))
        for number, wrong in enumerate(
            (7, {**sound, "pattern": "("}, {**sound, "definition": {"delivery-limit": "1"}}, {"vhost": "/"})
        ):
            await client.put(f"{of_users}/wrong{number}", wrong)
        await client.put(f"{of_users}/last", {**sound, "definition": {"delivery-limit": 2}, "apply_to": "queues"})
        await limit_is(queues, 2)

    in_cluster(check)


def test_cq_6_without_policies_a_queue_has_no_settings() -> None:
    found = ClassicPolicies(RecordsInForce())
    assert not found.look(Tree())
    assert found.of_queue("c") == {}


def test_cq_5_a_message_above_the_limit_goes_to_the_queue_for_dead_letters_with_its_reason() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("dead", node="n3")
        await queues.declare("c", node="n2", delivery_limit=1, dead_letter_to="dead")
        await queues.put("c", b"body")
        await given_back(queues, 2)
        found = await arrives(queues)
        assert (found.body, found.dead_because, found.redelivered) == (b"body", "expired", False)
        await nothing_waits(queues)
        assert (await queues.look("c")).dropped == 1

    with counted() as marks:
        in_cluster(check)
    assert marks["dead letter of a classic queue handed over"] == 1


def test_cq_5_what_is_discarded_is_a_dead_letter_and_keeps_its_first_reason_along_queues() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("d", node="n1", dead_letter_to="dead", delivery_limit=0)
        await queues.declare("dead", node="n3")
        await queues.declare("c", node="n2", dead_letter_to="d")
        await queues.put("c", b"")
        message = await queues.take("c")
        assert message is not None
        await queues.settle("c", message, "discard")

        async def next_one() -> Taken | None:
            return await queues.take("d")

        await queues.settle("d", await eventually(next_one), "requeue")
        found = await arrives(queues)
        assert (found.body, found.dead_because) == (b"", "expired")
        assert found.annotations["x-first-death-reason"] == "rejected"

    in_cluster(check)


def test_cq_5_a_quorum_queue_gets_dead_letters_too() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        quorum = await (await world.client("n3")).queues()
        await quorum.declare("dead", QueueOptions())
        await queues.declare("c", node="n2", delivery_limit=0, dead_letter_to="dead")
        await queues.put("c", b"body")
        await given_back(queues, 1)

        async def look() -> Message | None:
            return await quorum.take("dead", settle=True)

        found = await eventually(look)
        assert (found.body, found.dead_because) == (b"body", "expired")

    in_cluster(check)


def test_cq_5_dead_letters_wait_for_a_queue_that_is_not_there_and_follow_a_policy() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("c", node="n2", delivery_limit=0)
        await with_policy(world, {"dead-letter-to": "none"})

        async def named() -> bool | None:
            return (await queues.look("c")).dead_letter_to == "none" or None

        await eventually(named)
        for body in (b"1", b"2"):
            await queues.put("c", body)
        await given_back(queues, 2)
        seen = await queues.look("c")
        assert (seen.ready, seen.dead) == (0, 2)
        assert await queues.take("c") is None
        await queues.put("c", b"3")  # others pass
        passing = await queues.take("c")
        assert passing is not None
        await queues.settle("c", passing)
        await queues.declare("dead", node="n1")
        await with_policy(world, {"dead-letter-to": "dead"})
        assert [(await arrives(queues)).body, (await arrives(queues)).body] == [b"1", b"2"]
        await nothing_waits(queues)

    with counted() as marks:
        in_cluster(check)
    assert marks["dead letter of a classic queue not handed over"] >= 1


def test_cq_5_two_queues_that_give_dead_letters_to_each_other_do_not_wait_for_each_other() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("a", node="n1", delivery_limit=0, dead_letter_to="b")
        await queues.declare("b", node="n2", delivery_limit=0, dead_letter_to="a")
        await queues.put("a", b"of a")
        await queues.put("b", b"of b")
        await given_back(queues, 1, "a")
        await given_back(queues, 1, "b")
        assert {(await arrives(queues, "a")).body} == {b"of b"}
        assert {(await arrives(queues, "b")).body} == {b"of a"}

    in_cluster(check)


def test_cq_5_a_kill_while_dead_letters_wait_loses_none() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("c", node="n2", delivery_limit=0, dead_letter_to="dead")
        await queues.put("c", b"1")
        await given_back(queues, 1)
        assert (await queues.look("c")).dead == 1
        await world.kill("n2")
        world.disks["n2"] = world.disks["n2"].crash(random.Random(1))
        await world.start("n2")

        async def is_back() -> bool | None:
            try:
                return (await queues.look("c")).ready == 1 or None
            except UnavailableError:
                return None

        await eventually(is_back)
        await queues.declare("dead", node="n3")
        assert await queues.take("c") is None  # that it was delivered once is on disk
        assert (await arrives(queues)).body == b"1"
        await nothing_waits(queues)

    in_cluster(check)


def test_cq_5_a_kill_between_hand_over_and_drop_repeats_a_dead_letter_and_loses_none() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("dead", node="n3")
        await queues.declare("c", node="n2", delivery_limit=0, dead_letter_to="dead")
        await queues.put("c", b"1")
        stop = asyncio.Event()

        async def stuck(_: ClassicQueue, __: int) -> None:
            stop.set()
            await asyncio.Future[None]()

        drop, ClassicQueue.drop = ClassicQueue.drop, cast(Any, stuck)
        try:
            await given_back(queues, 1)
            await stop.wait()
            await world.kill("n2")
        finally:
            ClassicQueue.drop = drop
        world.disks["n2"] = world.disks["n2"].crash(random.Random(1))
        await world.start("n2")
        assert (await arrives(queues)).body == b"1"  # handed over before the kill

        async def again() -> bool | None:
            try:
                return await queues.take("c") is None or None
            except UnavailableError:
                return None

        await eventually(again)
        assert (await arrives(queues)).body == b"1"
        await nothing_waits(queues)

    in_cluster(check)


def test_cq_5_a_deleted_queue_takes_its_dead_letters_along() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world)
        await queues.declare("c", node="n2", delivery_limit=0, dead_letter_to="dead")
        await queues.put("c", b"1")
        await given_back(queues, 1)
        await queues.delete("c")

        async def gone() -> bool | None:
            return not any(name.startswith("classic-") for name in world.disks["n2"].names()) or None

        await eventually(gone)
        await queues.declare("dead", node="n3")
        await asyncio.sleep(2)
        assert await queues.take("dead") is None

    in_cluster(check)


class _Bench:
    """Letters without a node: what happens is noted, in order."""

    def __init__(self, answers: list[bool]) -> None:
        self.noted: list[str] = []
        self.answers = deque(answers)
        self.meanwhile: Callable[[], Any] = lambda: None
        self.letters = Letters(self._hand_over, self._drop, cast(Any, SimpleNamespace(sleep=self._sleep)))

    async def _hand_over(self, to: str, body: bytes, _: dict[str, Any]) -> bool:
        self.noted.append(f"hand {body.decode()} to {to}")
        self.meanwhile()
        return self.answers.popleft()

    async def _drop(self, seq: int) -> None:
        self.noted.append(f"drop {seq}")

    async def _sleep(self, _: int) -> None:
        self.noted.append("wait")

    def run(self, *bodies: bytes) -> list[str]:
        begins = [
            self.letters.add(DeadLetter(seq, record(b"i" * 16, len(body), body=body)))
            for seq, body in enumerate(bodies)
        ]
        assert begins == [True] + [False] * (len(bodies) - 1)
        work: Callable[[], Awaitable[None]] = self.letters.work
        asyncio.run(cast(Any, work()))
        return self.noted


def test_letters_are_handed_over_in_order_again_and_again_and_then_dropped() -> None:
    bench = _Bench([False, True, True])
    bench.letters.to = "q"
    assert bench.run(b"a", b"b") == ["hand a to q", "wait", "hand a to q", "drop 0", "hand b to q", "drop 1"]
    assert bench.letters.add(DeadLetter(9, record(b"i" * 16, 0)))  # what comes later has it begin again


def test_letters_are_dropped_once_no_queue_gets_them() -> None:
    bench = _Bench([False])
    bench.letters.to = "q"
    bench.meanwhile = lambda: setattr(bench.letters, "to", None)
    assert bench.run(b"a", b"b") == ["hand a to q", "wait", "drop 0", "drop 1"]


def test_letters_whose_queue_ends_meanwhile_stay() -> None:
    bench = _Bench([True])
    bench.letters.to = "q"
    bench.meanwhile = bench.letters.end
    assert bench.run(b"a", b"b") == ["hand a to q"]


def test_a_message_of_before_annotations_reads_as_one_without() -> None:
    old = msgspec.msgpack.encode(("taken", "1-1", b"x", False, 0))
    assert msgspec.msgpack.decode(old, type=Taken).dead_because is None
