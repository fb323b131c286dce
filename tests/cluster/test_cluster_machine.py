"""Effects of a machine, on whole nodes: a store that asks for things when certain paths are written (RA-23, RA-24)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from splitbrain.cluster import machinery
from splitbrain.cluster.client import Client, NodeNotFoundError, UnavailableError
from splitbrain.cluster.commands import put
from splitbrain.cluster.log.snapshot import parse_name
from splitbrain.cluster.machine import (
    AppendCommand,
    ClientDown,
    DemonitorNode,
    EffectCommand,
    Machine,
    MachineEffect,
    MonitorClient,
    MonitorNode,
    NodeDown,
    NodeUp,
    ReadLog,
    ReleaseCursor,
    SendToClient,
    SetTimer,
    Timeout,
    WithEffects,
    WriteCheckpoint,
)
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Config, Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Children, Increment, Names, Procedure, Put, Result, encode_command
from splitbrain.cluster.wire import ClientAddress
from tests.cluster.support import FAST, World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]

_decoder: msgspec.msgpack.Decoder[Put | EffectCommand] = msgspec.msgpack.Decoder(Put | EffectCommand)


class Acting(Store):
    """A put below /timer, /monitor, /client, /append, /send, /read, /checkpoint or /release asks for that.

    Answers are counted, and the last word on a node is below /last.

    A timer and a monitor stand in the tree as long as they are wanted, so that a new leader finds them.
    """

    @property
    def releases_itself(self) -> bool:
        return True

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        result = super().apply(entry)
        if entry.kind != "command" or result is None or isinstance(result, WithEffects):
            return result
        try:
            command = _decoder.decode(entry.data)
        except msgspec.ValidationError:
            return result
        if not isinstance(command, Put):
            self._count(command)
            return result
        effects = effects_of(command)
        return WithEffects(result, effects) if effects else result

    def begin_leading(self) -> Sequence[MachineEffect]:
        return tuple(
            effect
            for kind in ("timer", "monitor")
            for name in self._names((kind,))
            for effect in effects_of(Put((kind, name), self._payload((kind, name))))
        )

    def _count(self, command: EffectCommand) -> None:
        match command:
            case Timeout(name):
                self.tree.execute(Increment(("timed out", name), 1))
                self.tree.execute(Put(("timer", name), msgspec.msgpack.encode(None)))
            case NodeDown(node):
                self.tree.execute(Increment(("down", node), 1))
                self.tree.execute(Put(("last", node), msgspec.msgpack.encode("down")))
            case NodeUp(node):
                self.tree.execute(Increment(("up", node), 1))
                self.tree.execute(Put(("last", node), msgspec.msgpack.encode("up")))
            case ClientDown(_, reason):
                self.tree.execute(Increment(("away", reason), 1))

    def _names(self, path: tuple[str, ...]) -> tuple[str, ...]:
        found = self.query(Children(path))
        return found.names if isinstance(found, Names) else ()

    def _payload(self, path: tuple[str, ...]) -> bytes | None:
        properties = self.tree.properties(path)
        payload = None if properties is None else properties.payload
        assert not isinstance(payload, Procedure)
        return payload


def effects_of(put: Put) -> tuple[MachineEffect, ...]:
    value: Any = msgspec.msgpack.decode(put.payload or b"\xc0")
    match put.path:
        case ("timer", name):
            return (SetTimer(name, value),)
        case ("monitor", node):
            return (MonitorNode(node) if value else DemonitorNode(node),)
        case ("client", _):
            return (MonitorClient(ClientAddress(*value)),)
        case ("append", *_):
            return tuple(AppendCommand(encode_command(Increment(("appended",), 1))) for _ in range(value))
        case ("send", kind):
            return (SendToClient(ClientAddress(*value), kind.encode(), kind == "local"),)
        case ("read",):
            address, indexes = value
            return (ReadLog(tuple(indexes), partial(send_what_was_put, ClientAddress(*address))),)
        case ("checkpoint",):
            return (WriteCheckpoint(),)
        case ("release",):
            return (ReleaseCursor(value),)
        case _:
            return ()


def send_what_was_put(client: ClientAddress, entries: tuple[Entry, ...]) -> list[MachineEffect]:
    return [
        SendToClient(client, command.payload or b"")
        for command in map(_decoder.decode, [entry.data for entry in entries])
        if isinstance(command, Put)
    ]


def in_cluster(
    check: Callable[[World], Awaitable[None]], config: Config = FAST, checkpoint_interval: int = 1000
) -> None:
    async def run() -> None:
        world = World(THREE, config)
        world.store = Acting
        world.checkpoint_interval = checkpoint_interval
        world.snapshot_interval = 20
        try:
            await world.start()
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def count(client: Client, path: str) -> int:
    try:
        return (await client.get(path)).value
    except NodeNotFoundError:
        return 0


async def reaches(client: Client, path: str, number: int) -> None:
    """The counter comes to a number, and stays there."""

    async def there() -> bool | None:
        return await count(client, path) == number or None

    await eventually(there)
    await asyncio.sleep(0.3)
    assert await count(client, path) == number


async def clients(world: World) -> tuple[str, Client, list[str]]:
    leader = await world.leader()
    return leader, await world.client(leader), [name for name in world.names if name != leader]


def test_the_store_is_a_machine() -> None:
    machine: Machine = Store()
    assert (machine.releases_itself, list(machine.begin_leading())) == (False, [])


def test_ra24_a_timer_puts_one_timeout_into_the_log_when_it_is_due() -> None:
    async def check(world: World) -> None:
        _, client, _ = await clients(world)
        await client.put("/timer/t", 500)
        await client.put("/timer/never", 500)
        await asyncio.sleep(0.4)
        assert await count(client, "/timed out/t") == 0
        await client.put("/timer/never", None)
        await reaches(client, "/timed out/t", 1)
        assert await count(client, "/timed out/never") == 0

    in_cluster(check)


def test_ra24_a_timer_that_is_set_again_runs_out_once_after_its_new_time() -> None:
    async def check(world: World) -> None:
        _, client, _ = await clients(world)
        for _ in range(5):
            await client.put("/timer/t", 300)
            await asyncio.sleep(0.2)
        assert await count(client, "/timed out/t") == 0
        await reaches(client, "/timed out/t", 1)

    in_cluster(check)


def test_ra23_timers_end_with_their_leader_and_its_successor_sets_them_again() -> None:
    async def check(world: World) -> None:
        leader, client, others = await clients(world)
        await client.put("/timer/t", 3000)
        world.isolate(leader)
        await world.leader(others)
        world.cut = set()
        second = await world.client(others[0])
        await asyncio.sleep(2.5)
        assert await count(second, "/timed out/t") == 0
        await reaches(second, "/timed out/t", 1)

    in_cluster(check)


def test_ra23_after_a_restart_of_all_nodes_timers_run_again_and_no_command_is_appended_again() -> None:
    async def check(world: World) -> None:
        _, client, _ = await clients(world)
        await client.put("/append/x", 2)
        await reaches(client, "/appended", 2)
        await client.put("/timer/t", 1000)
        for name in THREE:
            await world.kill(name)
        await world.start()
        _, client, _ = await clients(world)
        await reaches(client, "/timed out/t", 1)
        assert await count(client, "/appended") == 2

    in_cluster(check)


def test_ra24_a_command_that_the_machine_appends_is_applied_once_and_by_all() -> None:
    async def check(world: World) -> None:
        _, client, _ = await clients(world)
        for number in range(20):
            await client.put(f"/append/{number}", 3)
        await reaches(client, "/appended", 60)

    in_cluster(check)


def test_ra24_commands_that_a_busy_leader_refuses_are_appended_later() -> None:
    async def check(world: World) -> None:
        _, client, _ = await clients(world)
        await client.put("/append/x", 20)
        await reaches(client, "/appended", 20)

    with counted() as marks:
        in_cluster(check, Config(heartbeat_ms=10, election_min_ms=60, election_max_ms=120, max_pending=4))
        assert marks["command of the machine waited for a busy leader"]


def test_ra23_what_a_busy_leader_refused_ends_with_its_term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machinery, "RETRY_MS", 2000)

    async def check(world: World) -> None:
        leader, client, (one, _) = await clients(world)
        await client.put("/append/x", 20)
        await asyncio.sleep(0.1)
        appended = await count(client, "/appended")
        assert 0 < appended < 20
        for node in (one, leader):
            await (await world.client(await world.leader())).transfer_leadership(node)

            async def leads(node: str = node) -> bool | None:
                return await world.leader() == node or None

            await eventually(leads)
        await asyncio.sleep(3)
        assert await count(client, "/appended") == appended

    in_cluster(check, Config(heartbeat_ms=10, election_min_ms=60, election_max_ms=120, max_pending=4))


def test_ra24_a_machine_learns_through_the_log_that_a_node_is_down_and_up_again() -> None:
    async def check(world: World) -> None:
        leader, client, (one, _) = await clients(world)
        for node in (leader, one):
            await client.put(f"/monitor/{node}", True)
        await world.kill(one)
        await reaches(client, f"/down/{one}", 1)
        assert await count(client, f"/up/{one}") == 0
        await world.start(one)
        await reaches(client, f"/up/{one}", 1)
        await client.put(f"/monitor/{one}", False)
        await world.kill(one)
        await asyncio.sleep(0.5)
        assert await count(client, f"/down/{one}") == 1
        # It is down already when it is monitored again.
        await client.put(f"/monitor/{one}", True)
        await reaches(client, f"/down/{one}", 2)
        assert await count(client, f"/down/{leader}") == 0

    in_cluster(check)


def test_ra4_a_machine_learns_of_a_node_that_the_leader_reaches_and_does_not_hear() -> None:
    async def check(world: World) -> None:
        leader, client, (one, _) = await clients(world)
        await asyncio.sleep(1.5)
        await client.put(f"/monitor/{one}", True)
        world.cut = {(one, leader)}
        await reaches(client, f"/down/{one}", 1)
        world.cut = set()
        await reaches(client, f"/up/{one}", 1)
        assert await count(client, f"/down/{one}") == 1

    in_cluster(check)


def test_ra24_a_client_of_a_node_that_is_taken_for_down_when_it_is_monitored_cannot_be_reached() -> None:
    """The leader's own link to that node is up, so it could go on asking and never get an answer."""

    async def check(world: World) -> None:
        leader, client, (one, _) = await clients(world)
        address = await (await world.client(one)).address()
        world.cut = {(one, leader)}
        await asyncio.sleep(2)
        await client.put("/client/x", [address.node, address.life, address.number])
        await reaches(client, "/away/no_connection", 1)

    in_cluster(check)


@pytest.mark.parametrize("opens_after_ms", range(0, 100, 10))
def test_ra24_what_a_busy_leader_refused_to_say_of_a_node_is_not_said_after_the_reverse(opens_after_ms: int) -> None:
    async def check(world: World) -> None:
        leader, client, (one, _) = await clients(world)
        await client.put(f"/monitor/{one}", True)
        gate = asyncio.Event()
        for disk in world.disks.values():
            disk.gate = gate
        puts = [asyncio.create_task(client.put("/x", number)) for number in range(4)]
        await asyncio.sleep(0.05)
        with counted() as marks:
            world.cut = {(leader, one)}
            await asyncio.sleep(0.05)
            world.cut = set()
            await asyncio.sleep(1)
            assert marks["link came up again"]
            assert marks["command of the machine waited for a busy leader"]
        await asyncio.sleep(opens_after_ms / 1000)
        gate.set()
        await asyncio.gather(*puts)
        await asyncio.sleep(0.5)
        assert (await client.get(f"/last/{one}")).value == "up"

    in_cluster(check, Config(heartbeat_ms=10, election_min_ms=60, election_max_ms=120, max_pending=4))


def test_ra23_a_new_leader_monitors_what_its_predecessor_did() -> None:
    async def check(world: World) -> None:
        leader, client, others = await clients(world)
        await client.put(f"/monitor/{leader}", True)
        await world.kill(leader)
        await world.leader(others)
        await reaches(await world.client(others[0]), f"/down/{leader}", 1)

    in_cluster(check)


def states(world: World, node: str, kind: str) -> list[int]:
    """Indexes of the snapshots or checkpoints that a node has."""
    return sorted(parse_name(name).index for name in world.disks[node].names() if name.startswith(f"{kind}-"))


def test_ra23_every_member_writes_checkpoints_and_lets_the_log_go_as_the_machine_says() -> None:
    async def check(world: World) -> None:
        _, client, _ = await clients(world)

        async def agreed() -> bool | None:
            """All nodes have applied the same, and have it on their disks."""
            return len({world.nodes[name].status().applied_index for name in THREE}) == 1 or None

        asked: list[int] = []
        for number in range(60):
            await client.put("/x", number)
            if number % 10 == 9:
                await eventually(agreed)
                asked.append((await client.put("/checkpoint", None)).index)
        await eventually(agreed)
        # Its node would have written down twelve checkpoints, and three snapshots.
        for name in THREE:
            assert (states(world, name, "checkpoint"), states(world, name, "snapshot")) == (asked, [])
        await client.put("/release", asked[0] - 1)
        await client.put("/release", asked[3] + 1)
        await eventually(agreed)
        await asyncio.sleep(0.1)
        for name in THREE:
            assert (states(world, name, "checkpoint"), states(world, name, "snapshot")) == (asked[4:], [asked[3]])

    in_cluster(check, checkpoint_interval=5)


def test_ra37_a_release_is_ignored_while_another_is_carried_out() -> None:
    async def check(world: World) -> None:
        leader, client, _ = await clients(world)
        asked: list[int] = []
        for number in range(40):
            await client.put("/x", number)
            if number % 10 == 9:
                asked.append((await client.put("/checkpoint", None)).index)
        pipeline = client.pipeline()
        for index in (asked[1], asked[3]):
            pipeline.send(put("/release", index), None)
        await asyncio.sleep(0.1)
        assert states(world, leader, "snapshot") == [asked[1]]
        await client.put("/release", asked[3])
        await asyncio.sleep(0.1)
        assert states(world, leader, "snapshot") == [asked[3]]

    in_cluster(check, checkpoint_interval=5)


def test_ra24_timers_end_with_their_group() -> None:
    async def check(world: World) -> None:
        members = [await world.client(name) for name in THREE]
        for member in members:
            await member.start_group("q1", THREE)
        group = members[0].of_group("q1")
        await group.put("/timer/t", 1000)
        for member in members:
            await member.delete_group("q1")
        await asyncio.sleep(2)

    with counted() as marks:
        in_cluster(check)
        assert not marks["timer of the machine ran out"]


def test_ra24_a_machine_sends_messages_to_clients_of_any_node_in_order() -> None:
    async def check(world: World) -> None:
        leader, client, (one, other) = await clients(world)
        receivers = {name: await world.client(name) for name in (leader, one, other)}
        for name, receiver in receivers.items():
            address = await receiver.address()
            assert address.node == name
            for kind in ("first", "second", "local"):
                await client.put(f"/send/{kind}", [address.node, address.life, address.number])
        for receiver in receivers.values():
            received = [await asyncio.wait_for(receiver.next_message(), 5) for _ in range(3)]
            assert received == [b"first", b"second", b"local"]
        # Nobody gets anything twice, and nobody else's.
        await asyncio.sleep(0.5)
        for receiver in receivers.values():
            waiting = asyncio.ensure_future(receiver.next_message())
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await receiver.close()
            with pytest.raises(UnavailableError, match="there are no more messages"):
                await waiting

    in_cluster(check)


def test_ra24_a_message_for_a_client_that_is_gone_is_lost_and_harms_nobody() -> None:
    async def check(world: World) -> None:
        leader, client, (one, _) = await clients(world)
        gone = await world.client(one)
        address = await gone.address()
        await gone.close()
        late = await world.client(one)
        for node, life, number in ((one, address.life, address.number), (one, 1, 1), ("n9", 1, 1), (leader, 1, 99)):
            await client.put("/send/x", [node, life, number])
        own = await late.address()
        await client.put("/send/own", [own.node, own.life, own.number])
        assert await asyncio.wait_for(late.next_message(), 5) == b"own"

    in_cluster(check)


def test_ra24_a_machine_reads_the_log_in_the_order_that_it_asks_for_without_what_was_let_go() -> None:
    async def check(world: World) -> None:
        _, client, (one, _) = await clients(world)
        reader = await world.client(one)
        address = await reader.address()
        name = [address.node, address.life, address.number]
        indexes = [(await client.put("/x", number)).index for number in range(4)]
        await client.put("/read", [name, [indexes[2], indexes[0], indexes[3] + 100]])
        assert [await asyncio.wait_for(reader.next_message(), 5) for _ in range(2)] == [b"\x02", b"\x00"]
        checkpoint = (await client.put("/checkpoint", None)).index
        await asyncio.sleep(0.1)
        await client.put("/release", checkpoint)
        await asyncio.sleep(0.1)
        last = (await client.put("/x", 9)).index
        await client.put("/read", [name, [indexes[1], last]])
        assert await asyncio.wait_for(reader.next_message(), 5) == b"\x09"
        await client.put("/send/end", name)
        assert await asyncio.wait_for(reader.next_message(), 5) == b"end"

    in_cluster(check, checkpoint_interval=2)


def test_ra24_a_new_leader_reads_what_was_written_before_its_time() -> None:
    async def check(world: World) -> None:
        leader, client, others = await clients(world)
        index = (await client.put("/x", 7)).index
        await world.kill(leader)
        await world.leader(others)
        reader = await world.client(others[0])
        address = await reader.address()
        await reader.put("/read", [[address.node, address.life, address.number], [index]])
        assert await asyncio.wait_for(reader.next_message(), 5) == b"\x07"

    in_cluster(check)
