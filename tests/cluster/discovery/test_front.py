"""The address of a node before and after it is in a cluster, and the lock of the classic backend, which these hold."""

from __future__ import annotations

import pytest

from splitbrain.cluster import wire
from splitbrain.cluster.discovery.calls import ask, hold, within
from splitbrain.cluster.discovery.classic import Classic
from splitbrain.cluster.discovery.front import LOCK_MS, Front
from splitbrain.cluster.discovery.messages import (
    PREFIX,
    AskAddresses,
    AskProperties,
    Done,
    Refused,
    Reply,
    Request,
    TakeLock,
    decode_reply,
    encode,
)
from splitbrain.cluster.discovery.seen import Peer, Properties
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Connection
from tests.cluster.support import World, in_virtual_time

SAID = Properties("n2", 7, ("n2", "n3"), ("n2",), True)
NAMES = ["n1", "n2", "n3"]


async def answer(request: Request) -> Reply:
    return SAID if isinstance(request, AskProperties) else Done()


async def opened(world: World, *names: str) -> dict[str, Front]:
    fronts = {name: Front(world.runtime(name), answer) for name in names}
    for name, front in fronts.items():
        await front.open((name, 1))
    return fronts


def list_of(world: World, node: str, *names: str, retries: int = 2) -> Classic:
    return Classic(world.runtime(node), node, tuple(Peer(name, (name, 1)) for name in names), retries)


def test_it_answers_before_there_is_a_node_and_turns_all_others_away() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n2")
        assert await ask(world.runtime("n1"), ("n2", 1), AskProperties(), 500) == SAID
        connection = world.dial("client", "n2")
        connection.send(wire.encode(wire.ClientHello(wire.PROTOCOL_VERSION)))
        with pytest.raises(ConnectionError):
            await connection.receive()
        await world.close()
        assert world.failures == []

    in_virtual_time(check())


def test_all_else_is_for_the_node_behind_it_from_the_first_frame_on() -> None:
    async def check() -> None:
        world = World(NAMES)
        fronts = await opened(world, "n2")
        came: list[bytes] = []

        async def behind(connection: Connection) -> None:
            came.append(await connection.receive())
            await connection.hand_over(came.append)

        await fronts["n2"].listen(("n2", 1), behind)
        connection = world.dial("client", "n2")
        for frame in (b"hello", b"one", b"two"):
            connection.send(frame)
        assert await ask(world.runtime("n1"), ("n2", 1), AskAddresses(), 500) == Done()
        await world.runtime("n1").clock.sleep(10_000_000)
        assert came == [b"hello", b"one", b"two"]
        connection.close()
        await world.close()

    in_virtual_time(check())


def test_what_makes_no_sense_ends_the_connection_only() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n2")
        connection = world.dial("client", "n2")
        connection.send(PREFIX + b"\xc1")
        with pytest.raises(ConnectionError):
            await connection.receive()
        assert any("makes no sense" in line for line in world.logs["n2"])
        assert await ask(world.runtime("n1"), ("n2", 1), AskProperties(), 500) == SAID
        await world.close()
        assert world.failures == []

    in_virtual_time(check())


def test_a_node_that_was_started_without_discovery_does_not_answer() -> None:
    async def check() -> None:
        world = World(["n1", "n2"])
        await world.start("n2")
        with pytest.raises(DiscoveryError):
            await ask(world.runtime("n1"), ("n2", 1), AskProperties(), 500)
        with pytest.raises(DiscoveryError, match="no process listens"):
            await ask(world.runtime("n2"), ("n1", 1), AskProperties(), 500)
        await world.close()

    in_virtual_time(check())


def test_a_cut_link_is_given_up_in_time() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n2")
        world.cut |= {("n2", "n1"), ("n1", "n2")}
        with pytest.raises(DiscoveryError):
            await ask(world.runtime("n1"), ("n2", 1), AskProperties(), 500)
        await world.close()

    in_virtual_time(check())


def test_a_late_result_is_handed_over() -> None:
    async def check() -> None:
        world = World(NAMES)
        runtime, late = world.runtime("n1"), list[int]()

        async def slow() -> int:
            await runtime.clock.sleep(1_000_000_000)
            return 7

        with pytest.raises(DiscoveryError, match="it: no answer within 500 ms"):
            await within(runtime, "it", 500, slow, late.append)
        await runtime.clock.sleep(1_000_000_000)
        assert late == [7]
        await world.close()

    in_virtual_time(check())


def test_the_lock_of_an_address_has_one_owner_until_the_connection_ends() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n2")
        one, three = world.runtime("n1"), world.runtime("n3")
        held = await hold(one, ("n2", 1), TakeLock("n1"), 500)
        assert held.reply == Done()
        assert await ask(three, ("n2", 1), TakeLock("n3"), 500) == Refused("n1 has the lock")
        held.close()
        await three.clock.sleep(10_000_000)
        assert await ask(three, ("n2", 1), TakeLock("n3"), 500) == Done()
        await world.close()

    in_virtual_time(check())


def test_the_lock_of_an_owner_that_is_silent_ends_at_last() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n2")
        await hold(world.runtime("n1"), ("n2", 1), TakeLock("n1"), 500)
        three = world.runtime("n3")
        await three.clock.sleep(LOCK_MS * 1_000_000 + 10_000_000)
        assert await ask(three, ("n2", 1), TakeLock("n3"), 500) == Done()
        await world.close()

    in_virtual_time(check())


def test_an_owner_that_started_anew_takes_its_lock_over() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n2")
        runtime = world.runtime("n1")
        former = await hold(runtime, ("n2", 1), TakeLock("n1"), 500)
        present = await hold(runtime, ("n2", 1), TakeLock("n1"), 500)
        assert present.reply == Done()
        former.close()  # the end of the former connection ends nothing else
        await runtime.clock.sleep(10_000_000)
        assert await ask(world.runtime("n3"), ("n2", 1), TakeLock("n3"), 500) == Refused("n1 has the lock")
        present.close()
        await world.close()

    in_virtual_time(check())


def test_the_classic_lock_lasts_until_it_is_given_back() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n1", "n2")
        one = list_of(world, "n1", "n1", "n2")
        assert await one.lock((await one.list_nodes()).peers)
        three = world.runtime("n3")
        await three.clock.sleep(4 * LOCK_MS * 1_000_000)
        assert await ask(three, ("n2", 1), TakeLock("n3"), 500) == Refused("n1 has the lock")
        await one.unlock()
        await three.clock.sleep(10_000_000)
        assert await ask(three, ("n2", 1), TakeLock("n3"), 500) == Done()
        await world.close()

    in_virtual_time(check())


def test_the_classic_lock_is_taken_at_all_nodes_that_answer_and_given_back() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n1", "n2")  # n3 does not run
        one, two = list_of(world, "n1", *NAMES), list_of(world, "n2", *NAMES)
        listing = await one.list_nodes()
        assert [peer.name for peer in listing.peers] == NAMES
        assert await one.lock(listing.peers)
        with pytest.raises(DiscoveryError, match="not to be had in 3 attempts: at n1 n1 has the lock"):
            await two.lock(listing.peers)
        await one.unlock()
        await world.runtime("n1").clock.sleep(10_000_000)
        assert await two.lock(listing.peers)
        await two.unlock()
        await world.close()
        assert world.failures == []

    in_virtual_time(check())


def test_a_lock_that_is_to_be_had_at_one_node_only_is_not_kept_there() -> None:
    async def check() -> None:
        world = World(NAMES)
        await opened(world, "n1", "n2")
        held = await hold(world.runtime("n3"), ("n2", 1), TakeLock("n3"), 500)
        one = list_of(world, "n1", *NAMES, retries=0)
        with pytest.raises(DiscoveryError, match="at n2 n3 has the lock"):
            await one.lock((await one.list_nodes()).peers)
        await world.runtime("n3").clock.sleep(10_000_000)
        assert await ask(world.runtime("n3"), ("n1", 1), TakeLock("n3"), 500) == Done()
        held.close()
        await world.close()

    in_virtual_time(check())


def test_a_lock_at_no_node_is_none() -> None:
    async def check() -> None:
        world = World(NAMES)
        with pytest.raises(DiscoveryError, match="no node of the list answers"):
            await list_of(world, "n1", *NAMES).lock([Peer("n2", ("n2", 1))])
        await world.close()

    in_virtual_time(check())


def test_an_answer_of_another_protocol_is_said_to_be_one() -> None:
    assert decode_reply(encode(Done())) == Done()
    with pytest.raises(Exception, match="started without --discovery"):
        decode_reply(b"\x93\x01\x02\x03")
