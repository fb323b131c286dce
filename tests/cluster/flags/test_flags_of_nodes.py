"""Feature flags on whole nodes: the client's requests, the file, and nodes that end, join, or may not start."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.client import Client, ClientError, FlagNotEnabledError
from splitbrain.cluster.errors import CorruptStorageError, FeatureFlagError
from splitbrain.cluster.flags.record import FLAGS
from splitbrain.cluster.flags.registry import probe_name
from splitbrain.cluster.marks import counted
from tests.cluster.support import World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]
FOUR = ["n1", "n2", "n3", "n4"]
FLAG = probe_name(1)


def world_of(names: list[str]) -> World:
    world = World(names)
    world.founders = tuple(THREE)
    world.flag_probes = dict.fromkeys(names, 8)
    return world


async def states(client: Client) -> dict[str, str]:
    return {flag.name: flag.state for flag in await client.feature_flags()}


async def everywhere(world: World, flag: str, state: str) -> None:
    async def is_so() -> bool | None:
        found = [(await states(await world.client(name)))[flag] for name in world.nodes]
        return set(found) == {state} or None

    await eventually(is_so)


def test_ff_2_a_flag_is_enabled_on_all_nodes_and_stays_so_when_they_start_again() -> None:
    async def check() -> None:
        world = world_of(THREE)
        await world.start()
        await world.leader()
        client = await world.client("n2")
        await client.enable_feature_flag(probe_name(4))
        for name in THREE:
            asked = await world.client(name)
            assert (await states(asked))[probe_name(4)] == "enabled"
            assert (await states(asked))[probe_name(3)] == "enabled"
            assert await asked.is_feature_flag_enabled(probe_name(4))
            assert not await asked.is_feature_flag_enabled(FLAG)
        for name in THREE:
            await world.kill(name)
        await world.start()
        await everywhere(world, probe_name(4), "enabled")
        assert world.failures == []
        await world.close()

    in_virtual_time(check())


def test_nodes_in_which_no_flag_is_changed_write_no_file() -> None:
    async def check() -> None:
        world = world_of(THREE)
        await world.start()
        await world.leader()
        assert all(world.disks[name].read(FLAGS) is None for name in THREE)
        await world.close()

    in_virtual_time(check())


def test_ff_2_what_is_refused_says_why() -> None:
    async def check() -> None:
        world = world_of(THREE)
        world.flag_probes["n3"] = 0
        await world.start()
        client = await world.client("n1")
        with pytest.raises(FlagNotEnabledError, match="not known on n3") as unsupported:
            await client.enable_feature_flag(FLAG)
        assert unsupported.value.reason == "unsupported"
        with pytest.raises(FlagNotEnabledError, match="experimental"):
            await client.enable_feature_flag("khepri_db")
        with pytest.raises(FlagNotEnabledError, match="n1 knows no feature flag 'nothing'"):
            await client.is_feature_flag_enabled("nothing")
        await world.kill("n2")
        with pytest.raises(FlagNotEnabledError, match="n2 did not answer") as missing:
            await client.enable_feature_flag("khepri_db", experimental=True)
        assert missing.value.reason == "missing_nodes"
        await world.close()

    in_virtual_time(check())


def controller_dies(after: int) -> str:
    """How a change ends whose controller is killed after so many turns of the event loop, and comes back."""

    async def check() -> str:
        world = world_of(THREE)
        await world.start()
        await world.leader()
        client = await world.client("n1")
        asked = asyncio.ensure_future(client.enable_feature_flag(FLAG))
        for _ in range(after):
            await asyncio.sleep(0)
        await world.kill("n1")
        acknowledged = not isinstance((await asyncio.gather(asked, return_exceptions=True))[0], ClientError)

        async def settled() -> str | None:
            found = {(await states(await world.client(name)))[FLAG] for name in world.nodes}
            return found.pop() if found in ({"enabled"}, {"disabled"}) else None

        await asyncio.sleep(5)
        without = await eventually(settled)
        await world.start("n1")
        await asyncio.sleep(5)
        assert await eventually(settled) == without
        assert without == "enabled" or not acknowledged
        assert world.failures == []
        await world.close()
        return without

    return in_virtual_time(check())


def test_d6_all_nodes_enable_a_flag_or_none_also_when_the_controller_dies_half_way() -> None:
    assert {controller_dies(after) for after in (0, 5, 10, 15, 20, 25, 40)} == {"enabled", "disabled"}


def test_ff_3_a_node_that_joins_takes_over_what_is_enabled() -> None:
    async def check() -> None:
        world = world_of(FOUR)
        await world.start()
        await world.leader()
        client = await world.client("n1")
        await client.enable_feature_flag(FLAG)
        assert (await states(await world.client("n4")))[FLAG] == "unknown"
        with counted() as marks:
            await client.add_member("n4")
            await everywhere(world, FLAG, "enabled")
        assert marks["flags synchronised"] == 1
        await (await world.client("n4")).enable_feature_flag(probe_name(2))
        await everywhere(world, probe_name(2), "enabled")
        await world.close()

    in_virtual_time(check())


def test_ff_3_a_node_that_does_not_know_an_enabled_flag_stops_as_it_joins_or_starts() -> None:
    async def check() -> None:
        world = world_of(FOUR)
        world.flag_probes["n4"] = 0
        await world.start()
        await world.leader()
        client = await world.client("n1")
        await client.enable_feature_flag(FLAG)
        await client.add_member("n4", role="learner")

        async def failed() -> BaseException | None:
            return world.failures[0] if world.failures else None

        error = await eventually(failed)
        assert isinstance(error, FeatureFlagError)
        assert f"{FLAG} is enabled in this cluster, and the program of n4 does not know it" in str(error)
        await world.kill("n3")
        world.flag_probes["n3"] = 0
        with pytest.raises(FeatureFlagError, match="start n3 with a later program"):
            await world.start("n3")
        await world.close()

    in_virtual_time(check())


def test_a_damaged_file_of_feature_flags_is_refused() -> None:
    async def check() -> None:
        world = world_of(["n1"])
        world.founders = ()
        await world.start()
        await (await world.client("n1")).enable_feature_flag(FLAG)
        await world.kill("n1")
        content = world.disks["n1"].read(FLAGS)
        assert content is not None
        world.disks["n1"].put(FLAGS, content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(CorruptStorageError, match=FLAGS):
            await world.start("n1")
        await world.close()

    in_virtual_time(check())
