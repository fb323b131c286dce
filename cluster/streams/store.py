"""The state machine of the coordinator's group; its tree stays empty."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Self

import msgspec

from splitbrain.cluster.bugs import M37, NO_BUGS, Bugs
from splitbrain.cluster.chain import chained
from splitbrain.cluster.machine import MachineEffect, WithEffects
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.messages import OLDEST
from splitbrain.cluster.store import Store
from splitbrain.cluster.streams import commands
from splitbrain.cluster.streams.coordinator import Coordinator
from splitbrain.cluster.streams.state import State, decode_state, encode_state
from splitbrain.cluster.tree import (
    NO_FUNCTIONS,
    AskMachine,
    Functions,
    InSlices,
    InvalidCommand,
    Query,
    Result,
    Value,
)

STREAMS: Final = "streams"
"""The question to which all streams are the answer (`splitbrain.cluster.streams.state.State`)."""

_HASH_BYTES: Final = 16


class _Dump(msgspec.Struct, frozen=True, array_like=True):
    applied_index: int
    chain: bytes
    machine: int
    state: bytes


class StreamStore(Store):
    """What a node has applied of the coordinator.

    Args are those of `Store`.
    """

    def __init__(self, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS) -> None:
        super().__init__(node, bugs, functions)
        self._coordinator = Coordinator(State(), bugs)

    @property
    def state(self) -> State:
        """All streams; only to be looked at."""
        return self._coordinator.state

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        """Apply the next entry."""
        if entry.kind != "command":
            return super().apply(entry)
        assert entry.index == self.applied_index + 1, f"entry {entry.index} applied after {self.applied_index}"
        self._chain = chained(self._chain, entry)
        self.applied_index = entry.index
        found = commands.decode(entry.data)
        if isinstance(found, str):
            return InvalidCommand(found)
        answered, effects = self._coordinator.apply(entry.index, *found)
        return WithEffects(Value(commands.encode(answered)), tuple(effects))

    def begin_leading(self) -> Sequence[MachineEffect]:
        """Timers and monitors anew."""
        return self._coordinator.begin_leading()

    def query(self, query: Query) -> Result:
        """Say what there is of streams; there is no tree."""
        if not isinstance(query, AskMachine):
            return super().query(query)
        if query.question != STREAMS:
            return InvalidCommand(f"the coordinator is asked for {STREAMS!r}, not {query.question!r}")
        return Value(encode_state(self.state))

    def query_in_slices(self, query: Query) -> InSlices[Result]:
        """The same, without pauses."""
        yield from ()
        return self.query(query)

    @property
    def state_hash(self) -> str:
        """32 hexadecimal digits; equal for equal states."""
        return blake2b(encode_state(self.state), digest_size=_HASH_BYTES).hexdigest()

    def dump_in_slices(self) -> InSlices[bytes]:
        """All of it, without pauses."""
        yield from ()
        index = self.applied_index - 1 if M37 in self._bugs else self.applied_index
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
        store = cls(node, bugs, functions)
        store.applied_index, store._chain = dump.applied_index, dump.chain
        if dump.machine > OLDEST:
            store._change_version(OLDEST, dump.machine)
        store._coordinator = Coordinator(decode_state(dump.state), bugs)
        return store
