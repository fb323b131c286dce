"""Locks: operations that not every system has, and how to have them where there is only compare-and-set.

There are two kinds. One is held until it is given back. The other stands on a lease, as users run it: its client keeps
the lease alive, and if it cannot, the system gives the lock to the next one.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError, Session

LOCK: Final = "lock"
"""The name of the operation, as a system lists it in `operations` and a workload in `needs`."""

LEASE_LOCK: Final = "lease-lock"
"""The name of locks on short leases."""


class LockSession(Session, Protocol):
    """A session with a system that has locks. A lock is free until it is taken; nobody waits for one."""

    async def lock(self, name: str, owner: int) -> Answer:
        """Take a lock if it is free; the answer's value is its fencing token, None if the lock is held.

        Tokens of one lock are whole numbers that grow from each owner to the next (the fencing of Kleppmann's "How to
        do distributed locking", 2016; Chubby's sequencers).
        """
        ...

    async def unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; the answer's value tells whether `owner` held it, and does no more."""
        ...


class LeaseLockSession(Session, Protocol):
    """A session with a system whose locks can stand on short leases. It keeps its lease alive until it is closed."""

    async def lease_lock(self, name: str, owner: int, lease_s: int) -> Answer:
        """Take a lock on a lease of so many seconds if it is free; a fencing token, None if the lock is held."""
        ...

    def lease_holds(self, name: str) -> bool:
        """Whether this client believes that it holds the lock. It asks no node: it tells what it has heard so far."""
        ...

    async def lease_unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; the answer's value tells whether it was still held.

        A client that knows that its lease is gone asks no node.
        """
        ...


class CompareAndSetLocks:
    """Locks for a session that has registers: a register holds the owner, null if there is none, and the last token."""

    async def lock(self: Session, name: str, owner: int) -> Answer:
        """Take a lock if it is free: the fencing token, None if it is held."""
        found = await _held(self, name)
        if found.value is None:
            created = await self.create(_register(name), _state(owner, 1))
            return Answer(1 if created.value else None, created.term)
        holder, token = _parts(found.value)
        if holder is not None:
            return Answer(None, found.term)
        taken = await self.compare_and_set(_register(name), found.value, _state(owner, token + 1))
        return Answer(token + 1 if taken.value else None, taken.term)

    async def unlock(self: Session, name: str, owner: int) -> Answer:
        """Give a lock back; whether `owner` held it."""
        found = await _held(self, name)
        holder, token = (None, 0) if found.value is None else _parts(found.value)
        if holder != owner:
            return Answer(False, found.term)
        return await self.compare_and_set(_register(name), found.value, _state(None, token))


async def _held(session: Session, name: str) -> Answer:
    """Who holds a lock. A read that fails has changed nothing: nor has the op that begins with it."""
    try:
        return await session.read(_register(name))
    except IndefiniteError as error:
        raise DefiniteError(str(error)) from error


def _register(name: str) -> str:
    return f"lock {name}"


def _state(owner: int | None, token: int) -> list[int | None]:
    return [owner, token]


def _parts(state: Any) -> tuple[int | None, int]:
    holder, token = cast("tuple[int | None, int]", state)
    return holder, token
