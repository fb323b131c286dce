"""Transactions: registered functions that read and write the tree, as one command or one query (KH-8, D13).

What a function is given has the methods below. An operation that is refused gives that as its result, and the function
goes on; one that makes no sense, such as a pattern where one node is meant, ends it, as does `abort`. Then nothing of
it was applied. Values are what msgpack can carry, encoded with sorted keys: equal values are equal payloads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from splitbrain.cluster.bugs import M34, M93
from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree.conditions import Component, IfDataMatches, IfNodeExists
from splitbrain.cluster.tree.datapattern import MAX_DATA_DEPTH, DataPatternError, decoded, too_deep
from splitbrain.cluster.tree.functions import Functions
from splitbrain.cluster.tree.messages import (
    DEFAULT_PROPERTIES,
    Aborted,
    AskNode,
    ClearNodes,
    CountNodes,
    DeleteNodes,
    FoundNode,
    GetNodes,
    KeepWhile,
    Nodes,
    Property,
    PutNodes,
    Refusal,
    Refused,
    Result,
    Value,
)
from splitbrain.cluster.tree.nodes import Node
from splitbrain.cluster.tree.patterns import Pattern, combined, compiled, parse_pattern
from splitbrain.cluster.tree.payloads import NoPayload, Payload, Procedure
from splitbrain.cluster.tree.reads import TreeQuery, ask, nodes_in, shown, specific
from splitbrain.cluster.tree.state import TreeState
from splitbrain.cluster.tree.walk import PatternRefusedError, find_one
from splitbrain.cluster.tree.writes import Write, execute_write

MAX_OPERATIONS: Final = 10_000
"""Operations of one transaction."""

MAX_PROCEDURES: Final = 16
"""Stored procedures that run each other: the stack has another depth on each member."""

MAX_PAYLOAD_BYTES: Final = 96 * 1024

Where: TypeAlias = str | Sequence[Component]
"""A pattern, or its text."""

KeptBy: TypeAlias = Sequence[tuple[Where, Component]] | None
"""What keeps a node: paths, maybe relative to it, with conditions (`KeepWhile`)."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class AbortError(BaseException):
    """The function aborted its transaction. Not an `Exception`, which it might catch."""

    def __init__(self, reason: Any) -> None:
        super().__init__()
        self.reason: Any = reason


class MisuseError(BaseException):
    """The function asked for something that makes no sense; its transaction ends with this answer."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


class Transaction:
    """What a registered function is given.

    Args:
        tree: the state.
        functions: those that are registered.
        may_write: whether it may change the tree.
    """

    __slots__ = ("_functions", "_is_first", "_left", "_may_write", "_running", "_tree")

    def __init__(self, tree: TreeState, functions: Functions, *, may_write: bool) -> None:
        self._tree = tree
        self._functions = functions
        self._may_write = may_write
        self._is_first = True
        self._left = MAX_OPERATIONS
        self._running = 0  # stored procedures, each run by the one before

    def __repr__(self) -> str:
        return "<transaction>"  # an address would differ between members

    # --- to read --------------------------------------------------------------------------------------------------

    def get(self, path: Where, *, returns: Sequence[Property] = DEFAULT_PROPERTIES) -> FoundNode | Refused:
        """One node. Refused if there is none, or if it does not meet a condition."""
        pattern = self._begin(path)
        found = find_one(self._tree.root, pattern)
        if isinstance(found, Node):
            return shown(found.path, found.properties(), returns, children=found.children)
        return self._answer(found)

    def get_nodes(self, path: Where, *, returns: Sequence[Property] = DEFAULT_PROPERTIES) -> Nodes | Refused:
        """One node, in a list; an empty one if the node does not meet a condition (D15)."""
        return self._nodes(self._ask(GetNodes(_pattern(path), False, tuple(returns))))

    def get_many(
        self,
        path: Where,
        *,
        returns: Sequence[Property] = DEFAULT_PROPERTIES,
        one_only: bool = False,
        include_root: bool = False,
    ) -> tuple[FoundNode, ...]:
        """The nodes that a pattern matches, in the order of their paths; with `one_only` it has to name one."""
        pattern = self._begin(path)
        try:
            if one_only:
                specific(self._tree, pattern)
            found = nodes_in(self._tree, pattern, include_root=include_root)
        except PatternRefusedError as error:
            raise MisuseError(error.refused) from None
        return tuple(shown(node.path, node.properties(), returns, children=node.children) for node in found)

    def count(self, path: Where, *, include_root: bool = False) -> int:
        """How many nodes a pattern matches."""
        return self.value(self._ask(CountNodes(_pattern(path), include_root)))

    def exists(self, path: Where) -> bool:
        """Whether there is a node; conditions on it do not count (D15)."""
        return self._truth(AskNode(_pattern(path), "exists"))

    def has_data(self, path: Where) -> bool:
        """Whether there is a node with data."""
        return self._truth(AskNode(_pattern(path), "has_data"))

    def is_procedure(self, path: Where) -> bool:
        """Whether there is a node with a stored procedure."""
        return self._truth(AskNode(_pattern(path), "is_procedure"))

    def is_empty(self) -> bool:
        """Whether there is no node but the root."""
        return self._tree.size == 1

    @staticmethod
    def value(of: object) -> Any:
        """The value that a node, a payload or a result has; None if there is none."""
        payload = of.payload if isinstance(of, FoundNode) else of.data if isinstance(of, Value) else of
        if not isinstance(payload, bytes):
            return None
        try:
            return decoded(payload)
        except DataPatternError:
            return None

    @staticmethod
    def pattern(text: str) -> Pattern:
        """The pattern that a text stands for."""
        return _pattern(text)

    # --- to write -------------------------------------------------------------------------------------------------

    def put(
        self, path: Where, value: Any, *, keep_while: KeptBy = None, returns: Sequence[Property] = DEFAULT_PROPERTIES
    ) -> Nodes | Refused:
        """Set the payload of a node, which is created with its missing parents if there is none."""
        return self._write(PutNodes(_pattern(path), _payload(value), False, _kept_by(keep_while), tuple(returns)))

    def put_many(
        self, path: Where, value: Any, *, keep_while: KeptBy = None, returns: Sequence[Property] = DEFAULT_PROPERTIES
    ) -> Nodes | Refused:
        """Set the payload of all nodes that a pattern matches."""
        return self._write(PutNodes(_pattern(path), _payload(value), True, _kept_by(keep_while), tuple(returns)))

    def create(
        self, path: Where, value: Any, *, keep_while: KeptBy = None, returns: Sequence[Property] = DEFAULT_PROPERTIES
    ) -> Nodes | Refused:
        """Put, if there is no such node."""
        return self.put(_with(path, IfNodeExists(False)), value, keep_while=keep_while, returns=returns)

    def update(
        self, path: Where, value: Any, *, keep_while: KeptBy = None, returns: Sequence[Property] = DEFAULT_PROPERTIES
    ) -> Nodes | Refused:
        """Put, if there is such a node."""
        return self.put(_with(path, IfNodeExists(True)), value, keep_while=keep_while, returns=returns)

    def compare_and_swap(
        self,
        path: Where,
        pattern: Any,
        value: Any,
        *,
        keep_while: KeptBy = None,
        returns: Sequence[Property] = DEFAULT_PROPERTIES,
    ) -> Nodes | Refused:
        """Put, if there is such a node and its data match."""
        condition = IfDataMatches(_bytes_of(pattern))
        return self.put(_with(path, condition), value, keep_while=keep_while, returns=returns)

    def clear(self, path: Where, *, returns: Sequence[Property] = DEFAULT_PROPERTIES) -> Nodes | Refused:
        """Remove the payload of a node; no error if there is none."""
        return self._write(ClearNodes(_pattern(path), False, None, tuple(returns)))

    def clear_many(self, path: Where, *, returns: Sequence[Property] = DEFAULT_PROPERTIES) -> Nodes | Refused:
        """Remove the payload of all nodes that a pattern matches."""
        return self._write(ClearNodes(_pattern(path), True, None, tuple(returns)))

    def delete(self, path: Where, *, returns: Sequence[Property] = DEFAULT_PROPERTIES) -> Nodes | Refused:
        """Remove a node and all below it; no error if there is none."""
        return self._write(DeleteNodes(_pattern(path), False, tuple(returns)))

    def delete_many(self, path: Where, *, returns: Sequence[Property] = DEFAULT_PROPERTIES) -> Nodes | Refused:
        """Remove all nodes that a pattern matches, and all below them."""
        return self._write(DeleteNodes(_pattern(path), True, tuple(returns)))

    def run_stored(self, path: Where, arguments: Any) -> Any:
        """Run the stored procedure at a path within this transaction; what it gives."""
        pattern = self._begin(path)
        procedure = stored(self._tree, pattern)
        if isinstance(procedure, Refused):
            raise MisuseError(procedure)
        found = self._functions.find(procedure.name, procedure.version, self._tree.version)
        if found is None:
            raise MisuseError(unknown(procedure.name, procedure.version))
        if self._running >= MAX_PROCEDURES:
            raise _misuse("limit_reached", f"stored procedures run each other at most {MAX_PROCEDURES} deep")
        self._running += 1
        try:
            return found.call(self, decoded(procedure.data), arguments)
        finally:
            self._running -= 1

    def abort(self, reason: Any) -> NoReturn:
        """End the transaction; nothing of it is applied."""
        raise AbortError(reason)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _begin(self, path: Where) -> Pattern:
        self._left -= 1
        if self._left < 0:
            raise _misuse("limit_reached", f"a transaction has at most {MAX_OPERATIONS:,} operations")
        try:
            return compiled(_pattern(path))
        except InvalidPathError as error:
            raise _misuse("invalid_path", str(error)) from None

    def _ask(self, query: TreeQuery) -> Result:
        self._begin(query.path)
        return ask(self._tree, query)

    def _truth(self, query: AskNode) -> bool:
        answer = self._ask(query)
        if isinstance(answer, Refused):
            raise MisuseError(answer)
        return self.value(answer)

    def _write(self, command: Write) -> Nodes | Refused:
        if not self._may_write:
            raise _misuse("denied_update_in_readonly_tx", "the transaction only reads")
        self._begin(command.path)
        if not self._is_first:
            self._tree.next_operation()
        self._is_first = False
        return self._nodes(execute_write(self._tree, command))

    def _nodes(self, answer: Result) -> Nodes | Refused:
        assert isinstance(answer, (Nodes, Refused)), "that is what these commands and queries give"
        return self._answer(answer) if isinstance(answer, Refused) else answer

    @staticmethod
    def _answer(refused: Refused) -> Refused:
        if refused.reason in _MISUSE:
            raise MisuseError(refused)
        return refused


_MISUSE: Final[tuple[Refusal, ...]] = (
    "possibly_matching_many_nodes_denied",
    "too_many_nodes",
    "invalid_path",
    "invalid_options",
)


def transact(tree: TreeState, functions: Functions, name: str, version: int, data: bytes, *, may_write: bool) -> Result:
    """Carry out a registered function: what it gives, or why nothing was done.

    The tree's `begin` and what follows from its `changes` are up to the caller.
    """
    found = functions.find(name, version, tree.version)
    if found is None:
        return unknown(name, version)
    return _carry_out(tree, functions, found.call, [data], may_write=may_write)


def transact_stored(tree: TreeState, functions: Functions, path: Pattern, data: bytes, *, may_write: bool) -> Result:
    """Carry out the stored procedure at a path; its function gets the procedure's data, and these arguments."""
    try:
        procedure = stored(tree, compiled(path))
    except InvalidPathError as error:
        return Refused("invalid_path", detail=str(error))
    if isinstance(procedure, Refused):
        return procedure
    return run_procedure(tree, functions, procedure, data, may_write=may_write)


def run_procedure(
    tree: TreeState, functions: Functions, procedure: Procedure, data: bytes, *, may_write: bool
) -> Result:
    """Carry out a procedure with these arguments."""
    found = functions.find(procedure.name, procedure.version, tree.version)
    if found is None:
        return unknown(procedure.name, procedure.version)
    return _carry_out(tree, functions, found.call, [procedure.data, data], may_write=may_write)


def stored(tree: TreeState, pattern: Pattern) -> Procedure | Refused:
    """The stored procedure that a compiled pattern names."""
    found = find_one(tree.root, pattern)
    if isinstance(found, Refused):
        return found
    if isinstance(found.payload, Procedure):
        return found.payload
    detail = "there is no stored procedure"
    return Refused("denied_execution_of_non_sproc_node", found.path, True, None, found.properties(), detail)


def unknown(name: str, version: int) -> Refused:
    """The answer where there is no such function."""
    return Refused("unknown_function", detail=f"no function {name} {version} is registered")


def _carry_out(tree: TreeState, functions: Functions, call: Any, data: Sequence[bytes], *, may_write: bool) -> Result:
    transaction = Transaction(tree, functions, may_write=may_write)
    try:
        arguments = [decoded(part) for part in data]
        return Value(_bytes_of(call(transaction, *arguments)))
    except AbortError as abort:
        answer: Result = Aborted(_encoded(abort.reason))
    except MisuseError as misuse:
        answer = misuse.refused
    except DataPatternError as error:
        answer = Refused("function_failed", detail=f"its data: {error}")
    except MemoryError:  # of this member alone: it cannot tell what the others come to
        raise
    except Exception as error:  # what went wrong in it is the same on every member; its text may not be
        answer = Refused("function_failed", detail=type(error).__name__)
    if may_write and M34 not in functions.bugs:
        tree.undo(restores=M93 not in functions.bugs)
    return answer


def _bytes_of(value: Any) -> bytes:
    """A value that a function made, in msgpack.

    It is looked at first, since how deep msgpack goes depends on the depth of the stack, and looked at afterwards for
    what `str` gives of a function or an iterator: its address differs between members.
    """
    if too_deep(value):
        raise _misuse("limit_reached", f"a value is nested at most {MAX_DATA_DEPTH} deep")
    encoded = _encoder.encode(value)
    if b" at 0x" in encoded and _ADDRESS.search(encoded):
        raise _misuse("invalid_options", "a value has the address of an object in it, which differs between members")
    return encoded


_ADDRESS: Final = re.compile(rb"<[^<>]* at 0x[0-9a-f]+>")


def _encoded(value: Any) -> bytes:
    try:
        return _bytes_of(value)
    except MemoryError:
        raise
    except MisuseError:
        return _encoder.encode(None)
    except Exception:  # also what is no value ends the transaction
        return _encoder.encode(None)


def _misuse(reason: Refusal, detail: str) -> MisuseError:
    return MisuseError(Refused(reason, detail=detail))


class _Given(msgspec.Struct, frozen=True, array_like=True):
    path: Pattern


def _pattern(path: Where) -> Pattern:
    try:
        if isinstance(path, str):
            return parse_pattern(path)
        # It may have come with the function's data. What msgspec knows of a struct it keeps, unlike of other types.
        return msgspec.convert((path,), _Given).path
    except (InvalidPathError, msgspec.ValidationError, RecursionError) as error:
        raise _misuse("invalid_path", type(error).__name__) from None


def _with(path: Where, condition: Component) -> Pattern:
    try:
        return combined(_pattern(path), (condition,))
    except InvalidPathError as error:
        raise _misuse("invalid_path", str(error)) from None


def _payload(value: Any) -> Payload:
    if isinstance(value, NoPayload):
        return None
    if isinstance(value, Procedure):
        return value
    payload = value.data if isinstance(value, Value) else _bytes_of(value)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise _misuse("limit_reached", f"a payload has at most {MAX_PAYLOAD_BYTES:,} bytes, not {len(payload):,}")
    return payload


def _kept_by(keep_while: KeptBy) -> tuple[KeepWhile, ...] | None:
    if keep_while is None:
        return None
    try:
        return tuple(KeepWhile(_pattern(path), msgspec.convert(condition, Component)) for path, condition in keep_while)
    except (msgspec.ValidationError, RecursionError, ValueError, TypeError) as error:
        raise _misuse("invalid_options", type(error).__name__) from None
