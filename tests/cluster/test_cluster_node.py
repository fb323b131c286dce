"""Whole nodes over a network, disks and an event loop in memory: what clients are told, and what survives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest

from splitbrain.cluster import wire
from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.client import (
    Client,
    ClientError,
    InvalidPathError,
    InvalidRequestError,
    MismatchingNodeError,
    NodeNotFoundError,
    OutcomeUnknownError,
    PossiblyMatchingManyNodesDeniedError,
    UnavailableError,
    connect,
)
from splitbrain.cluster.marks import counted
from splitbrain.cluster.nodeconfig import APPLY_SLICE
from splitbrain.cluster.peers import BACK_OFF_MAX_MS, DIAL_TIMEOUT_MS, PeerLink
from splitbrain.cluster.raft import Config
from splitbrain.cluster.raft.messages import Append
from splitbrain.cluster.runtime import Connection
from splitbrain.cluster.storage import open_storage
from splitbrain.cluster.tree import Create, Done, Get, Put, encode_command
from tests.cluster.support import (
    Draws,
    LoopClock,
    LoopRng,
    World,
    connection_pair,
    entry,
    eventually,
    in_virtual_time,
    written,
)

T = TypeVar("T")

THREE = ["n1", "n2", "n3"]
SLOW = Config(heartbeat_ms=100, election_min_ms=5000, election_max_ms=5001)


@asynccontextmanager
async def running(world: World) -> AsyncGenerator[World]:
    try:
        await world.start()
        yield world
        assert world.failures == []
    finally:
        await world.close()


def in_cluster(check: Callable[[World], Coroutine[Any, Any, None]], names: list[str] = THREE) -> None:
    async def whole() -> None:
        async with running(World(names)) as world:
            await check(world)

    in_virtual_time(whole())


async def clients_of(world: World) -> tuple[str, list[str]]:
    """The leader and the others."""
    leader = await world.leader()
    return leader, [name for name in world.names if name != leader]


async def value_on(client: Client, path: str) -> Any:
    return (await client.get(path, timeout_ms=3000)).value


class TestRequests:
    def test_what_one_node_acknowledged_every_node_reads(self) -> None:
        async def check(world: World) -> None:
            _, (one, other) = await clients_of(world)
            written = await (await world.client(one)).put("/a/b", {"x": [1, None]})
            assert (written.value, written.payload_version) == ({"x": [1, None]}, 1)
            for name in world.names:
                node = await (await world.client(name)).get("/a/b")
                assert (node.value, node.has_payload, node.term) == ({"x": [1, None]}, True, written.term)
            assert await value_on(await world.client(other), "/a") is None

        in_cluster(check)

    def test_every_kind_of_request_works_through_a_node_that_does_not_lead(self) -> None:
        async def check(world: World) -> None:
            _, (follower, _) = await clients_of(world)
            client = await world.client(follower)
            assert (await client.create("/r", 1)).payload_version == 1
            with pytest.raises(MismatchingNodeError, match="mismatching_node") as exists:
                await client.create("/r", 2)
            assert exists.value.properties.payload_version == 1
            assert (await client.update("/r", 2)).payload_version == 2
            assert (await client.compare_and_swap("/r", 2, 3)).payload_version == 3
            with pytest.raises(MismatchingNodeError):
                await client.compare_and_swap("/r", 2, 4)
            with pytest.raises(NodeNotFoundError, match="there is no tree node /missing"):
                await client.update("/missing", 1)
            await client.put("/s/2", None)
            await client.put("/s/10", None)
            assert (await client.children("/s")).names == ("10", "2")
            await client.delete("/s")
            with pytest.raises(NodeNotFoundError):
                await client.children("/s")

        in_cluster(check)

    def test_values_that_python_calls_equal_are_not_swapped_for_each_other(self) -> None:
        async def check(world: World) -> None:
            client = await world.client(await world.leader())
            await client.put("/r", 1)
            for lookalike in (True, 1.0, "1"):
                with pytest.raises(MismatchingNodeError):
                    await client.compare_and_swap("/r", lookalike, 2)
            await client.put("/r", {"a": 1, "b": 2})
            assert (await client.compare_and_swap("/r", {"b": 2, "a": 1}, 0)).value == 0

        in_cluster(check)

    def test_many_requests_in_flight_on_one_connection_get_their_own_answers(self) -> None:
        async def check(world: World) -> None:
            _, (follower, _) = await clients_of(world)
            client = await world.client(follower)
            await asyncio.gather(*(client.put(f"/k/{n}", n) for n in range(200)))
            nodes = await asyncio.gather(*(client.get(f"/k/{n}") for n in range(200)))
            assert [node.value for node in nodes] == list(range(200))

        in_cluster(check)

    def test_commands_that_come_at_one_time_go_to_followers_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent: list[bytes] = []
        send = PeerLink.send

        def noted(link: PeerLink, frame: bytes) -> None:
            sent.append(frame)
            send(link, frame)

        async def check(world: World) -> None:
            client = await world.client(await world.leader())
            await client.put("/k", 0)
            monkeypatch.setattr(PeerLink, "send", noted)
            await asyncio.gather(*(client.put(f"/k/{n}", n) for n in range(100)))
            assert 0 < len(sent) < 50

        in_cluster(check)

    @pytest.mark.parametrize(
        ("path", "error"),
        [
            ("/a/*", PossiblyMatchingManyNodesDeniedError),
            ("/" + "/".join("a" * 65), InvalidRequestError),
            ("/" + "a" * 256, InvalidRequestError),
            ("a", InvalidPathError),
        ],
    )
    def test_a_path_that_cannot_be_served_is_refused_for_certain(self, path: str, error: type[Exception]) -> None:
        async def check(world: World) -> None:
            client = await world.client("n1")
            with pytest.raises(error):
                await client.put(path, 1)
            with pytest.raises(error):
                await client.get(path)

        in_cluster(check, ["n1"])

    def test_a_request_that_is_too_large_is_refused_by_client_and_node(self) -> None:
        async def check(world: World) -> None:
            client = await world.client("n1")
            with pytest.raises(InvalidRequestError, match="at most"):
                await client.put("/a", "x" * wire.MAX_REQUEST_BYTES)
            raw = world.dial("client", "n1")
            raw.send(wire.encode(wire.ClientHello(1)))
            raw.send(wire.encode(wire.Request(5, 1000, Create(("a",), bytes(wire.MAX_REQUEST_BYTES)))))
            answer = wire.decode_answer(await raw.receive())
            assert isinstance(answer.outcome, wire.Failure)
            assert (answer.id, answer.outcome.reason, answer.outcome.definite) == (5, "invalid_request", True)

        in_cluster(check, ["n1"])

    def test_an_answer_that_is_too_large_to_send_is_a_failure_and_the_nodes_go_on(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A connection refuses a message that no receiver would take; that must not stop a node."""
        monkeypatch.setattr(wire, "MAX_ANSWER_BYTES", 500)

        async def check(world: World) -> None:
            leader, (other, _) = await clients_of(world)
            for name in (leader, other):
                client = await world.client(name)
                await asyncio.gather(*(client.put(f"/long/{n:09}", None) for n in range(100)))
                with pytest.raises(InvalidRequestError, match="the answer would have 1"):
                    await client.children("/long")
                assert len((await client.children("/")).names) == 1

        in_cluster(check)

    def test_a_request_of_an_unknown_kind_is_answered_and_the_connection_goes_on(self) -> None:
        async def check(world: World) -> None:
            raw = world.dial("client", "n1")
            raw.send(wire.encode(wire.ClientHello(1)))
            raw.send(msgspec.msgpack.encode([7, 1000, ["fold"]]))
            answer = wire.decode_answer(await raw.receive())
            assert isinstance(answer.outcome, wire.Failure)
            assert (answer.id, answer.outcome.reason) == (7, "invalid_request")
            raw.send(wire.encode(wire.Request(8, 1000, wire.StatusQuery())))
            assert isinstance(wire.decode_answer(await raw.receive()).outcome, wire.Status)

        in_cluster(check, ["n1"])

    @pytest.mark.parametrize(
        "first",
        [
            b"",
            b"GET / HTTP/1.1",
            wire.encode(wire.PeerHello(1, "n9", "n1")),
            wire.encode(wire.PeerHello(1, "n2", "n3")),
            wire.encode(wire.ClientHello(2)),
        ],
    )
    def test_a_caller_that_is_neither_peer_nor_client_is_turned_away(self, first: bytes) -> None:
        async def check(world: World) -> None:
            raw = world.dial("client", "n1")
            raw.send(first)
            with pytest.raises(ConnectionError):
                await raw.receive()
            await world.leader()

        in_cluster(check)


class TestWithoutMajority:
    def test_kh_12_a_write_that_was_proposed_and_not_answered_is_indefinite(self) -> None:
        async def check(world: World) -> None:
            leader, _ = await clients_of(world)
            client = await world.client(leader)
            world.isolate(leader)
            with pytest.raises(OutcomeUnknownError, match=r"timeout|leadership_lost") as lost:
                await client.put("/a", 1, timeout_ms=100)
            assert not lost.value.definite
            with pytest.raises(OutcomeUnknownError, match="leadership_lost"):
                await client.put("/b", 1, timeout_ms=5000)

        in_cluster(check)

    def test_ra19_a_write_that_nobody_was_asked_for_is_definite_and_the_answer_comes_in_time(self) -> None:
        async def check(world: World) -> None:
            leader, _ = await clients_of(world)
            world.isolate(leader)
            node = world.nodes[leader]

            async def stepped_down() -> bool | None:
                return True if node.status().role != "leader" else None

            await eventually(stepped_down)
            client = await world.client(leader)
            began = asyncio.get_running_loop().time()
            with pytest.raises(UnavailableError, match="no_leader") as refused:
                await client.put("/a", 1, timeout_ms=200)
            assert 0.15 < asyncio.get_running_loop().time() - began < 1
            assert refused.value.definite
            world.cut.clear()
            await world.leader()
            with pytest.raises(NodeNotFoundError):
                await client.get("/a")

        in_cluster(check)

    def test_a_write_that_was_forwarded_and_not_answered_is_indefinite(self) -> None:
        async def check(world: World) -> None:
            leader, (one, other) = await clients_of(world)
            client = await world.client(one)
            world.cut = {(leader, one), (leader, other)}  # the leader is heard no more, and still hears
            with pytest.raises(OutcomeUnknownError, match="timeout"):
                await client.put("/a", 1, timeout_ms=50)

        in_cluster(check)

    def test_a_read_is_never_indefinite(self) -> None:
        async def check(world: World) -> None:
            leader, (one, _) = await clients_of(world)
            clients = [await world.client(leader), await world.client(one)]
            world.cut = {(a, b) for a in world.names for b in world.names}
            for client in clients:
                with pytest.raises(UnavailableError) as refused:
                    await client.get("/a", timeout_ms=50)
                assert refused.value.definite

        in_cluster(check)

    def test_an_isolated_leader_answers_no_read(self) -> None:
        async def check(world: World) -> None:
            leader, (one, _) = await clients_of(world)
            await (await world.client(leader)).put("/a", "old")
            stale = await world.client(leader)
            world.isolate(leader)
            with pytest.raises(UnavailableError):
                await stale.get("/a", timeout_ms=100)
            await world.leader(among=[name for name in THREE if name != leader])
            await (await world.client(one)).put("/a", "new", timeout_ms=3000)
            with pytest.raises(UnavailableError):
                await stale.get("/a", timeout_ms=200)

        in_cluster(check)

    def test_with_m23_an_isolated_leader_does_answer(self) -> None:
        """The switch reaches consensus, and the test above can fail."""

        async def check() -> None:
            async with running(World(THREE, bugs=Bugs(["M23"]))) as world:
                leader, _ = await clients_of(world)
                client = await world.client(leader)
                await client.put("/a", "old")
                world.isolate(leader)
                assert await value_on(client, "/a") == "old"

        in_virtual_time(check())

    @pytest.mark.parametrize(("bugs", "acknowledged"), [((), False), (("M81",), True)])
    def test_m81_acknowledges_a_write_without_a_leader_and_forgets_it(
        self, bugs: tuple[str, ...], acknowledged: bool
    ) -> None:
        async def check() -> None:
            async with running(World(THREE, bugs=Bugs(bugs))) as world:
                _, (one, _) = await clients_of(world)
                client = await world.client(one)
                world.isolate(one)

                async def alone() -> bool | None:
                    return True if world.nodes[one].status().leader is None else None

                await eventually(alone)
                if acknowledged:
                    assert (await client.put("/lost", 1, timeout_ms=100)).value == 1
                else:
                    with pytest.raises(UnavailableError):
                        await client.put("/lost", 1, timeout_ms=100)
                world.cut.clear()
                await client.put("/kept", 2, timeout_ms=3000)
                with pytest.raises(NodeNotFoundError):
                    await client.get("/lost", timeout_ms=3000)

        in_virtual_time(check())

    @pytest.mark.parametrize(
        ("bugs", "started", "answer"),
        [
            ((), ("n1",), UnavailableError),
            (("M82",), ("n1",), NodeNotFoundError),
            (("M82",), ("n1", "n2"), NodeNotFoundError),
        ],
    )
    def test_m82_answers_reads_while_no_majority_was_started(
        self, bugs: tuple[str, ...], started: tuple[str, ...], answer: type[ClientError]
    ) -> None:
        async def check() -> None:
            world = World(THREE, bugs=Bugs(bugs))
            try:
                for name in started:
                    await world.start(name)
                client = await world.client("n1")
                timeout_ms = 300 if len(started) == 1 else 5000
                with pytest.raises(answer):
                    await client.get("/a", timeout_ms=timeout_ms)
                if len(started) == 1:
                    with pytest.raises(UnavailableError):
                        await client.put("/a", 1, timeout_ms=timeout_ms)
                else:
                    await client.put("/a", 1, timeout_ms=timeout_ms)
                    assert await value_on(client, "/a") == 1
                await client.close()
            finally:
                await world.close()

        in_virtual_time(check())

    def test_ra19_a_request_waits_for_a_leader_and_is_answered_when_there_is_one(self) -> None:
        async def check() -> None:
            world = World(THREE)
            try:
                await world.start("n1")
                client = await world.client("n1")
                writing = asyncio.get_running_loop().create_task(client.put("/a", 1, timeout_ms=10_000))
                await asyncio.sleep(0.3)
                assert not writing.done()
                await world.start("n2")
                assert (await writing).value == 1
            finally:
                await world.close()

        in_virtual_time(check())


class FakePeer:
    """Plays n2 to a real n1: keeps what n1 sends, says what it is told to."""

    def __init__(self, world: World) -> None:
        self.requests: list[wire.Forward] = []
        self.answers: list[wire.Forwarded] = []
        world.serve("n2", self._accept)
        self._to_n1 = world.dial("n2", "n1")
        self._to_n1.send(wire.encode(wire.PeerHello(1, "n2", "n1")))

    def say(self, frame: wire.PeerFrame) -> None:
        self._to_n1.send(wire.encode_peer(frame))

    def lead(self, term: int) -> None:
        self.say(Append(term, 0, 0, 0, 0))

    async def _accept(self, connection: Connection) -> None:
        wire.decode_hello(await connection.receive())
        while True:
            data = await connection.receive()
            frame = wire.decode_peer(data)[1] if data != wire.ALIVE else None
            if isinstance(frame, wire.Forward):
                self.requests.append(frame)
            elif isinstance(frame, wire.Forwarded):
                self.answers.append(frame)


async def first(items: list[T]) -> T:
    async def there() -> T | None:
        return items[0] if items else None

    return await eventually(there)


class TestForwarding:
    def test_a_node_that_is_taken_for_the_leader_refuses_for_certain(self) -> None:
        async def check() -> None:
            world = World(THREE)
            try:
                await world.start("n1")
                peer = FakePeer(world)
                peer.say(wire.Forward(77, 5, Create(("a",), b"1")))
                answer = await first(peer.answers)
                assert isinstance(answer.outcome, wire.Failure)
                assert (answer.life, answer.ref) == (77, 5)
                assert (answer.outcome.reason, answer.outcome.definite) == ("not_leader", True)
            finally:
                await world.close()

        in_virtual_time(check())

    def test_a_request_is_forwarded_once_and_never_again_ra_22(self) -> None:
        async def check() -> None:
            world = World(THREE, SLOW)
            try:
                await world.start("n1")
                peer, client = FakePeer(world), await world.client("n1")
                peer.lead(term=1)
                refused = asyncio.get_running_loop().create_task(client.put("/a", 1))
                unanswered = asyncio.get_running_loop().create_task(client.put("/b", 1, timeout_ms=400))
                request = await first(peer.requests)
                failure = wire.Failure("not_leader", True, "n2 does not lead")
                with counted() as counts:
                    peer.say(wire.Forwarded(request.life + 1, request.ref, 2, failure))
                    peer.say(wire.Forwarded(request.life, request.ref, 3, failure))
                    with pytest.raises(UnavailableError, match="not_leader") as error:
                        await refused
                assert counts["answer of a former life ignored"] == 1
                assert error.value.term == 3
                for term in (2, 3, 4):
                    peer.lead(term)
                with pytest.raises(OutcomeUnknownError, match="timeout"):
                    await unanswered
                assert [getattr(forward.body, "path", None) for forward in peer.requests] == [("a",), ("b",)]
            finally:
                await world.close()

        in_virtual_time(check())

    def test_an_answer_to_an_earlier_life_of_a_node_answers_nothing(self) -> None:
        async def check(world: World) -> None:
            leader, (follower, _) = await clients_of(world)
            world.cut = {(follower, leader)}  # the request will not get there
            client = await world.client(follower)
            reading = asyncio.get_running_loop().create_task(client.get("/a", timeout_ms=300))
            await asyncio.sleep(0.02)
            raw = world.dial(leader, follower)
            raw.send(wire.encode(wire.PeerHello(1, leader, follower)))
            for number in range(1, 5):
                raw.send(wire.encode_peer(wire.Forwarded(1, number, 1, Done(None))))
            with pytest.raises(UnavailableError, match=r"timeout|no_leader"):
                await reading

        in_cluster(check)


class TestFaults:
    def test_whatever_breaks_no_definite_error_is_wrong_and_nothing_acknowledged_is_lost(self) -> None:
        """The one lie that no checker forgives: "it certainly did not happen" of something that did."""
        acknowledged: list[str] = []
        denied: list[str] = []
        unknown: list[str] = []

        async def work(world: World, worker: int, rng: random.Random, over: asyncio.Event) -> None:
            client: Client | None = None
            number = 0
            while not over.is_set():
                name = rng.choice(world.names)
                if client is None and name in world.nodes:
                    client = await world.client(name)
                await asyncio.sleep(rng.uniform(0, 0.02))  # without it, no time passes while all is well
                if client is None:
                    continue
                number += 1
                element = f"{worker}-{number}"
                try:
                    await client.create(f"/s/{element}", None, timeout_ms=rng.choice([5, 20, 60, 200]))
                    acknowledged.append(element)
                except ClientError as error:
                    (denied if error.definite else unknown).append(element)
                    await client.close()
                    client = None

        async def break_things(world: World, rng: random.Random) -> None:
            for _ in range(25):
                await asyncio.sleep(rng.uniform(0.02, 0.15))
                fault = rng.choice(["isolate", "isolate", "heal", "restart"])
                if fault == "isolate":
                    world.isolate(*rng.sample(world.names, rng.choice([1, 2])))
                elif fault == "heal":
                    world.cut.clear()
                else:
                    name = rng.choice(world.names)
                    await world.kill(name)
                    await asyncio.sleep(rng.uniform(0, 0.1))
                    await world.start(name)

        async def check(world: World) -> None:
            over = asyncio.Event()
            workers = [asyncio.ensure_future(work(world, n, random.Random(n), over)) for n in range(12)]
            await break_things(world, random.Random(7))
            over.set()
            await asyncio.gather(*workers)
            world.cut.clear()
            await world.leader()
            client = await world.client("n1")
            there = set((await client.children("/s", timeout_ms=5000)).names)
            assert [element for element in denied if element in there] == []
            assert [element for element in acknowledged if element not in there] == []
            assert acknowledged, "nothing was tested"
            assert denied, "nothing was tested"
            assert unknown, "nothing was tested"

        in_cluster(check, ["n1", "n2", "n3", "n4", "n5"])

    def test_acknowledged_writes_survive_the_leader(self) -> None:
        async def check(world: World) -> None:
            leader, (one, other) = await clients_of(world)
            await (await world.client(leader)).put("/a", 1)
            await world.kill(leader)
            successor = await world.leader()
            assert successor in (one, other)
            assert await value_on(await world.client(one), "/a") == 1
            await (await world.client(other)).put("/b", 2, timeout_ms=3000)
            await world.start(leader)
            assert await value_on(await world.client(leader), "/b") == 2

        in_cluster(check)

    def test_acknowledged_writes_survive_a_loss_of_power_everywhere(self) -> None:
        async def check(world: World) -> None:
            client = await world.client(await world.leader())
            for n in range(30):
                await client.put(f"/k/{n}", n)
            for name in THREE:
                await world.kill(name)
                world.disks[name] = world.disks[name].crash(random.Random(name))
            await world.start()
            client = await world.client("n1")
            nodes = await asyncio.gather(*(client.get(f"/k/{n}", timeout_ms=5000) for n in range(30)))
            assert [node.value for node in nodes] == list(range(30))

        in_cluster(check)

    def test_a_healed_node_catches_up_and_the_states_agree(self) -> None:
        async def check(world: World) -> None:
            leader, (one, _) = await clients_of(world)
            world.isolate(one)
            client = await world.client(leader)
            for n in range(300):
                await client.put(f"/k/{n % 7}", n)
            world.cut.clear()

            async def converged() -> bool | None:
                views = [node.status() for node in world.nodes.values()]
                same = {(view.applied_index, view.chain_hash, view.state_hash) for view in views}
                return True if len(same) == 1 and views[0].applied_index > 300 else None

            await eventually(converged)

        in_cluster(check)

    def test_a_long_log_is_applied_in_slices_so_that_the_node_is_never_silent_for_long(self) -> None:
        """A node that applied all of it at once would be replaced as leader meanwhile, and so would its successors."""

        async def check() -> None:
            world = World(["n1"])
            entries = [entry(n, data=encode_command(Put(("k", str(n)), b"\x01"))) for n in range(1, 6001)]
            storage = (await open_storage(world.disks["n1"], "n1", Draws(0), lambda _: None)).storage
            await storage.save_vote(1, "n1")
            storage.append(entries, written(*entries))
            done = asyncio.get_running_loop().create_future()
            syncing = asyncio.ensure_future(storage.sync_log(done.set_result))
            await done
            syncing.cancel()
            try:
                await world.start()
                node, client = world.nodes["n1"], await world.client("n1")
                read = asyncio.ensure_future(client.get("/k/6000"))
                steps = [0]
                while not read.done():
                    steps.append(node.status().applied_index)
                    await asyncio.sleep(0)
                assert max(after - before for before, after in pairwise(steps)) <= APPLY_SLICE
                assert (await read).value == 1, "a read waits for everything that was committed before it"

                async def told() -> bool | None:
                    return world.telemetry["n1"][-1]["applied"] == 6001 or None

                await eventually(told)
            finally:
                await world.close()

        asyncio.run(check())  # it looks again and again, and no virtual time passes meanwhile

    def test_a_disk_that_fails_stops_the_node(self) -> None:
        async def check() -> None:
            world = World(["n1"])
            try:
                await world.start()
                client = await world.client(await world.leader())
                world.disks["n1"].broken = True
                with pytest.raises(OutcomeUnknownError):
                    await client.put("/a", 1, timeout_ms=100)
                assert [str(error) for error in world.failures] == ["[Errno 5] Input/output error"]
            finally:
                await world.close()

        in_virtual_time(check())

    def test_while_a_vote_is_being_made_durable_nothing_leaves_the_node_ra_6(self) -> None:
        """A node that hears of a term or a vote may rely on it being on disk."""

        async def check() -> None:
            world = World(THREE)
            try:
                await world.start("n1", "n2")
                await world.leader()
                await world.kill(await world.leader())
                (left,) = world.nodes
                gate = world.disks[left].gate = asyncio.Event()
                await world.start("n3")
                candidate, other = world.nodes[left], world.nodes["n3"]

                async def stands() -> bool | None:
                    return True if candidate.status().role == "candidate" else None

                await eventually(stands)
                await asyncio.sleep(0.3)
                assert candidate.status().role == "candidate"
                assert other.status().term < candidate.status().term
                gate.set()
                assert await world.leader() == left
            finally:
                await world.close()

        in_virtual_time(check())


class TestTelemetry:
    def test_it_tells_of_starts_roles_and_commits_with_hashes_that_agree_between_nodes(self) -> None:
        async def check(world: World) -> None:
            leader, _ = await clients_of(world)
            client = await world.client(leader)
            for n in range(20):
                await client.put("/a", n)
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.15)
            lines = world.telemetry[leader]
            assert [line["event"] for line in lines][:1] == ["start"]
            assert lines[0]["voters"] == THREE
            led = [line for line in lines if line["event"] == "role" and line["role"] == "leader"]
            assert led[-1]["leader"] == leader
            commits = [line for line in lines if line["event"] == "commit"]
            assert 2 <= len(commits) <= 8  # twenty commits in 0.4 s, a line every 100 ms at most
            seen: dict[object, set[object]] = {}
            for name in THREE:
                for line in world.telemetry[name]:
                    if line["event"] == "commit":
                        assert line["commit"] == line["applied"]
                    seen.setdefault(line["applied"], set()).add((line["chain"], line["state"]))
            assert all(len(hashes) == 1 for hashes in seen.values())
            last = world.nodes[leader].status()
            assert (lines[-1]["applied"], lines[-1]["state"]) == (last.applied_index, last.state_hash)

        in_cluster(check)

    def test_all_nodes_tell_their_hashes_at_the_same_indexes(self) -> None:
        async def check(world: World) -> None:
            leader, _ = await clients_of(world)
            client = await world.client(leader)
            await asyncio.gather(*(client.put(f"/a/{n % 7}", n) for n in range(300)))

            async def all_told() -> dict[str, dict[object, tuple[object, object]]] | None:
                told = {
                    name: {
                        line["applied"]: (line["chain"], line["state"])
                        for line in world.telemetry[name]
                        if line["event"] == "hash"
                    }
                    for name in THREE
                }
                return told if all(len(hashes) == 4 for hashes in told.values()) else None

            told = await eventually(all_told)
            assert list(told["n1"]) == [64, 128, 192, 256]
            assert told["n1"] == told["n2"] == told["n3"]

        in_cluster(check)

    def test_each_vote_is_told_with_whom_it_went_to(self) -> None:
        async def check(world: World) -> None:
            leader, _ = await clients_of(world)
            term = world.nodes[leader].status().term
            votes = [
                (name, line["leader"])
                for name in THREE
                for line in world.telemetry[name]
                if (line["event"], line["term"]) == ("vote", term)
            ]
            assert (leader, leader) in votes
            assert [whom for _, whom in votes].count(leader) >= 2

        in_cluster(check)


class TestConnections:
    def test_a_link_is_back_within_a_second_of_the_heal(self) -> None:
        async def check(world: World) -> None:
            _, (one, _) = await clients_of(world)
            world.isolate(one)
            await asyncio.sleep(1.0)
            world.cut.clear()
            began = asyncio.get_running_loop().time()
            client = await world.client(one)
            assert (await client.put("/a", 1, timeout_ms=3000)).value == 1
            assert asyncio.get_running_loop().time() - began < 1.0

        in_cluster(check)

    @pytest.mark.parametrize(("bugs", "links_up_again"), [((), True), (("M22",), False)])
    def test_m22_leaves_a_link_down_for_ever_once_it_broke(self, bugs: tuple[str, ...], links_up_again: bool) -> None:
        async def check() -> None:
            async with running(World(THREE, bugs=Bugs(bugs))) as world:
                _, (follower, _) = await clients_of(world)

                async def both_links_went(way: str, times: int) -> bool | None:
                    lines = [line for line in world.logs[follower] if f": {way}" in line]
                    return True if len(lines) >= 2 * times else None

                await eventually(lambda: both_links_went("up", 1))
                world.isolate(follower)
                await eventually(lambda: both_links_went("down", 1))
                world.cut.clear()
                if links_up_again:
                    await eventually(lambda: both_links_went("up", 2))
                else:
                    await asyncio.sleep(2 * (DIAL_TIMEOUT_MS + BACK_OFF_MAX_MS) / 1000)
                    assert await both_links_went("up", 2) is None

        in_virtual_time(check())

    def test_a_node_is_refused_while_no_process_listens_and_not_because_it_was_once(self) -> None:
        async def check() -> None:
            async with running(World(THREE)) as world:
                await world.kill("n2")
                links = world.nodes["n1"]._place.links  # pyright: ignore[reportPrivateUsage]

                async def when(holds: Callable[[], bool]) -> bool | None:
                    return True if holds() else None

                await eventually(lambda: when(lambda: links.is_refused("n2")))
                await world.start("n2")
                await eventually(lambda: when(lambda: links.is_up("n2")))
                assert not links.is_refused("n2")
                world.isolate("n2")
                await eventually(lambda: when(lambda: not links.is_up("n2")))
                for _ in range(100):
                    assert not links.is_refused("n2")
                    await asyncio.sleep(0.02)
                await world.kill("n2")
                world.cut.clear()
                await eventually(lambda: when(lambda: links.is_refused("n2")))

        in_virtual_time(check())

    def test_a_refusal_that_comes_late_says_nothing_about_the_process_that_is_there_now(self) -> None:
        """The first attempt is given up, the second one finds a process, and then the first one is refused."""
        attempts: list[asyncio.Future[Any]] = []

        async def connect(_: object) -> Any:
            attempts.append(asyncio.get_running_loop().create_future())
            return await attempts[-1]

        async def check() -> None:
            tasks: list[asyncio.Future[None]] = []

            def spawn(coroutine: Coroutine[Any, Any, None], _: str) -> None:
                tasks.append(asyncio.ensure_future(coroutine))

            runtime: Any = SimpleNamespace(
                network=SimpleNamespace(connect=connect),
                clock=LoopClock(),
                rng=LoopRng("late"),
                spawn=spawn,
                log=print,
            )
            link = PeerLink(runtime, "n1", "n2", ("n2", 1), lambda: None, NO_BUGS)
            running = asyncio.ensure_future(link.run())
            await asyncio.sleep((DIAL_TIMEOUT_MS + BACK_OFF_MAX_MS) / 1000 + 0.05)
            here, there = connection_pair()
            attempts[1].set_result(here)
            await asyncio.sleep(0.01)
            assert link.is_up
            attempts[0].set_exception(ConnectionRefusedError("late"))
            await asyncio.sleep(0.01)
            there.break_off()
            await asyncio.sleep(0.001)
            assert not link.is_up
            assert not link.refused
            link.close()
            running.cancel()
            for task in tasks:
                task.cancel()

        in_virtual_time(check())

    def test_requests_in_flight_on_a_broken_connection_are_indefinite_and_later_ones_definite(self) -> None:
        async def check() -> None:
            world = World(THREE)
            try:
                await world.start("n1")  # alone, so that the request waits
                client = await world.client("n1")
                writing = asyncio.get_running_loop().create_task(client.put("/a", 1))
                await asyncio.sleep(0.05)
                await world.kill("n1")
                with pytest.raises(OutcomeUnknownError, match="broke before the answer came") as lost:
                    await writing
                assert not lost.value.definite
                with pytest.raises(UnavailableError, match="nothing was sent") as refused:
                    await client.put("/a", 1)
                assert refused.value.definite
                await client.close()
            finally:
                await world.close()

        in_virtual_time(check())

    def test_an_answer_that_makes_no_sense_breaks_the_connection(self) -> None:
        async def check() -> None:
            here, there = connection_pair()
            client = await connect(here)
            reading = asyncio.get_running_loop().create_task(client.get("/a"))
            await asyncio.sleep(0)
            there.send(b"\xc1")
            with pytest.raises(OutcomeUnknownError, match="is no answer"):
                await reading
            assert wire.decode_hello(await there.receive()) == wire.ClientHello(1)
            assert wire.decode_request(await there.receive()) == wire.Request(1, 5000, Get(("a",)))

        in_virtual_time(check())
