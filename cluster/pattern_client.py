"""The part of a client that reads and changes tree nodes by patterns and conditions (KH-2 to KH-7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from splitbrain.cluster import tree
from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, Asking, error_of, once
from splitbrain.cluster.commands import decode_value, encode_value
from splitbrain.cluster.dedup import Ref
from splitbrain.cluster.patterns import Condition, KeptBy, Where, kept_by, pattern_of
from splitbrain.cluster.reading import ReadMode, in_mode
from splitbrain.cluster.tree import Procedure, Property, format_path
from splitbrain.cluster.wire import Answer, ReplyFrom

A = TypeVar("A")

EVERYTHING: tuple[Property, ...] = (
    "payload",
    "payload_version",
    "child_list_version",
    "child_list_length",
    "delete_reason",
    "child_names",
)
"""All that an answer can say of a node."""


class StoredProcedure(msgspec.Struct, frozen=True):
    """A procedure as a tree node holds it: a registered function, with what it is given first (KH-13)."""

    name: str
    version: int
    data: Any = None


class SeenNode(msgspec.Struct, frozen=True):
    """What an answer says of a tree node; None for what was not asked for, or is not there.

    Attributes:
        path: of it.
        value: its data, None also if it has none; after a change, that of before.
        has_data: whether there are data, which may be None.
        procedure: the stored procedure that it has instead.
        payload_version: counts changes of its payload.
        child_list_version: counts commands that added or removed direct children.
        child_list_length: the number of direct children.
        child_names: their names, sorted.
        delete_reason: why it was removed: by the command, or because nothing kept it any more.
    """

    path: str
    value: Any = None
    has_data: bool = False
    procedure: StoredProcedure | None = None
    payload_version: int | None = None
    child_list_version: int | None = None
    child_list_length: int | None = None
    child_names: tuple[str, ...] | None = None
    delete_reason: Literal["explicit", "keep_while"] | None = None


class SeenNodes(msgspec.Struct, frozen=True):
    """Tree nodes that a query found on one state, or a command changed or removed, in the order of their paths.

    Attributes:
        term: the term in which the answer was given; of a command, that of its entry.
        index: of the entry of a command; of a query, how far the node that answered had applied the log.
        nodes: of a command none if they were not asked for, and at most 4,096.
        count: of all of them.
    """

    term: int
    index: int
    nodes: tuple[SeenNode, ...]
    count: int


class PatternClient(Asking):
    """Reads and changes tree nodes by patterns and conditions."""

    # --- to read ----------------------------------------------------------------------------------------------

    async def get_nodes(
        self,
        where: Where,
        *,
        when: Condition | None = None,
        many: bool = True,
        returns: Sequence[Property] = ("payload", "payload_version"),
        include_root: bool = False,
        mode: ReadMode = "consistent",
        after: tuple[int, int] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> SeenNodes:
        """The tree nodes that a pattern matches.

        Args:
            where: the pattern.
            when: a condition on its last component.
            many: whether it may match several. Else it has to name one: a node that is not there is an error, and one
                that does not meet a condition gives an answer without nodes (D15).
            returns: what the answer says of each.
            include_root: whether `*` and `**` match the root, too.
            mode: what the answer promises (`ReadMode`).
            after: of a local read, see `get`.
            timeout_ms: after so long the node gives up.

        Raises:
            NodeNotFoundError: the node that is named is not there.
            PossiblyMatchingManyNodesDeniedError: the pattern may match several, and `many` is false.
            StoreRefusedError: "too_many_nodes": there are more than an answer can have.
        """
        query = tree.GetNodes(pattern_of(where, when), many, tuple(returns), include_root)
        return seen_nodes(await self._ask(in_mode(query, mode, after), timeout_ms))

    async def count(
        self,
        where: Where,
        *,
        when: Condition | None = None,
        include_root: bool = False,
        mode: ReadMode = "consistent",
        after: tuple[int, int] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> int:
        """How many tree nodes a pattern matches; arguments as of `get_nodes`."""
        query = tree.CountNodes(pattern_of(where, when), include_root)
        return await self._value(query, mode, after, timeout_ms)

    async def fold(
        self,
        where: Where,
        function: Callable[[A, SeenNode], A],
        initial: A,
        *,
        when: Condition | None = None,
        returns: Sequence[Property] = ("payload", "payload_version"),
        mode: ReadMode = "consistent",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> A:
        """What a function makes of the nodes that a pattern matches, one by one in the order of their paths (KH-6).

        They are those of one state; the function runs here, and may do what it likes. Arguments as of `get_nodes`.
        """
        result = initial
        for node in (await self.get_nodes(where, when=when, returns=returns, mode=mode, timeout_ms=timeout_ms)).nodes:
            result = function(result, node)
        return result

    async def exists(
        self, where: Where, *, mode: ReadMode = "consistent", timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> bool:
        """Whether there is a tree node; conditions on it do not count (D15)."""
        return await self._value(tree.AskNode(pattern_of(where), "exists"), mode, None, timeout_ms)

    async def has_data(
        self, where: Where, *, mode: ReadMode = "consistent", timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> bool:
        """Whether there is a tree node with data."""
        return await self._value(tree.AskNode(pattern_of(where), "has_data"), mode, None, timeout_ms)

    async def is_procedure(
        self, where: Where, *, mode: ReadMode = "consistent", timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> bool:
        """Whether there is a tree node with a stored procedure."""
        return await self._value(tree.AskNode(pattern_of(where), "is_procedure"), mode, None, timeout_ms)

    # --- to write ---------------------------------------------------------------------------------------------

    async def put_nodes(
        self,
        where: Where,
        value: Any,
        *,
        when: Condition | None = None,
        many: bool = False,
        keep_while: KeptBy = None,
        returns: Sequence[Property] | None = None,
        ref: Ref | None = None,
        reply_from: ReplyFrom = "leader",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> SeenNodes:
        """Set the payload of the nodes that a pattern matches, or of one that it names, which is created if need be.

        With `when=IfNodeExists(False)` it creates, with `IfNodeExists(True)` it updates, with `if_data(...)` it is
        compare-and-swap.

        Args:
            where: the pattern.
            value: what msgpack can carry, or a `StoredProcedure`.
            when: a condition on its last component.
            many: whether the pattern may match several nodes.
            keep_while: replaces what the nodes were kept by (KH-7); None leaves it.
            returns: what the answer says of each node, as it was before, with the versions after; None: nothing.
            ref: with it the command is carried out once, however often it is sent.
            reply_from: who has applied it before it is answered, see `execute`.
            timeout_ms: after so long the node gives up.

        Raises:
            MismatchingNodeError: a node does not meet a condition.
            NodeNotFoundError: a node that has to be there is not.
            PossiblyMatchingManyNodesDeniedError: the pattern may match several, and `many` is false.
            StoreRefusedError: "keep_while_conditions_not_met" already, "too_many_nodes", ...
        """
        payload = _payload(value)
        command = tree.PutNodes(pattern_of(where, when), payload, many, kept_by(keep_while), _or_none(returns))
        return await self._change(command, ref, reply_from, timeout_ms)

    async def clear_nodes(
        self,
        where: Where,
        *,
        when: Condition | None = None,
        many: bool = False,
        keep_while: KeptBy = None,
        returns: Sequence[Property] | None = None,
        ref: Ref | None = None,
        reply_from: ReplyFrom = "leader",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> SeenNodes:
        """Remove the payload of the nodes that a pattern matches; no error if there is none. See `put_nodes`."""
        command = tree.ClearNodes(pattern_of(where, when), many, kept_by(keep_while), _or_none(returns))
        return await self._change(command, ref, reply_from, timeout_ms)

    async def delete_nodes(
        self,
        where: Where,
        *,
        when: Condition | None = None,
        many: bool = False,
        returns: Sequence[Property] | None = None,
        ref: Ref | None = None,
        reply_from: ReplyFrom = "leader",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> SeenNodes:
        """Remove the nodes that a pattern matches, and all below them; no error if there is none. See `put_nodes`.

        The answer counts, and has if asked for, also those that were removed because nothing kept them any more.
        """
        command = tree.DeleteNodes(pattern_of(where, when), many, _or_none(returns))
        return await self._change(command, ref, reply_from, timeout_ms)

    # --- inside -----------------------------------------------------------------------------------------------

    async def _change(
        self, command: tree.Command, ref: Ref | None, reply_from: ReplyFrom, timeout_ms: int
    ) -> SeenNodes:
        return seen_nodes(await self._ask(once(command, ref), timeout_ms, reply_from))

    async def _value(self, query: tree.Query, mode: ReadMode, after: tuple[int, int] | None, timeout_ms: int) -> Any:
        answer = await self._ask(in_mode(query, mode, after), timeout_ms)
        if not isinstance(answer.outcome, tree.Value):
            raise error_of(answer.outcome, answer.term)
        return decode_value(answer.outcome.data)


def seen_nodes(answer: Answer) -> SeenNodes:
    """The tree nodes of an answer.

    Raises:
        ClientError: the answer says why there are none.
    """
    if not isinstance(answer.outcome, tree.Nodes):
        raise error_of(answer.outcome, answer.term)
    found = answer.outcome
    return SeenNodes(answer.term, answer.index, tuple(map(_seen, found.nodes)), found.count)


def _seen(found: tree.FoundNode) -> SeenNode:
    payload = found.payload
    has_data = isinstance(payload, bytes)
    procedure = None
    if isinstance(payload, Procedure):
        procedure = StoredProcedure(payload.name, payload.version, decode_value(payload.data))
    return SeenNode(
        format_path(found.path),
        decode_value(payload) if has_data else None,
        has_data,
        procedure,
        found.payload_version,
        found.child_list_version,
        found.child_list_length,
        found.child_names,
        found.delete_reason,
    )


def _payload(value: Any) -> tree.Payload:
    if isinstance(value, StoredProcedure):
        return Procedure(value.name, value.version, encode_value(value.data))
    return encode_value(value)


def _or_none(returns: Sequence[Property] | None) -> tuple[Property, ...] | None:
    return None if returns is None else tuple(returns)
