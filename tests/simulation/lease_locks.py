"""Locks on short leases for sessions of the metadata cluster, which has none: what lease-lock asks of etcd.

A register holds the owner and the fencing token. When leases run out stands beside the cluster, by the one clock of the
simulation: to renew one is no write, as in etcd. The client learns that its lease is gone when a node answers so, as
etcd's own client does: until then it believes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError

RETRY_S = 0.5


class LeaseLocks:
    """Adds locks on leases to a session; everything else goes through."""

    def __init__(self, session: Any, until_s: dict[str, float]) -> None:
        self._session = session
        self._until_s = until_s
        """When leases run out, by lock; all sessions share it."""
        self._believed: dict[str, bool] = {}
        self._keeping: dict[str, asyncio.Task[None]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def lease_lock(self, name: str, owner: int, lease_s: int) -> Answer:
        """Take a lock that is free, or whose lease ran out."""
        found = await self._read(name)
        if found.value is None:
            taken, token = await self._session.create(_register(name), [owner, 1]), 1
        else:
            holder, last = found.value
            if holder is not None and _now_s() < self._until_s.get(name, 0.0):
                return Answer(None, found.term)
            token = last + 1
            taken = await self._session.compare_and_set(_register(name), found.value, [owner, token])
        if not taken.value:
            return Answer(None, taken.term)
        self._until_s[name] = _now_s() + lease_s
        self._believed[name] = True
        self._keeping[name] = asyncio.create_task(self._keep(name, owner, lease_s))
        return Answer(token, taken.term)

    def lease_holds(self, name: str) -> bool:
        """What the client has heard so far."""
        return self._believed.get(name, False)

    async def lease_unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; no node is asked if it is known to be gone."""
        self._stop(name)
        if not self._believed.pop(name, False):
            return Answer(False, None)
        found = await self._read(name)
        holder, token = found.value or (None, 0)
        if holder != owner:
            return Answer(False, found.term)
        return await self._session.compare_and_set(_register(name), found.value, [None, token])

    async def close(self) -> None:
        """Keep no lease alive any longer."""
        for name in list(self._keeping):
            self._stop(name)
        await self._session.close()

    async def _keep(self, name: str, owner: int, lease_s: int) -> None:
        while self._believed.get(name):
            await asyncio.sleep(lease_s / 3)
            try:
                found = await self._session.read(_register(name))
            except (DefiniteError, IndefiniteError):
                await asyncio.sleep(RETRY_S)
                continue
            if found.value[0] == owner and _now_s() < self._until_s[name]:
                self._until_s[name] = _now_s() + lease_s
            else:
                self._believed[name] = False

    def _stop(self, name: str) -> None:
        keeping = self._keeping.pop(name, None)
        if keeping is not None:
            keeping.cancel()

    async def _read(self, name: str) -> Answer:
        try:
            return await self._session.read(_register(name))
        except IndefiniteError as error:
            raise DefiniteError(str(error)) from error


def _register(name: str) -> str:
    return f"lease {name}"


def _now_s() -> float:
    return asyncio.get_running_loop().time()
