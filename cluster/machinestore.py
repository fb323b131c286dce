"""What the stores of groups with a state machine of their own have in common: queues, and the coordinator of streams.

A command stands in such a log with the time at which its leader took it. The tree of such a store stays empty.
"""

from __future__ import annotations

from typing import Final, Self, TypeVar

import msgspec

from splitbrain.cluster.bugs import M37, NO_BUGS, Bugs
from splitbrain.cluster.chain import chained
from splitbrain.cluster.machine import WithEffects
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.messages import OLDEST
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import NO_FUNCTIONS, AskMachine, Functions, InSlices, InvalidCommand, Query, Result

HASH_BYTES: Final = 16
"""Of a hash over a state."""

T = TypeVar("T")


class _Stamped(msgspec.Struct, frozen=True, array_like=True):
    now: int
    command: msgspec.Raw


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_Stamped] = msgspec.msgpack.Decoder(_Stamped)


def stamped(command: bytes, now: int) -> bytes:
    """What stands in the log: the command, and the time, in ms since the Unix epoch."""
    return _encoder.encode(_Stamped(now, msgspec.Raw(command)))


def command_in(data: bytes) -> bytes:
    """The command in what stands in the log.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return bytes(_decoder.decode(data).command)


def decode_stamped(data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> tuple[int, T] | str:
    """Time and command that stand in the log, or why they make no sense; `decoder` is that of the commands."""
    try:
        found = _decoder.decode(data)
        return found.now, decoder.decode(found.command)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return str(error)


class MachineStore(Store):
    """A store whose commands are those of another state machine than the tree, and whose questions are one.

    Args are those of `Store`.
    """

    QUESTION: str
    """The one question that the machine answers."""

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        """Apply the next entry."""
        if entry.kind != "command":
            return super().apply(entry)
        assert entry.index == self.applied_index + 1, f"entry {entry.index} applied after {self.applied_index}"
        self._chain = chained(self._chain, entry)
        self.applied_index = entry.index
        return self._command(entry)

    def _command(self, entry: Entry) -> Result | WithEffects:
        """Have the machine carry out the command of an entry."""
        raise NotImplementedError

    def query(self, query: Query) -> Result:
        """Answer the machine's question; there is no tree."""
        if not isinstance(query, AskMachine):
            return super().query(query)
        if query.question != self.QUESTION:
            return InvalidCommand(f"this group is asked for {self.QUESTION!r}, not {query.question!r}")
        return self._answer()

    def _answer(self) -> Result:
        """The answer to the machine's question."""
        raise NotImplementedError

    def query_in_slices(self, query: Query) -> InSlices[Result]:
        """The same, without pauses."""
        yield from ()
        return self.query(query)

    def dump_in_slices(self) -> InSlices[bytes]:
        """All of it, without pauses."""
        yield from ()
        return self._dump(self.applied_index - 1 if M37 in self._bugs else self.applied_index)

    def _dump(self, index: int) -> bytes:
        """All of it, as applied up to an index."""
        raise NotImplementedError

    @classmethod
    def _empty_at(
        cls,
        applied: tuple[int, bytes],
        version: int,
        node: str = "",
        bugs: Bugs = NO_BUGS,
        functions: Functions = NO_FUNCTIONS,
    ) -> Self:
        """A store that has applied entries up to an index, with the hash chain up to there, and has no state yet."""
        store = cls(node, bugs, functions)
        store.applied_index, store._chain = applied
        if version > OLDEST:
            store._change_version(OLDEST, version)
        return store
