"""What a client may ask of a node, by groups of operations, and how a node refuses.

Operations of message brokers are in `splitbrain.harness.contract.brokers`, the groups by name in
`splitbrain.harness.contract.operations`. A session has the operations of some groups: a system says which
(`Capabilities.operations`), and a workload says which groups its clients need (`Workload.needs`). So a new group is
one protocol and one value, and no system has to fill it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from splitbrain.results.nonsense import NONSENSE
from splitbrain.results.standbys import STANDBY


class DefiniteError(Exception):
    """The op certainly did not happen, and never will. Recorded as `fail`."""


class StandbyError(DefiniteError):
    """The node does not lead, and only the one that leads does this (`Capabilities.standbys`).

    Recorded as `fail` with an error that begins so that coverage knows it: the node answers, but the system did not.
    """

    def __init__(self, words: str) -> None:
        super().__init__(f"{STANDBY}{words}")


class IndefiniteError(Exception):
    """The outcome of the op is unknown. Recorded as `info`, like every exception that is not a DefiniteError."""


class NonsenseError(IndefiniteError):
    """The node answered, but with what cannot be the answer to what was asked.

    Recorded as `info` with an error that begins so that the checker `answers` knows it. Sessions raise it for replies
    that they cannot read; what they can read is checked by the harness (`splitbrain.harness.contract.answers`).
    """

    def __init__(self, words: str) -> None:
        """What was asked, what came and what was expected, in words."""
        super().__init__(f"{NONSENSE}{words}")


Mop: TypeAlias = list[Any]
"""One read or write of a transaction: its function, key and value."""

Change: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""What a transaction writes after what it read, by key; None to abort."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of a node, and its term, if the system reports it."""

    value: Any = None
    term: int | None = None


class Session(Protocol):
    """A connection of one client to one node; it neither redirects nor fails over.

    Every operation raises DefiniteError where the system refused, and IndefiniteError (or anything else) where the
    outcome is unknown.
    """

    async def close(self) -> None:
        """Drop the connection."""
        ...


class CreatedKeys(Session, Protocol):
    """Keys that are created once, each with a value. Keys are strings without slashes; values are whole numbers."""

    async def read(self, key: str) -> Answer:
        """The value of a key, None if there is none; linearizable."""
        ...

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; the answer's value is whether this call created it."""
        ...


class KeyValue(CreatedKeys, Protocol):
    """Registers by key. Keys are strings without slashes; values are what JSON can carry."""

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        ...

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; the answer's value is whether it did. A missing key matches nothing."""
        ...


class ReadModes(KeyValue, Protocol):
    """Registers that one session reads in several modes: those of `Capabilities.session_reads`."""

    async def read_as(self, key: str, f: str) -> Answer:
        """The value of a key, None if there is none, read as function `f` promises (`read-local`)."""
        ...


class FencedReads(ReadModes, Protocol):
    """The same, of a system that has the mode `read-fenced`."""


class Collections(Session, Protocol):
    """Sets of whole numbers that only grow."""

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection."""
        ...

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, a list of whole numbers; linearizable."""
        ...


class Counters(Session, Protocol):
    """Whole numbers to which amounts are added; each is 0 at first."""

    async def increment(self, counter: str, by: int) -> Answer:
        """Add to a counter; the answer's value is the sum afterwards.

        An increment counts once. A session may send one again while its time lasts, if the system then knows it again.
        """
        ...

    async def read_counter(self, counter: str) -> Answer:
        """The value of a counter, None if nothing was ever added; linearizable."""
        ...


class Triggers(Counters, Protocol):
    """Counters of which each change triggers two procedures, which write down that they ran: "first" and "second"."""

    async def prepare_triggers(self) -> Answer:
        """Have what is changed from now on trigger them; no error where that is so already.

        Raises:
            DefiniteError: it may not be so.
        """
        ...

    async def read_runs(self, counter: str, at_rest: bool) -> Answer:
        """What the changes of a counter have triggered so far; linearizable.

        Args:
            counter: its name.
            at_rest: ask again while something is to be run, and the time of the session lasts.

        Returns:
            A dict. "changes": how often the counter has changed. "runs": in their order `[event, trigger, changes]`:
            the number of the event, "first" or "second", and the changes that the procedure saw. Of each change
            "first" has to run before "second". An event may be run again, by its number.
        """
        ...


class Trees(Session, Protocol):
    """Small trees of named nodes with payloads and versions, each by a name of its own."""

    async def in_tree(self, tree: str, f: str, value: Any) -> Answer:
        """Carry out an op of the model `tree` (`splitbrain.checkers.models.trees`); its result."""
        ...


class ProjectedRecords(Session, Protocol):
    """Records with a key and a whole number, which every node answers from a table of its own."""

    async def write_record(self, key: str, value: int) -> Answer:
        """Set a record; this node has it when it is acknowledged."""
        ...

    async def look_up(self, key: str) -> Answer:
        """The value of a record as this node has it, None if it has none; maybe old. Refused if it does not know."""
        ...

    async def come_and_go(self, key: str, value: int) -> Answer:
        """Make a record of a key that no other op uses, which goes with what keeps it; the answer's value is what this
        node had of it then, and afterwards."""
        ...

    async def differing_records(self) -> Answer:
        """The keys of which this node's records are not what the system holds, at rest."""
        ...


class Locks(Session, Protocol):
    """Locks that are held until they are given back. A lock is free until it is taken; no client waits for one."""

    async def lock(self, name: str, owner: int) -> Answer:
        """Take a lock if it is free; the answer's value is its fencing token, None if the lock is held.

        Tokens of one lock are whole numbers that grow from each owner to the next (the fencing of Kleppmann's "How to
        do distributed locking", 2016; Chubby's sequencers).
        """
        ...

    async def unlock(self, name: str, owner: int) -> Answer:
        """Release a lock; the answer's value is whether `owner` held it."""
        ...


class LeaseLocks(Session, Protocol):
    """Locks that stand on short leases. A session keeps its lease alive until it is closed."""

    async def lease_lock(self, name: str, owner: int, lease_s: int) -> Answer:
        """Acquire a lock with a lease (in seconds) if it is free; a fencing token, None if the lock is held."""
        ...

    def lease_holds(self, name: str) -> bool:
        """Whether this client believes that it holds the lock. It asks no node: it uses the answers so far."""
        ...

    async def lease_unlock(self, name: str, owner: int) -> Answer:
        """Release a lock; the answer's value is whether it was still held.

        A client that knows that its lease has expired asks no node.
        """
        ...


class Transactions(Session, Protocol):
    """Transactions over registers and lists of whole numbers by key, which are kept apart from all other keys.

    A transaction that was refused or aborted is a DefiniteError: nothing of it is ever seen.
    """

    async def transact(self, mops: Sequence[Mop]) -> Answer:
        """Do these reads and writes in this order as one transaction; the answer's value is the mops with their reads.

        Args:
            mops: `["r", key, None]`, `["w", key, value]` or `["append", key, element]`. A read gives a register's value
                or a list, None if there is neither; a key is one of both for the length of a test.
        """
        ...

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        """Read registers, and write what follows from them, in one transaction; the answer's value is what was read.

        Args:
            keys: of the registers that are read.
            change: a pure function of their values by key, None for one that does not exist. It gives what to write by
                key, or None to abort. It may be called again if the transaction is tried again.
        """
        ...


class Predicates(Session, Protocol):
    """Transactions over the objects of universes, apart from all other keys, with reads of all that match a predicate.

    An object is a whole number from 0 on by key, in one universe; it need not be there.
    """

    async def in_universe(self, universe: str, steps: Sequence[Mop]) -> Answer:
        """Do these in this order as one transaction; the answer's value is the steps with what they read.

        Args:
            universe: its name.
            steps: `["r", key, None]`, which gives a value, None if there is no such object; `["rp", predicate, None]`,
                which gives a mapping from keys to values of all objects that match; `["insert", key, value]`, `["w",
                key, value]`, `["delete", key, None]`. A predicate is "true", `["=", value]` or `["mod", divisor,
                rest]`.
        """
        ...


FLAGS_MAX: Final = 900


def flag_count(time_limit_s: float) -> int:
    """How many feature flags a system knows in a test of this length: two a second, as each is enabled only once."""
    return min(FLAGS_MAX, max(8, math.ceil(2 * time_limit_s)))


class FeatureFlags(Session, Protocol):
    """Feature flags, numbered from 1 to `flag_count`: each is enabled on all nodes or on none, and never disabled."""

    async def enable_flag(self, number: int) -> Answer:
        """Have a flag enabled on all nodes, after those that it depends on; returns when it is."""
        ...

    async def list_flags(self) -> Answer:
        """What the node of this session reports, by itself.

        Returns:
            A dict. "enabled" and "changing": the flags that are so there, sorted. "needs": of each flag that depends
            on others a list of itself and those.

        Raises:
            DefiniteError: the node has not joined completely.
        """
        ...


class Formation(Session, Protocol):
    """Nodes that find each other, and form a cluster."""

    async def formed(self) -> Answer:
        """What the node of this session says of the cluster that it is in, or looks for.

        Returns:
            A dict. "phase": "looks", or "done" once it looks no more. "founded": whether it founded the cluster.
            "members": the names of its members, sorted; none if the node is in no cluster. "problem": why it was in
            none after its last attempt.
        """
        ...
