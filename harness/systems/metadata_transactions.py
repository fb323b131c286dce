"""Transactions on the metadata cluster: registers and lists of whole numbers are tree nodes below one node.

Micro-operations are one command of the log (`splitbrain.cluster.registered.mops`), or one query if they only read. What
a client computes from its reads takes two requests: a query of the values with their versions, and a command that
writes if the versions are the same. If they are not it is tried again, with new values, while its time lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from splitbrain.cluster.client import Client, TransactionAbortedError
from splitbrain.harness.contract.sessions import Answer, Change, DefiniteError, Mop, NonsenseError
from splitbrain.harness.systems.metadata_errors import readable

_VERSION: Final = 1
"""Of the registered functions."""


class MetadataTransactions:
    """Transactions over one connection; errors of the client go through.

    Args:
        client: the connection.
        timeout_ms: how long a transaction may take, all attempts together.
    """

    def __init__(self, client: Client, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms

    async def transact(self, mops: Sequence[Mop]) -> Answer:
        """Do reads and writes in their order; the mops with their reads."""
        asked = [[f, _path(key), value] for f, key, value in mops]
        mode = "read" if all(f == "r" for f, _, _ in mops) else "write"
        done = await self._client.transaction("mops", _VERSION, asked, mode, timeout_ms=self._timeout_ms)
        return Answer(_with(mops, done.value), done.term)

    async def in_universe(self, universe: str, steps: Sequence[Mop]) -> Answer:
        """Do reads and writes of objects in their order; the steps with their reads."""
        mode = "read" if all(f in ("r", "rp") for f, _, _ in steps) else "write"
        asked = [f"/objects/{quote(universe, safe='')}", [list(step) for step in steps]]
        done = await self._client.transaction("objects", _VERSION, asked, mode, timeout_ms=self._timeout_ms)
        return Answer(_with(steps, done.value), done.term)

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        """Read registers, and write what follows from them; what was read.

        Raises:
            DefiniteError: `change` aborted it, or others were first until too little time was left for another try.
        """
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._timeout_ms / 1000
        paths = [_path(key) for key in keys]
        took_ms = 0
        while True:
            begun_s = loop.time()
            left_ms = round((ends_s - begun_s) * 1000)
            if left_ms <= took_ms:  # what is tried in less time is given up halfway, with an unknown outcome
                raise DefiniteError(f"conflict: other transactions were first for {self._timeout_ms / 1000:g} s")
            read = await self._client.transaction("versions", _VERSION, paths, "read", timeout_ms=left_ms)
            found = readable(read.value, list[tuple[int | None, int | None]], "a read of registers")
            _same_number(keys, found)
            values = {key: value for key, (value, _) in zip(keys, found, strict=True)}
            written = change(values)
            if written is None:
                raise DefiniteError("aborted")
            if not written:
                return Answer(values, read.term)
            seen = {key: version for key, (_, version) in zip(keys, found, strict=True)}
            wanted: list[list[Any]] = [
                [_path(key), seen.get(key), key in written, written.get(key)]
                for key in dict.fromkeys([*keys, *written])
            ]
            left_ms = max(1, round((ends_s - loop.time()) * 1000))
            try:
                done = await self._client.transaction("conditional", _VERSION, wanted, "write", timeout_ms=left_ms)
            except TransactionAbortedError:
                took_ms = round((loop.time() - begun_s) * 1000)
                continue  # a conflict: nothing of it happened
            return Answer(values, done.term)


def _with(asked: Sequence[Mop], answered: Any) -> list[Mop]:
    """What was asked, with what was read."""
    values = readable(answered, list[Any], "a transaction")
    _same_number(asked, values)
    return [[f, key, value] for (f, key, _), value in zip(asked, values, strict=True)]


def _same_number(asked: Sequence[Any], answered: Sequence[Any]) -> None:
    if len(asked) != len(answered):
        raise NonsenseError(f"a transaction of {len(asked)} steps was answered with {len(answered)} results")


def _path(key: str) -> str:
    return f"/transactions/{quote(key, safe='')}"
