"""Locks where there is only compare-and-set."""

from __future__ import annotations

from typing import Any, cast

from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError, KeyValue


class CompareAndSetLocks:
    """Locks for a session that has registers: a register holds the owner, null if there is none, and the last token."""

    async def lock(self: KeyValue, name: str, owner: int) -> Answer:
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

    async def unlock(self: KeyValue, name: str, owner: int) -> Answer:
        """Give a lock back; whether `owner` held it."""
        found = await _held(self, name)
        holder, token = (None, 0) if found.value is None else _parts(found.value)
        if holder != owner:
            return Answer(False, found.term)
        return await self.compare_and_set(_register(name), found.value, _state(None, token))


async def _held(session: KeyValue, name: str) -> Answer:
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
