"""The state machine of the coordinator's group; its tree stays empty."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Self

import msgspec

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.machine import MachineEffect, WithEffects
from splitbrain.cluster.machinestore import HASH_BYTES, MachineStore
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.streams import commands
from splitbrain.cluster.streams.coordinator import Coordinator
from splitbrain.cluster.streams.state import State, decode_state, encode_state
from splitbrain.cluster.tree import NO_FUNCTIONS, Functions, InSlices, InvalidCommand, Result, Value

STREAMS: Final = "streams"
"""The question to which all streams are the answer (`splitbrain.cluster.streams.state.State`)."""


class _Dump(msgspec.Struct, frozen=True, array_like=True):
    applied_index: int
    chain: bytes
    machine: int
    state: bytes


class StreamStore(MachineStore):
    """What a node has applied of the coordinator.

    Args are those of `Store`.
    """

    QUESTION = STREAMS

    def __init__(self, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS) -> None:
        super().__init__(node, bugs, functions)
        self._coordinator = Coordinator(State(), bugs)

    @property
    def state(self) -> State:
        """All streams; only to be looked at."""
        return self._coordinator.state

    def _command(self, entry: Entry) -> Result | WithEffects:
        found = commands.decode(entry.data)
        if isinstance(found, str):
            return InvalidCommand(found)
        answered, effects = self._coordinator.apply(entry.index, *found)
        return WithEffects(Value(commands.encode(answered)), tuple(effects))

    def begin_leading(self) -> Sequence[MachineEffect]:
        """Timers and monitors anew."""
        return self._coordinator.begin_leading()

    def _answer(self) -> Result:
        return Value(encode_state(self.state))

    @property
    def state_hash(self) -> str:
        """32 hexadecimal digits; equal for equal states."""
        return blake2b(encode_state(self.state), digest_size=HASH_BYTES).hexdigest()

    def _dump(self, index: int) -> bytes:
        return msgspec.msgpack.encode(_Dump(index, self._chain, self.version, encode_state(self.state)))

    @classmethod
    def load_in_slices(
        cls, data: bytes, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS
    ) -> InSlices[Self]:
        """The store whose `dump` this is, without pauses.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        yield from ()
        dump = msgspec.msgpack.decode(data, type=_Dump)
        store = cls._empty_at((dump.applied_index, dump.chain), dump.machine, node, bugs, functions)
        store._coordinator = Coordinator(decode_state(dump.state), bugs)
        return store
