"""Registers, sets and locks on Redis, through one connection to one node.

A register is a key, a set is a set of Redis. What has more than one step is a script, which a server executes as one
command; the line in front of it makes a replica refuse the whole of it, and not only its writes.

A lock is the key that `SET key owner NX PX time` makes, as the manual's page on SET recommends for one server. That has
no fencing token; here the same script also increments a number that is never deleted. So the token has the promise of
all that a primary acknowledges, and no other: a failover may lose the lock, its token, or both. The lock's time is
longer than any run, so that none is lost because its time ran out.

In the read mode "linearizable" only a primary answers reads: it says in the same transaction (`MULTI`) what it is. A
primary that was superseded and does not know it answers as well. In "serializable" a replica answers from what it has.
"""

from __future__ import annotations

from typing import Any, Final

import hiredis
import msgspec

from splitbrain.harness.contract.sessions import Answer, IndefiniteError, StandbyError
from splitbrain.harness.systems.redis.connection import Command, Connection

LOCK_MS: Final = 10_000_000_000
"""Longer than the longest test (`TIME_MAX_S`)."""

WAIT_MS: Final = 1000
"""How long a write waits for replicas: shorter than the usual op timeout, so that the node can say that it gave up."""

_WRITING: Final = "#!lua\n"

COMPARE_AND_SET: Final = _WRITING + (
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[2]) return 1"
)
LOCK: Final = _WRITING + (
    "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end "
    "return redis.call('INCR', KEYS[2])"
)
UNLOCK: Final = _WRITING + (
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])"
)


class RedisSession:
    """One client's connection to one node.

    Args:
        connection: to the node.
        replicas: how many of them must have a write before it counts as acknowledged (`WAIT`).
        alone: let a replica answer reads.
    """

    def __init__(self, connection: Connection, *, replicas: int = 0, alone: bool = False) -> None:
        self._connection = connection
        self._replicas = replicas
        self._alone = alone

    async def read(self, key: str) -> Answer:
        """The value of a register, None if there is none."""
        found = await self._read("GET", _register(key))
        return Answer(None if found is None else msgspec.json.decode(found))

    async def write(self, key: str, value: Any) -> Answer:
        """Set a register unconditionally."""
        await self._change("SET", _register(key), msgspec.json.encode(value))
        return Answer(value)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a register if it holds `expected`; whether it did."""
        values = (msgspec.json.encode(expected), msgspec.json.encode(value))
        return Answer(bool(await self._change("EVAL", COMPARE_AND_SET, 1, _register(key), *values)))

    async def create(self, key: str, value: Any) -> Answer:
        """Set a register if it does not exist; whether this call did."""
        return Answer(await self._change("SET", _register(key), msgspec.json.encode(value), "NX") is not None)

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a set; one that is there already stays there."""
        await self._change("SADD", f"set:{collection}", element)
        return Answer(element)

    async def elements(self, collection: str) -> Answer:
        """All elements of a set, in ascending order."""
        return Answer(sorted(int(each) for each in await self._read("SMEMBERS", f"set:{collection}")))

    async def lock(self, name: str, owner: int) -> Answer:
        """Take a lock if it is free: the fencing token, None if it is held."""
        return Answer(await self._change("EVAL", LOCK, 2, f"lock:{name}", f"token:{name}", owner, LOCK_MS))

    async def unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; whether `owner` held it."""
        return Answer(bool(await self._change("EVAL", UNLOCK, 1, f"lock:{name}", owner)))

    async def close(self) -> None:
        """Drop the connection. Locks stay as they are."""
        self._connection.close()

    async def _change(self, *command: str | bytes | int) -> Any:
        """The answer to a command that changes something, once enough replicas have what it changed.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: its outcome is unknown, or too few replicas have it.
        """
        wait: tuple[Command, ...] = (("WAIT", self._replicas, WAIT_MS),) if self._replicas else ()
        answer, *waited = await self._connection.exchange(command, *wait, changes=True)
        done = self._connection.checked(answer, changes=True)
        for have in waited:
            if isinstance(have, hiredis.ReplyError):  # whatever refused to wait: what comes before it is done
                raise IndefiniteError(f"WAIT: {have}")
            if have < self._replicas:
                raise IndefiniteError(f"{have} of {self._replicas} replicas had it after {WAIT_MS} ms")
        return done

    async def _read(self, *command: str) -> Any:
        if self._alone:
            return await self._connection.ask(*command, changes=False)
        *_, answer = await self._connection.exchange(("MULTI",), ("ROLE",), command, ("EXEC",), changes=False)
        role, found = self._connection.checked(answer, changes=False)
        if role[0] != b"master":
            raise StandbyError("the node is a replica")
        return self._connection.checked(found, changes=False)


def _register(key: str) -> str:
    return f"register:{key}"
