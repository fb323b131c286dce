"""Commands that change the tree, queries that look at it, and their results: what stands in the log and on the wire.

The plain ones are those of version 1 of the state machine: they name one node by its path. The others (from version 3
on) take patterns with conditions, and options. All of it is data: of a transaction the log has a function's name and
version, never code (D13).
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.tree.conditions import Component
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.patterns import Pattern
from splitbrain.cluster.tree.payloads import Payload, Properties

# --- commands -----------------------------------------------------------------------------------------------------


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """Set the payload of a node, which is created, with its missing parents, if there is none (KH-4)."""

    path: Path
    payload: bytes | None


class Create(msgspec.Struct, frozen=True, array_like=True, tag="create"):
    """Put, on condition that the node does not exist."""

    path: Path
    payload: bytes | None


class Update(msgspec.Struct, frozen=True, array_like=True, tag="update"):
    """Put, on condition that the node exists."""

    path: Path
    payload: bytes | None


class CompareAndSwap(msgspec.Struct, frozen=True, array_like=True, tag="cas"):
    """Put, on condition that the node exists and has exactly the payload `expected`."""

    path: Path
    expected: bytes
    payload: bytes | None


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Remove a node and everything below it; explicit parents stay. No error if there is none.

    Of the root, which always exists, the payload and the children are removed.
    """

    path: Path


class Increment(msgspec.Struct, frozen=True, array_like=True, tag="increment"):
    """Add to the payload of a node, a whole number in msgpack; a missing node counts as 0, and is created."""

    path: Path
    by: int


Property: TypeAlias = Literal[
    "payload", "payload_version", "child_list_version", "child_list_length", "delete_reason", "child_names"
]
"""What an answer may say of a node."""

DEFAULT_PROPERTIES: Final[tuple[Property, ...]] = ("payload", "payload_version", "delete_reason")


class KeepWhile(msgspec.Struct, frozen=True, array_like=True):
    """A node is kept while a condition holds of what a path matches, and removed by the command that ends that (KH-7).

    The path may be relative to the node that is kept: `.` is the node itself. If it matches several nodes, the
    condition has to hold of all; if it matches none, it holds only if it asks for a node that does not exist.
    """

    path: Pattern
    condition: Component


class PutNodes(msgspec.Struct, frozen=True, array_like=True, tag="put_nodes"):
    """Set the payload of the nodes that a pattern matches, or of one that it names, which is created if need be (KH-4).

    Attributes:
        path: the last component may have conditions, e.g. that the node exists; so may those on the way.
        payload: None for none.
        many: whether the pattern may match several nodes; else one that could is refused (KH-5).
        keep_while: replaces what the nodes were kept by; None leaves it.
        returns: what the answer says of each node; None: only how many there were.
        indirect: whether the answer has nodes that were removed since nothing kept them any more.
    """

    path: Pattern
    payload: Payload
    many: bool = False
    keep_while: tuple[KeepWhile, ...] | None = None
    returns: tuple[Property, ...] | None = None
    indirect: bool = True


class ClearNodes(msgspec.Struct, frozen=True, array_like=True, tag="clear_nodes"):
    """Remove the payload of the nodes that a pattern matches; no error if there is none. See `PutNodes`."""

    path: Pattern
    many: bool = False
    keep_while: tuple[KeepWhile, ...] | None = None
    returns: tuple[Property, ...] | None = None
    indirect: bool = True


class DeleteNodes(msgspec.Struct, frozen=True, array_like=True, tag="delete_nodes"):
    """Remove the nodes that a pattern matches, and all below them; no error if there is none. See `PutNodes`."""

    path: Pattern
    many: bool = False
    returns: tuple[Property, ...] | None = None
    indirect: bool = True


class Transact(msgspec.Struct, frozen=True, array_like=True, tag="transact"):
    """Carry out a registered function as a transaction that may write (KH-8, D13).

    Attributes:
        function: its name.
        version: its version.
        data: what it is given, in msgpack.
    """

    function: str
    version: int
    data: bytes


class TransactStored(msgspec.Struct, frozen=True, array_like=True, tag="transact_stored"):
    """Carry out the stored procedure at a path as a transaction that may write, with these arguments in msgpack."""

    path: Pattern
    data: bytes


Action: TypeAlias = Literal["create", "update", "delete"]


class RegisterTrigger(msgspec.Struct, frozen=True, array_like=True, tag="register_trigger"):
    """Run a stored procedure after each change of a node that a pattern matches (KH-13). Replaces one of the same id.

    Attributes:
        id: of the trigger.
        path: which nodes.
        procedure: where the procedure is stored; what is stored there when it runs counts.
        on_actions: which changes; a node is updated also if its list of children changes.
        priority: of several triggers, those with a higher one run first.
    """

    id: str
    path: Pattern
    procedure: Pattern
    on_actions: tuple[Action, ...] = ("create", "update", "delete")
    priority: int = 0


class UnregisterTriggers(msgspec.Struct, frozen=True, array_like=True, tag="unregister_triggers"):
    """Forget triggers; what they are still to run is dropped. No error if there are none of these ids."""

    ids: tuple[str, ...]


class RunTriggered(msgspec.Struct, frozen=True, array_like=True, tag="run_triggered"):
    """Run what a trigger asked for, and acknowledge it. Of the leader only; without effect if that was done before."""

    number: int


ProjectionKind: TypeAlias = Literal["copy", "simple", "extended"]
TableKind: TypeAlias = Literal["set", "ordered_set", "bag"]


class RegisterProjection(msgspec.Struct, frozen=True, array_like=True, tag="register_projection"):
    """Have every member keep tables of the nodes that a pattern matches (KH-14).

    Attributes:
        name: with a version in it, as what a name stands for must never change.
        path: which nodes.
        kind: "copy": a node's data is a record. "simple": a registered function makes a record of path and data.
            "extended": a registered function changes the tables.
        function: the registered function's name and version; None for a copy.
        tables: their names with their kinds; at most eight, and one of the projection's name if none is given. A record
            is a list that begins with its key. A set has one record of a key, a bag may have several.
    """

    name: str
    path: Pattern
    kind: ProjectionKind
    function: tuple[str, int] | None = None
    tables: tuple[tuple[str, TableKind], ...] = ()


class UnregisterProjections(msgspec.Struct, frozen=True, array_like=True, tag="unregister_projections"):
    """Drop projections with their tables; None: all. The answer has their names with their paths."""

    names: tuple[str, ...] | None = None


PlainCommand: TypeAlias = Put | Create | Update | CompareAndSwap | Delete | Increment
"""Commands of versions 1 and 2."""

TreeCommand: TypeAlias = (
    PutNodes
    | ClearNodes
    | DeleteNodes
    | Transact
    | TransactStored
    | RegisterTrigger
    | UnregisterTriggers
    | RegisterProjection
    | UnregisterProjections
)
"""Commands since version 3. `RunTriggered` is another, which no client sends."""

Command: TypeAlias = (
    Put
    | Create
    | Update
    | CompareAndSwap
    | Delete
    | Increment
    | PutNodes
    | ClearNodes
    | DeleteNodes
    | Transact
    | TransactStored
    | RegisterTrigger
    | UnregisterTriggers
    | RegisterProjection
    | UnregisterProjections
)


# --- queries ------------------------------------------------------------------------------------------------------


class Get(msgspec.Struct, frozen=True, array_like=True, tag="get"):
    """Query the properties of a node."""

    path: Path


class Children(msgspec.Struct, frozen=True, array_like=True, tag="children"):
    """Query the names of a node's direct children."""

    path: Path


class Project(msgspec.Struct, frozen=True, array_like=True, tag="project"):
    """Look up the record of a node in a projection, as the member that is asked holds it."""

    projection: str
    path: Path


class GetNodes(msgspec.Struct, frozen=True, array_like=True, tag="get_nodes"):
    """Query the nodes that a pattern matches, in the order of their paths; see `PutNodes`.

    Attributes:
        path: which nodes.
        many: whether there may be several. If not, a node that is not there is an error, and one that does not meet a
            condition gives an answer without nodes (D15).
        returns: what the answer says of each node.
        include_root: whether `**` and `*` match the root, too.
    """

    path: Pattern
    many: bool = False
    returns: tuple[Property, ...] = DEFAULT_PROPERTIES
    include_root: bool = False


class CountNodes(msgspec.Struct, frozen=True, array_like=True, tag="count_nodes"):
    """Query how many nodes a pattern matches: a `Value`."""

    path: Pattern
    include_root: bool = False


class AskNode(msgspec.Struct, frozen=True, array_like=True, tag="ask_node"):
    """Query whether there is a node, or what kind of payload it has: a `Value`, false if there is none.

    Whether it exists does not depend on conditions (D15).
    """

    path: Pattern
    whether: Literal["exists", "has_data", "is_procedure"]


class TransactRead(msgspec.Struct, frozen=True, array_like=True, tag="transact_read"):
    """Carry out a registered function as a transaction that only reads (KH-8); one that writes is refused."""

    function: str
    version: int
    data: bytes


class RunProcedure(msgspec.Struct, frozen=True, array_like=True, tag="run_procedure"):
    """Run the stored procedure at a path with these arguments in msgpack; it may only read (KH-13)."""

    path: Pattern
    data: bytes


class LookUp(msgspec.Struct, frozen=True, array_like=True, tag="look_up"):
    """Look up records in a table of a registered projection, as the member that is asked holds it (KH-14, KH-15).

    Attributes:
        table: its name.
        key: in msgpack; None for all records, which are sorted by key.
    """

    table: str
    key: bytes | None = None


class Projections(msgspec.Struct, frozen=True, array_like=True, tag="projections"):
    """Query which projections are registered: a `Registered`."""


class Export(msgspec.Struct, frozen=True, array_like=True, tag="export"):
    """Query what it takes to put nodes again: a `Value` with the bytes of an export (KH-18).

    Attributes:
        path: which nodes, with all below them; None: all.
    """

    path: Pattern | None = None


class Triggered(msgspec.Struct, frozen=True, array_like=True, tag="triggered"):
    """Query which triggers are registered: a `Value` with a list of `RegisterTrigger`, by their ids."""


class AskMachine(msgspec.Struct, frozen=True, array_like=True, tag="ask_machine"):
    """Ask the state machine of a group that has no tree: a `Value` of its own. The tree answers none of these.

    Attributes:
        question: in the words of that machine.
    """

    question: str


PlainQuery: TypeAlias = Get | Children
Query: TypeAlias = (
    Get
    | Children
    | GetNodes
    | CountNodes
    | AskNode
    | TransactRead
    | RunProcedure
    | Projections
    | Export
    | Triggered
    | AskMachine
)


# --- results ------------------------------------------------------------------------------------------------------


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """The command was carried out, or the query found its node. `properties` is None where no node is left."""

    properties: Properties | None


class Names(msgspec.Struct, frozen=True, array_like=True, tag="names"):
    """Names of direct children, sorted."""

    names: tuple[str, ...]


class NodeNotFound(msgspec.Struct, frozen=True, array_like=True, tag="node_not_found"):
    """There is no node at the path."""

    path: Path


class MismatchingNode(msgspec.Struct, frozen=True, array_like=True, tag="mismatching_node"):
    """The node at the path does not meet the condition; `properties` are those of the node that was found."""

    path: Path
    properties: Properties


class ManyNodesDenied(msgspec.Struct, frozen=True, array_like=True, tag="possibly_matching_many_nodes_denied"):
    """The path is a pattern."""

    path: Path


class InvalidCommand(msgspec.Struct, frozen=True, array_like=True, tag="invalid_command"):
    """The bytes are no command of this version."""

    problem: str


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """A copy of a command came after its client had said that no copy would; it had no effect."""

    number: int


class TooManyRefs(msgspec.Struct, frozen=True, array_like=True, tag="too_many_refs"):
    """There is no room to keep the result of the command, which therefore was not carried out."""

    limit: str


class FoundNode(msgspec.Struct, frozen=True, array_like=True):
    """What an answer says of a node: what was asked for; None for what was not, or is not there.

    Of a write these are the payload before, and the versions after it.
    """

    path: Path
    payload: Payload = None
    payload_version: int | None = None
    child_list_version: int | None = None
    child_list_length: int | None = None
    delete_reason: Literal["explicit", "keep_while"] | None = None
    child_names: tuple[str, ...] | None = None


class Nodes(msgspec.Struct, frozen=True, array_like=True, tag="nodes"):
    """Nodes that a query found, or a command changed or removed, in the order of their paths.

    Attributes:
        nodes: of a command at most `MAX_RETURNED`, and none if it did not ask for them.
        count: of all of them.
    """

    nodes: tuple[FoundNode, ...]
    count: int


class Value(msgspec.Struct, frozen=True, array_like=True, tag="value"):
    """What a transaction, a procedure or a query gives, in msgpack."""

    data: bytes


class Aborted(msgspec.Struct, frozen=True, array_like=True, tag="aborted"):
    """The transaction was aborted with a reason, in msgpack; nothing of it was applied."""

    reason: bytes


class Registered(msgspec.Struct, frozen=True, array_like=True, tag="registered"):
    """Projections by name, with the patterns of their nodes."""

    projections: tuple[tuple[str, Pattern], ...]


Refusal: TypeAlias = Literal[
    "node_not_found",
    "mismatching_node",
    "keep_while_conditions_not_met",
    "possibly_matching_many_nodes_denied",
    "too_many_nodes",
    "invalid_path",
    "invalid_options",
    "denied_update_in_readonly_tx",
    "denied_execution_of_non_sproc_node",
    "unknown_function",
    "function_failed",
    "projection_already_exists",
    "unknown_projection",
    "limit_reached",
    "unavailable",
]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Nothing was done.

    Attributes:
        reason: why.
        path: of the node that is missing, or does not meet a condition; or the pattern that was refused.
        is_target: whether that node is the one that was meant, and not one on the way there.
        condition: the one that does not hold.
        found: the node.
        detail: more, in words.
        matches_nothing: the path of a condition that was to keep the node, which leads to no node.
    """

    reason: Refusal
    path: Pattern = ()
    is_target: bool = True
    condition: Component | None = None
    found: Properties | None = None
    detail: str = ""
    matches_nothing: Pattern | None = None


Result: TypeAlias = (
    Done
    | Names
    | NodeNotFound
    | MismatchingNode
    | ManyNodesDenied
    | InvalidCommand
    | Forgotten
    | TooManyRefs
    | Nodes
    | Value
    | Aborted
    | Registered
    | Refused
)

_encoder = msgspec.msgpack.Encoder()


def encode_command(command: msgspec.Struct) -> bytes:
    """A command as it stands in the log (`splitbrain.cluster.dedup.LogCommand`)."""
    return _encoder.encode(command)
