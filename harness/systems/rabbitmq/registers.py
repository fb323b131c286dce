"""Registers in RabbitMQ's store of metadata: global parameters, as the process in a node's VM sets and reads them.

With Khepri a conditional change is one command of the store (`rabbit_khepri:create` and `cas`), with Mnesia a
transaction that has a lock. One connection to one process of a node is one session: after a restart a node may answer
from an older state.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from splitbrain.harness.contract.read_modes import READ, READ_LOCAL, ReadPromise
from splitbrain.harness.contract.sessions import Answer, DefiniteError, NonsenseError
from splitbrain.harness.systems.rabbitmq.probe import Asked
from splitbrain.results.values import NOT_JSON

READS: Final = {
    READ: ReadPromise(
        line="with Khepri the leader, which asks a majority; with Mnesia the node of the client, in a transaction",
        linearizable="always",
        follows=("write", READ, READ_LOCAL),
        needs_quorum=True,
    ),
    READ_LOCAL: ReadPromise(line="the node of the client, from its own copy", follows=(READ_LOCAL,)),
}

_HOW: Final = {READ: "consistent", READ_LOCAL: "local"}


class RabbitmqRegisters:
    """Registers, as one session works on them.

    Args:
        probe: of the node, on one connection.
        how: plain reads are "local" or "consistent".
    """

    def __init__(self, probe: Asked, how: str) -> None:
        self._probe = probe
        self._how = how

    async def read(self, key: str) -> Answer:
        """The value of a register, None if it was never set."""
        return Answer(await self._value(key, self._how))

    async def read_as(self, key: str, f: str) -> Answer:
        """The same as function `f` promises.

        Raises:
            DefiniteError: there is no such read.
        """
        if f not in _HOW:
            raise DefiniteError(f"RabbitMQ has no read {f!r}")
        return Answer(await self._value(key, _HOW[f]))

    async def write(self, key: str, value: Any) -> Answer:
        """Set a register."""
        await self._probe.change(f"put {key} {_word(value)}")
        return Answer(value)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a register if it has the value that is expected; whether it had."""
        return Answer(await self._probe.change(f"swap {key} {_word(expected)} {_word(value)}"))

    async def create(self, key: str, value: Any) -> Answer:
        """Set a register if it was never set; whether that was so."""
        return Answer(await self._probe.change(f"create {key} {_word(value)}"))

    def close(self) -> None:
        """Drop the connection."""
        self._probe.close()

    async def _value(self, key: str, how: str) -> Any:
        found = await self._probe.request(f"register {key} {how}", list[str])
        if not found:
            return None
        try:
            return msgspec.json.decode(bytes.fromhex(found[0]))
        except (*NOT_JSON, ValueError) as error:
            raise NonsenseError(f"register {key} has a value that no client wrote: {found[0][:40]!r}") from error


def _word(value: Any) -> str:
    """A value as one word."""
    return msgspec.json.encode(value).hex()
