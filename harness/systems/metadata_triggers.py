"""Counters whose changes trigger procedures of the metadata cluster, for the workload `counter` (KH-13)."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any, Final, TypeAlias

from splitbrain.cluster.client import Client, ClientError, MismatchingNodeError, StoredProcedure
from splitbrain.cluster.patterns import IfNodeExists
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.systems.metadata_errors import readable, refused

_PROCEDURES: Final = "/procedures"
_RUNS: Final = ["runs"]
"""Below here the procedure writes down that it ran, one node for each counter."""

PRIORITIES: Final = {"first": 10, "second": 1}
"""The triggers, and which of them goes first."""

AGAIN_S: Final = 0.05
"""Until what was triggered is looked at again."""


_Read: TypeAlias = tuple[tuple[Any, int], tuple[list[tuple[int, str, int]] | None, int]]
"""A counter with the number of its changes, and what these have triggered, with a number that is not used."""


class MetadataTriggers:
    """What one session does with triggers.

    Args:
        client: the connection.
        timeout_ms: how long an operation may take.
        watched: the pattern of the nodes whose changes trigger something.
    """

    def __init__(self, client: Client, timeout_ms: int, watched: str) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._watched = watched

    async def prepare(self) -> Answer:
        """Register the triggers, unless they are.

        Raises:
            DefiniteError: it is not known whether they are.
        """
        try:
            known = {trigger.id for trigger in await self._client.triggers(timeout_ms=self._timeout_ms)}
            for name, priority in PRIORITIES.items():
                if name not in known:
                    await self._register(name, priority)
        except ClientError as error:
            raise refused(error) from error
        return Answer(None)

    async def _register(self, name: str, priority: int) -> None:
        procedure = f"{_PROCEDURES}/{name}"
        with suppress(MismatchingNodeError):  # another client has stored it
            stored = StoredProcedure("run", 1, {"to": _RUNS})
            await self._client.put_nodes(procedure, stored, when=IfNodeExists(False), timeout_ms=self._timeout_ms)
        await self._client.register_trigger(
            name, self._watched, procedure, priority=priority, timeout_ms=self._timeout_ms
        )

    async def read(self, watched: str, name: str, *, at_rest: bool) -> Answer:
        """What the changes of a node have triggered, and how many there were; see `Triggers.read_runs`."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._timeout_ms / 1000
        while True:
            left_ms = max(1, round((ends_s - loop.time()) * 1000))
            paths = [watched, f"/{'/'.join(_RUNS)}/{name}"]
            done = await self._client.transaction("versions", 1, paths, "read", timeout_ms=left_ms)
            readable(done.value, _Read, "a read of what ran")
            (_, changes), (found, _) = done.value
            runs: list[Any] = found or []
            if not at_rest or _all_ran(changes, runs) or loop.time() + 2 * AGAIN_S >= ends_s:
                return Answer({"changes": changes, "runs": runs}, done.term)
            await asyncio.sleep(AGAIN_S)  # noqa: TID251 - of a client, which has no runtime: its loop's time


def _all_ran(changes: int, runs: list[Any]) -> bool:
    ran = Counter(trigger for _, trigger in dict.fromkeys((number, trigger) for number, trigger, _ in runs))
    return all(ran[name] >= changes for name in PRIORITIES)
