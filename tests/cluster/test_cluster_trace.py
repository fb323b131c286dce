"""What nodes report of their logs, judged by the checkers that compare it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from splitbrain.checkers.consensus import LogMatching, RemovedMembers, ReplicaAgreement
from splitbrain.cluster.bugs import M19, Bugs
from splitbrain.cluster.errors import ClientError
from splitbrain.cluster.telemetry import LOG_INTERVAL
from splitbrain.results.telemetry import table_of
from tests.cluster.support import World, both, eventually, in_cluster

THREE = ["n1", "n2", "n3"]


def telemetry(world: World) -> pa.Table:
    """What the nodes wrote, as a table; lines of a node have no times, only an order."""
    return table_of(
        {name: [(0, msgspec.json.encode(line)) for line in lines] for name, lines in world.telemetry.items()}
    )


def lines(world: World, name: str, event: str) -> list[dict[str, Any]]:
    return [line for line in world.telemetry[name] if line["event"] == event]


async def put(world: World, name: str, times: int) -> None:
    client = await world.client(name)
    for number in range(times):
        await client.put("/a", number, timeout_ms=5000)


async def put_in_vain(world: World, name: str, times: int) -> None:
    client = await world.client(name)
    for number in range(times):
        with pytest.raises(ClientError, match="timeout"):
            await client.put(f"/lost{number}", number, timeout_ms=20)


async def applied_everywhere(world: World, index: int) -> None:
    async def reached() -> bool | None:
        said = [(await (await world.client(name)).status()).applied_index for name in THREE]
        return True if min(said) >= index else None

    await eventually(reached)


def test_every_node_reports_its_log_at_the_same_entries() -> None:
    async def check(world: World) -> None:
        await put(world, await world.leader(), 130)
        await applied_everywhere(world, 131)
        for name in THREE:
            assert [line["log_index"] for line in lines(world, name, "first")] == [1]
            reported = [line["log_index"] for line in lines(world, name, "log")]
            assert [index for index in reported if index % LOG_INTERVAL == 0] == [64, 128]
        verdict = LogMatching().check(telemetry(world), {})
        assert verdict.valid == "true"
        assert verdict.figures["applied"] >= 9, "each applied what its log held"
        assert verdict.figures["compared"] >= 3
        assert verdict.figures["highest_compared"] == 128

    in_cluster(World(THREE), check)


@both(M19)
def test_m19_a_log_that_goes_on_behind_entries_of_another_leader_is_seen(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        old = await world.leader()
        await put(world, old, 1)
        await applied_everywhere(world, 2)
        world.isolate(old)
        await put_in_vain(world, old, 9)
        rest = [name for name in THREE if name != old]
        await put(world, await world.leader(among=rest), 2)
        for name in THREE:
            await world.kill(name)  # what is on its way to the old leader would say where the logs part
        world.cut.clear()
        await world.start(*THREE)
        # It is elected with a log that ends where the old leader's has an entry of the first term.
        new = await world.leader(among=rest)

        async def caught_up() -> bool | None:
            term = lines(world, new, "first")[-1]["log_term"]
            return True if any(line["log_term"] == term for line in lines(world, old, "first")) else None

        await eventually(caught_up)
        verdict = LogMatching().check(telemetry(world), {})
        assert verdict.anomalies == (("logs-differ",) if broken else ()), verdict.sentence

    in_cluster(World(THREE, bugs=bugs), check)


@pytest.mark.parametrize(("bugs", "broken"), [(Bugs(["M06"]), False), (Bugs(["M06", "M07"]), True)])
def test_m07_a_leader_that_follows_a_removed_member_is_seen(bugs: Bugs, broken: bool) -> None:
    """With M06 the member that is cut off raises its term; it is heard by the leader alone when it is back."""

    async def check(world: World) -> None:
        leader = await world.leader()
        removed, other = (name for name in THREE if name != leader)
        world.isolate(removed)
        await (await world.client(leader)).remove_member(removed, timeout_ms=5000)
        term = (await (await world.client(leader)).status()).term

        async def stands() -> bool | None:
            return True if (await (await world.client(removed)).status()).term > term + 2 else None

        await eventually(stands)
        world.cut = {(removed, other), (other, removed)}
        await asyncio.sleep(1)
        verdict = RemovedMembers().check(telemetry(world), {})
        assert verdict.anomalies == (("followed-stranger",) if broken else ()), verdict.sentence
        status = await (await world.client(leader)).status()
        assert (status.term == term) == (not broken)

    in_cluster(World(THREE, bugs=bugs), check)


def test_a_state_that_is_written_down_says_for_which_entry_it_stands() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        await put(world, leader, 9)
        written = await (await world.client(leader)).snapshot()
        [line] = lines(world, leader, "checkpoint")
        assert (line["log_index"], line["applied"], line["log"]) == (10, 10, line["chain"])
        assert written.index == 10
        assert line["counted"] == {"base": 0, "there": 1}
        verdict = ReplicaAgreement().check(telemetry(world), {})
        assert (verdict.valid, verdict.figures["snapshots"]) == ("true", 1)

    in_cluster(World(THREE), check)
