"""What reads of each mode promise, against whole nodes (RA-20, RA-25 to RA-27), and members that are asked to lead."""

from __future__ import annotations

import asyncio
import gc

import pytest

from splitbrain.cluster.bugs import M28, NO_BUGS, Bugs
from splitbrain.cluster.client import (
    ChangeRefusedError,
    Client,
    InvalidRequestError,
    NodeNotFoundError,
    UnavailableError,
)
from splitbrain.cluster.pending import Pending
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.log import Log
from splitbrain.cluster.waits import Waits
from tests.cluster.support import World, both, eventually, in_cluster

THREE = ["n1", "n2", "n3"]


async def stale_follower(world: World) -> tuple[Client, Client, str]:
    """The leader's client, that of a follower which lacks the last write to /a, and the follower."""
    leader = await world.leader()
    follower = next(name for name in world.names if name != leader)
    first, second = await world.client(leader), await world.client(follower)
    await first.put("/a", 1)
    await eventually(lambda: seen(second, 1))
    # Only what goes to the follower is lost: its own messages still arrive.
    world.cut = {(name, follower) for name in world.names if name != follower}
    await first.put("/a", 2)
    return first, second, follower


async def seen(client: Client, value: int) -> bool | None:
    try:
        return (await client.get("/a", mode="local")).value == value or None
    except NodeNotFoundError:
        return None


def test_ra25_a_local_read_is_answered_at_once_from_what_the_node_has() -> None:
    async def check(world: World) -> None:
        first, second, _ = await stale_follower(world)
        assert (await first.get("/a", mode="local")).value == 2
        assert (await second.get("/a", mode="local")).value == 1
        assert (await second.children("/", mode="local")).names == ("a",)

    in_cluster(World(THREE), check)


def test_ra25_a_local_read_behind_a_write_waits_for_it_and_times_out_without_effect() -> None:
    async def check(world: World) -> None:
        first, second, _ = await stale_follower(world)
        written = await first.put("/a", 3)
        after = (written.index, written.term)
        with pytest.raises(UnavailableError, match="did not apply the entry in time"):
            await second.get("/a", mode="local", after=after, timeout_ms=300)
        waiting = asyncio.ensure_future(second.get("/a", mode="local", after=after, timeout_ms=5000))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        world.cut = set()
        assert (await waiting).value == 3

    in_cluster(World(THREE), check)


def test_ra25_after_is_for_local_reads() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        for mode in ("consistent", "leader"):
            with pytest.raises(InvalidRequestError, match="local reads"):
                await client.get("/a", mode=mode, after=(1, 1))

    in_cluster(World(THREE), check)


def test_ra26_a_leader_read_is_passed_on_to_the_leader_and_stale_where_another_leads() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        others = [name for name in THREE if name != leader]
        old, other = await world.client(leader), await world.client(others[0])
        await old.put("/a", 1)
        assert (await other.get("/a", mode="leader")).value == 1
        world.isolate(leader)
        await world.leader(others)
        await other.put("/a", 2)
        assert (await other.get("/a", mode="leader")).value == 2
        if world.nodes[leader].status().role == "leader":
            assert (await old.get("/a", mode="leader")).value == 1
        with pytest.raises(UnavailableError):
            await old.get("/a", timeout_ms=100)

    in_cluster(World(THREE), check)


def test_ra20_a_command_with_a_local_reply_is_seen_by_local_reads_of_the_node_that_was_asked() -> None:
    async def check(world: World) -> None:
        _, second, follower = await stale_follower(world)
        world.cut = set()
        for value in range(10, 30):
            written = await second.put("/a", value, reply_from="local")
            assert (await second.get("/a", mode="local")).value == value
            assert world.nodes[follower].status().applied_index >= written.index

    in_cluster(World(THREE), check)


def test_a_write_says_where_it_stands_in_the_log() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        first, second = await client.put("/a", 1), await client.put("/a", 2)
        assert second.index == first.index + 1
        assert (await client.get("/a")).index >= second.index

    in_cluster(World(THREE), check)


# --- waits ---------------------------------------------------------------------------------------------------------


class Place:
    """A node's log, of which so much is applied."""

    def __init__(self, *terms: int, applied: int, bugs: Bugs = NO_BUGS) -> None:
        self.log = Log([Entry(i, term, "noop") for i, term in enumerate(terms, 1)])
        self.applied = applied
        self.term = max(terms, default=0)
        self.called: list[str] = []
        self.waits = Waits(self.log, lambda: self.applied, lambda: self.term, bugs)

    def add(self, index: int, term: int, name: str = "x") -> None:
        self.waits.add(index, term, lambda: self.called.append(name))

    def apply(self, upto: int) -> None:
        self.applied = upto
        self.waits.advanced()


def test_ra25_calls_are_due_in_the_order_of_the_log() -> None:
    place = Place(1, 1, 1, 1, applied=1)
    place.add(4, 1, "four")
    place.add(2, 1, "two")
    place.add(1, 1, "one")
    assert place.called == ["one"]
    place.apply(3)
    assert place.called == ["one", "two"]
    place.apply(4)
    assert place.called == ["one", "two", "four"]


def test_ra25_a_call_whose_entry_another_leader_replaced_is_never_due() -> None:
    place = Place(1, 2, 2, applied=1)
    place.add(2, 1)
    place.add(3, 2, "kept")
    place.apply(3)
    place.add(2, 1)
    assert place.called == ["kept"]


def test_ra25_a_call_that_was_forgotten_is_never_due_and_nothing_of_it_is_kept() -> None:
    place = Place(1, 1, 1, applied=1)
    forgotten = place.waits.add(3, 1, lambda: place.called.append("forgotten"))
    place.add(3, 1, "kept")
    for index in range(1000, 2000):
        place.waits.forget(place.waits.add(index, 1, lambda: place.called.append("never")))
    assert len(place.waits) < 100
    place.waits.forget(forgotten)
    place.apply(3)
    assert place.called == ["kept"]


def test_ra25_calls_that_make_others_forget_theirs_do_not_lose_any() -> None:
    place = Place(*[1] * 400, applied=1)
    numbers: list[int] = []

    def forget_all() -> None:
        for number in numbers:
            place.waits.forget(number)

    place.waits.add(2, 1, forget_all)
    numbers += [place.waits.add(3 + count % 300, 1, lambda: place.called.append("never")) for count in range(300)]
    place.add(3, 1, "three")
    place.add(400, 1, "last")
    place.apply(400)
    assert (place.called, len(place.waits)) == (["three", "last"], 0)


def test_ra25_a_read_that_timed_out_waits_no_more() -> None:
    """The entry that it names may never come."""

    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        for _ in range(300):
            with pytest.raises(UnavailableError):
                await client.get("/a", mode="local", after=(10**12, 1), timeout_ms=1)
        kept = sum(isinstance(thing, Pending) for thing in gc.get_objects())
        assert kept < 100

    in_cluster(World(THREE), check)


def test_ra25_what_is_in_the_snapshot_is_applied() -> None:
    place = Place(1, 1, 2, applied=3)
    place.log.compact(3)
    place.add(2, 1)
    assert place.called == ["x"]


def test_ra25_a_call_behind_a_snapshot_is_not_due_where_its_term_shows_that_the_entry_is_not_there() -> None:
    place = Place(1, 1, 2, applied=3)
    place.log.compact(3)
    place.add(3, 1, "base of another term")
    place.add(2, 3, "before the base, of a later term")
    assert place.called == []
    place.add(3, 2, "base")
    assert place.called == ["base"]


def test_ra25_a_local_read_whose_entry_comes_within_a_snapshot_is_answered() -> None:
    async def check(world: World) -> None:
        first, second, follower = await stale_follower(world)
        written = [await first.put("/a", value) for value in range(3, 9)][-1]
        # Nothing follows the snapshot: only that it is taken over can end the wait.
        assert (await first.snapshot()).index == written.index
        waiting = asyncio.ensure_future(
            second.get("/a", mode="local", after=(written.index - 2, written.term), timeout_ms=10_000)
        )
        await asyncio.sleep(0.1)
        assert not waiting.done()
        world.cut = set()
        assert (await waiting).value == 8
        assert any("took over the leader's snapshot" in line for line in world.logs[follower])

    in_cluster(World(THREE), check)


@both(M28)
def test_m28_a_higher_term_is_not_the_entry(bugs: Bugs, broken: bool) -> None:
    place = Place(1, 2, applied=1, bugs=bugs)
    place.add(2, 1)
    assert place.called == (["x"] if broken else [])


# --- who leads -------------------------------------------------------------------------------------------------------


def test_ra31_a_client_hands_leadership_over_through_any_node() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        to, asked = [name for name in THREE if name != leader]
        client = await world.client(asked)
        await client.put("/a", 1)
        await client.transfer_leadership(to)
        assert await eventually(lambda: leads(world, to))
        assert (await client.get("/a", timeout_ms=3000)).value == 1
        with pytest.raises(ChangeRefusedError) as refused:
            await client.transfer_leadership("n9")
        assert refused.value.reason == "not_member"

    world = World([*THREE, "n9"])
    world.founders = tuple(THREE)
    in_cluster(world, check)


async def leads(world: World, name: str) -> bool | None:
    return world.nodes[name].status().role == "leader" or None
