"""Results of commands that a client may send more than once: a command with a ref is carried out once only (KH-9).

A client numbers its commands; its name and a number are a ref. The state keeps the result for each ref, and a command
that comes again is answered with it. With every ref the client says up to which number it needs no result any more:
that is the acknowledgement of KH-9, without a command of its own. Of those the table keeps only the number, so that a
copy that a slow network still carries is refused, and not carried out.

Nothing here looks at a clock, as every member must apply the same. The record of a client that is silent for long is
dropped by a command: the leader proposes it (`splitbrain.cluster.expiry`), and it names what to drop. Khepri compares
an expiry that the client took from its own clock with the clock of the leader; here a ref says how long it is kept,
and the leader measures that on its monotonic clock, from when it saw the record used last. So a clock that is wrong
makes no record go too early, and a change of leader only makes it go later.

The table is bounded: where it is full, a command of a new client is refused, and no promise is broken for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from splitbrain.cluster.bugs import M32C, NO_BUGS, Bugs
from splitbrain.cluster.marks import reached
from splitbrain.cluster.tree import HASH_MASK, Command, Forgotten, InvalidCommand, Result, RunTriggered, TooManyRefs

KEEP_MS: Final = 15 * 60 * 1000
"""How long a ref is kept after its client's last protected command, if the client does not say (KH-9)."""

MAX_KEEP_MS: Final = 60 * 60 * 1000

MAX_CLIENTS: Final = 1024
MAX_OPEN: Final = 64
"""Results of one client that it may still need."""

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of all results that are kept."""

MAX_CLIENT_LENGTH: Final = 64
MAX_NUMBER: Final = 2**63 - 1

_HASH_BYTES: Final = 16


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """What a command is known by, however often it is sent.

    Attributes:
        client: a name that no other client of the cluster uses or will use, of 1 to `MAX_CLIENT_LENGTH` characters.
        number: of the command, 1 or more; rises from command to command of the client.
        needed: results below this number are not needed any more, and none of these commands is sent again.
        keep_ms: how long the results are kept at least, after the client's last command that carries a ref.
    """

    client: str
    number: int
    needed: int
    keep_ms: int = KEEP_MS


class Protected(msgspec.Struct, frozen=True, array_like=True, tag="protected"):
    """A command that is carried out once, however often it is in the log."""

    ref: Ref
    command: Command


class DropRefs(msgspec.Struct, frozen=True, array_like=True, tag="drop_refs"):
    """Forget clients. Of the leader only.

    Attributes:
        records: names, each with the index of the entry that last changed its record: one that changed since stays.
    """

    records: tuple[tuple[str, int], ...]


LogCommand: TypeAlias = Command | Protected | DropRefs | RunTriggered
"""What stands in the log."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[LogCommand] = msgspec.msgpack.Decoder(LogCommand)
_result_decoder: msgspec.msgpack.Decoder[Result] = msgspec.msgpack.Decoder(Result)
_Content: TypeAlias = tuple[str, int, int, int, list[tuple[int, bytes]]]
_dump_decoder = msgspec.msgpack.Decoder(list[_Content])


def decode_command(data: bytes) -> LogCommand | InvalidCommand:
    """The command that stands in the log, or why it is none of this version."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return InvalidCommand(str(error))
    except RecursionError:  # such deep nesting is refused in any case, also where the stack allows it
        return InvalidCommand("it is nested too deeply")


class _Record:
    """What is known of one client. `hash` is its share of the table's hash."""

    __slots__ = ("changed", "client", "hash", "keep_ms", "needed", "results")

    def __init__(self, client: str) -> None:
        self.client = client
        self.needed = 0
        self.keep_ms = 0
        self.changed = 0
        self.results: dict[int, bytes] = {}
        self.hash = 0

    def content(self) -> _Content:
        return self.client, self.needed, self.keep_ms, self.changed, sorted(self.results.items())


class Table:
    """The results by ref: a part of the state, and a pure state machine.

    Attributes:
        hash: the sum, modulo 2**128, of a hash for every client (as of the tree).
    """

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self.hash: int = 0
        self._all_are_one = M32C in bugs
        self._records: dict[str, _Record] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """The number of clients."""
        return len(self._records)

    def answer(self, ref: Ref) -> Result | None:
        """What a command with this ref is answered with; None if it is to be carried out."""
        record = self._records.get(self._key(ref))
        if record is None:
            return TooManyRefs(f"{MAX_CLIENTS} clients") if len(self._records) >= MAX_CLIENTS else self._room()
        result = record.results.get(ref.number)
        if result is not None:
            reached("protected command came again")
            return _result_decoder.decode(result)
        if ref.number < record.needed:
            reached("late copy of a protected command refused")
            return Forgotten(ref.number)
        done_with = [result for number, result in record.results.items() if number < ref.needed]
        if len(record.results) - len(done_with) >= MAX_OPEN:
            return TooManyRefs(f"{MAX_OPEN} of one client")
        return self._room(sum(map(len, done_with)))

    def keep(self, ref: Ref, result: Result, index: int) -> None:
        """Remember the result of the command with this ref, carried out by the entry at an index."""
        key = self._key(ref)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record(key)
        record.needed = max(record.needed, ref.needed)
        for number in [number for number in record.results if number < record.needed]:
            self._bytes -= len(record.results.pop(number))
        encoded = record.results[ref.number] = _encoder.encode(result)
        self._bytes += len(encoded)
        record.keep_ms, record.changed = ref.keep_ms, index
        self._count(record)

    def drop(self, records: tuple[tuple[str, int], ...]) -> None:
        """Forget these clients, if the entry at the index given is the last that changed what is known of them."""
        for client, changed in records:
            record = self._records.get(client)
            if record is not None and record.changed == changed:
                reached("record of a silent client dropped")
                del self._records[client]
                self._bytes -= sum(map(len, record.results.values()))
                self.hash = (self.hash - record.hash) & HASH_MASK

    def ages(self) -> Iterator[tuple[str, int, int]]:
        """Of each client its name, the index of the entry that last changed its record, and its `keep_ms`."""
        return ((record.client, record.changed, record.keep_ms) for record in self._records.values())

    def dump(self) -> bytes:
        """All of the table; equal bytes for equal tables."""
        return _encoder.encode([self._records[client].content() for client in sorted(self._records)])

    @classmethod
    def load(cls, data: bytes, bugs: Bugs = NO_BUGS) -> Table:
        """The table whose `dump` this is.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        table = cls(bugs)
        for client, needed, keep_ms, changed, results in _dump_decoder.decode(data):
            record = table._records[client] = _Record(client)
            record.needed, record.keep_ms, record.changed, record.results = needed, keep_ms, changed, dict(results)
            table._bytes += sum(map(len, record.results.values()))
            table._count(record)
        return table

    def _key(self, ref: Ref) -> str:
        return ref.client if not self._all_are_one else ""

    def _room(self, freed: int = 0) -> TooManyRefs | None:
        """Why there is no room once so many bytes are given up, None if there is."""
        return None if self._bytes - freed < MAX_BYTES else TooManyRefs(f"{MAX_BYTES} bytes")

    def _count(self, record: _Record) -> None:
        content = _encoder.encode(record.content())
        share = int.from_bytes(blake2b(content, digest_size=_HASH_BYTES, person=b"refs").digest(), "big")
        self.hash = (self.hash - record.hash + share) & HASH_MASK
        record.hash = share


def ref_problem(ref: Ref) -> str | None:
    """What is wrong with a ref, None if it is in order."""
    if not 0 < len(ref.client) <= MAX_CLIENT_LENGTH:
        return f"the client of a ref has 1 to {MAX_CLIENT_LENGTH} characters"
    if not 0 < ref.needed <= ref.number <= MAX_NUMBER:
        return "the numbers of a ref are whole, from 1 on, and no result above its own is done with"
    if not 0 < ref.keep_ms <= MAX_KEEP_MS:
        return f"a ref is kept for 1 to {MAX_KEEP_MS} ms"
    return None
