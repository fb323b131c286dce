"""Sending a command again (KH-9, KH-10): attempts, what their errors mean together, and that nothing counts twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import pytest

from splitbrain.cluster import dedup
from splitbrain.cluster.bugs import M31, Bugs
from splitbrain.cluster.client import ClientError, OutcomeUnknownError, Ref, Refs, UnavailableError, retrying
from splitbrain.cluster.retry import GRACE_MS
from tests.cluster.support import World, both, eventually, in_cluster, in_virtual_time

THREE = ["n1", "n2", "n3"]

UNKNOWN = OutcomeUnknownError("timeout", 3)
REFUSED = UnavailableError("no leader", 3)
BROKEN = UnavailableError("the connection is broken")


def outcome(*errors: ClientError, then: str = "done", timeout_ms: int = 1000) -> tuple[object, list[int]]:
    """What `retrying` makes of attempts of 100 ms that end with these errors, then a result; and their timeouts."""
    timeouts: list[int] = []

    async def send(timeout: int) -> str:
        timeouts.append(timeout)
        await asyncio.sleep(0.1)
        if len(timeouts) <= len(errors):
            raise errors[len(timeouts) - 1]
        return then

    async def run() -> object:
        try:
            return await retrying(send, timeout_ms, attempt_ms=300, pause_ms=20)
        except ClientError as error:
            return error

    return in_virtual_time(run()), timeouts


def test_kh10_only_an_unknown_outcome_is_followed_by_another_attempt() -> None:
    assert outcome() == ("done", [300])
    assert outcome(UNKNOWN, UNKNOWN) == ("done", [300, 300, 300])
    assert outcome(REFUSED) == (REFUSED, [300])


def test_kh10_after_an_unknown_outcome_no_refusal_is_definite() -> None:
    assert outcome(UNKNOWN, REFUSED)[0] == "done"
    found, timeouts = outcome(UNKNOWN, *[REFUSED] * 20)
    assert isinstance(found, OutcomeUnknownError)
    assert len(timeouts) == 9
    assert timeouts[-1] < 100


@pytest.mark.parametrize("answered", [1, 3, 100])
def test_kh10_an_attempt_that_gets_no_answer_at_all_ends_by_the_clients_own_time(answered: int) -> None:
    """The request or its answer was lost on the way, and the connection stands."""
    begun: list[float] = []

    async def send(timeout: int) -> str:
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05 if len(begun) == answered else 3600)
        return "done"

    async def run() -> tuple[object, float]:
        began = asyncio.get_running_loop().time()
        try:
            found: object = await retrying(send, 1000, attempt_ms=200, pause_ms=20)
        except ClientError as error:
            found = error
        return found, asyncio.get_running_loop().time() - began

    found, took_s = in_virtual_time(run())
    assert [round(1000 * (later - first)) for first, later in pairwise(begun[:3])] == [200 + GRACE_MS + 20] * min(
        2, answered - 1
    )
    if answered > len(begun):
        assert isinstance(found, OutcomeUnknownError)
        assert 1 <= took_s <= 1 + (GRACE_MS + 20) / 1000
    else:
        assert found == "done"


@pytest.mark.parametrize("errors", [(UNKNOWN, BROKEN), (OutcomeUnknownError("the connection broke"),)])
def test_kh10_nothing_is_sent_again_over_a_broken_connection(errors: Sequence[ClientError]) -> None:
    found, timeouts = outcome(*errors)
    assert isinstance(found, OutcomeUnknownError)
    assert len(timeouts) == len(errors)


def test_kh9_refs_say_which_results_are_needed_no_more() -> None:
    refs = Refs("c", keep_ms=7)
    first, second = refs.next(), refs.next()
    assert [first, second] == [Ref("c", 1, 1, 7), Ref("c", 2, 1, 7)]
    refs.answered(second)
    assert refs.next() == Ref("c", 3, 1, 7)
    refs.answered(first)
    assert refs.next() == Ref("c", 4, 3, 7)


def on_three_nodes(check: Callable[[World], Awaitable[None]]) -> None:
    in_cluster(World(THREE), check)


def test_kh9_a_ref_may_be_sent_through_every_node_and_after_a_restart_and_counts_once() -> None:
    async def check(world: World) -> None:
        await world.leader()
        ref = Refs("c").next()
        for name in THREE:
            assert (await (await world.client(name)).increment("/n", 5, ref=ref)).value == 5
        for name in THREE:
            await world.kill(name)
        await world.start()
        await world.leader()
        client = await world.client("n1")
        assert (await client.increment("/n", 5, ref=ref)).value == 5
        assert (await client.increment("/n", 5)).value == 10

    on_three_nodes(check)


def test_kh9_every_command_may_have_a_ref() -> None:
    async def check(world: World) -> None:
        client, refs = await world.client(await world.leader()), Refs("c")
        put, create, swap, delete = (refs.next() for _ in range(4))
        for _ in range(2):
            assert (await client.put("/a", 1, ref=put)).payload_version == 1
            assert (await client.create("/b", 1, ref=create)).value == 1
            assert (await client.compare_and_swap("/a", 1, 2, ref=swap)).value == 2
        await client.delete("/a", ref=delete)
        await client.put("/a", 3)
        await client.delete("/a", ref=delete)
        assert (await client.get("/a")).value == 3

    on_three_nodes(check)


def test_kh9_a_late_copy_has_an_unknown_outcome_and_a_full_table_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "MAX_CLIENTS", 1)

    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        await client.increment("/n", 5, ref=Ref("c", 2, 2))
        with pytest.raises(OutcomeUnknownError, match="forgotten: result 1"):
            await client.increment("/n", 5, ref=Ref("c", 1, 1))
        with pytest.raises(UnavailableError, match="too_many_refs: the cluster keeps results of 1 clients"):
            await client.increment("/n", 5, ref=Ref("d", 1, 1))
        assert (await client.get("/n")).value == 5

    on_three_nodes(check)


def test_kh9_the_leader_has_all_members_drop_what_was_not_used_for_long() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        await client.put("/n", 0)
        bare = (await client.status()).state_hash
        await client.increment("/n", 0, ref=Ref("c", 1, 1, 3000))
        assert (await client.status()).state_hash != bare
        await asyncio.sleep(2)
        assert (await client.status()).state_hash != bare

        async def dropped() -> bool | None:
            return all(node.status().state_hash == bare for node in world.nodes.values()) or None

        await eventually(dropped)

    on_three_nodes(check)


@both(M31)
def test_m31_an_increment_that_was_sent_again_counts_twice(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        other = next(name for name in THREE if name != leader)
        client, ref = await world.client(other), Refs("c").next()
        # The answer cannot come back: the command is carried out, and its outcome is unknown here.
        world.cut = {(leader, other)}
        with pytest.raises(OutcomeUnknownError):
            await client.increment("/n", 5, ref=ref, timeout_ms=40)
        world.cut.clear()

        async def carried_out() -> bool | None:
            counted = await (await world.client(leader)).children("/")
            return "n" in counted.names or None

        await eventually(carried_out)
        assert (await retrying(lambda ms: client.increment("/n", 5, ref=ref, timeout_ms=ms), 5000)).value == (
            10 if broken else 5
        )

    in_cluster(World(THREE, bugs=bugs), check)
