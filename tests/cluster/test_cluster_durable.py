"""A node says how far its log is durable: at its start, whenever it writes telemetry, and with its last words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from splitbrain.cluster.client import ClientError
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.support import World, eventually, in_cluster

THREE = ["n1", "n2", "n3"]


class WithLastWords(World):
    """Asks a node for its last words when it is killed, as a simulation does."""

    def __init__(self) -> None:
        super().__init__(THREE)
        self.words: dict[str, Callable[[], bytes]] = {}

    def runtime(self, name: str) -> Runtime:
        def last_words(words: Callable[[], bytes]) -> None:
            self.words[name] = words

        return replace(super().runtime(name), last_words=last_words)

    def last_words(self, name: str) -> dict[str, object]:
        return json.loads(self.words[name]())


async def durable_everywhere(world: WithLastWords, index: int) -> None:
    async def met() -> bool | None:
        return all(world.last_words(name)["last"] == index for name in THREE) or None

    await eventually(met)


def test_the_last_words_have_the_last_entry_that_was_called_durable() -> None:
    async def check(world: WithLastWords) -> None:
        client = await world.client(await world.leader())
        await world.in_force(NEWEST_VERSION)
        for number in range(10):
            await client.put("/a", number)
        await durable_everywhere(world, 12)  # the no-ops of the term and of the version, too
        assert world.last_words("n2")["event"] == "end"
        await world.kill("n2")
        await world.start("n2")
        starts = [row for row in world.telemetry["n2"] if row["event"] == "start"]
        assert [row["last"] for row in starts] == [0, 12]

    in_cluster(WithLastWords(), check)


def test_what_is_cut_off_is_said_before_it_is_gone() -> None:
    async def check(world: WithLastWords) -> None:
        old = await world.leader()
        client = await world.client(old)
        await world.in_force(NEWEST_VERSION)
        kept = (await client.put("/a", 1)).index
        await durable_everywhere(world, kept)
        world.isolate(old)
        for number in range(3):
            await client_gives_up(world, old, number)
        assert world.last_words(old)["last"] == kept + 3, "its disk has what only it has"
        new = await world.leader(among=[name for name in THREE if name != old])
        await (await world.client(new)).put("/b", 1, timeout_ms=5000)
        world.cut.clear()
        await durable_everywhere(world, kept + 2)
        cuts = [row for row in world.telemetry[old] if row["event"] == "cut"]
        assert [row["last"] for row in cuts] == [kept]

    in_cluster(WithLastWords(), check)


async def client_gives_up(world: WithLastWords, name: str, number: int) -> None:
    client = await world.client(name)
    with pytest.raises(ClientError, match="timeout"):
        await client.put(f"/lost{number}", number, timeout_ms=20)
