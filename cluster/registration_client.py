"""The part of a client for what stands beside the tree: procedures, triggers and projections (KH-13 to KH-15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.cluster import tree
from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, Asking, error_of, once
from splitbrain.cluster.commands import decode_value, encode_value
from splitbrain.cluster.dedup import Ref
from splitbrain.cluster.patterns import Where, pattern_of
from splitbrain.cluster.reading import ReadMode, in_mode
from splitbrain.cluster.transaction_client import TransactionResult, transaction_result
from splitbrain.cluster.tree import Action, format_pattern
from splitbrain.cluster.tree.messages import ProjectionKind, TableKind
from splitbrain.cluster.wire import ReplyFrom

ALL_ACTIONS: Final[tuple[Action, ...]] = ("create", "update", "delete")

_triggers = msgspec.msgpack.Decoder(list[tree.RegisterTrigger])


class Trigger(msgspec.Struct, frozen=True):
    """A trigger that is registered; see `RegistrationClient.register_trigger`."""

    id: str
    path: str
    procedure: str
    on_actions: tuple[Action, ...]
    priority: int


class Records(msgspec.Struct, frozen=True):
    """Records of a table of a projection, by their keys: each a list that begins with its key.

    Attributes:
        term: the term of the node that answered.
        records: what it holds.
    """

    term: int
    records: tuple[tuple[Any, ...], ...]


class RegistrationClient(Asking):
    """Runs procedures; registers triggers and projections, and reads the latter."""

    # --- procedures and triggers ------------------------------------------------------------------------------

    async def run_procedure(
        self,
        where: Where,
        arguments: Any = None,
        *,
        writes: bool = False,
        read_mode: ReadMode = "consistent",
        ref: Ref | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> TransactionResult:
        """Run the stored procedure at a path: as a query, or as a transaction that writes. Errors as of `transaction`.

        Raises:
            NodeNotFoundError: nothing is stored there.
            StoreRefusedError: "denied_execution_of_non_sproc_node": what is there is no procedure.
        """
        pattern, data = pattern_of(where), encode_value(arguments)
        body = once(tree.TransactStored(pattern, data), ref)
        if not writes:
            body = in_mode(tree.RunProcedure(pattern, data), read_mode, None)
        return transaction_result(await self._ask(body, timeout_ms))

    async def register_trigger(
        self,
        id: str,
        where: Where,
        procedure: Where,
        *,
        on_actions: Sequence[Action] = ALL_ACTIONS,
        priority: int = 0,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Have a stored procedure run after each change of a node that a pattern matches (KH-13).

        Args:
            id: of the trigger; takes the place of one with the same id.
            where: which nodes.
            procedure: where the procedure is stored. It is given `{"action": ..., "path": ..., "trigger": ...,
                "number": ...}`; the number is of the event, and no other event has it.
            on_actions: which changes.
            priority: of several triggers, those with a higher one run first.
            timeout_ms: after so long the node gives up.
        """
        actions = tuple(on_actions)
        await self._done(
            tree.RegisterTrigger(id, pattern_of(where), pattern_of(procedure), actions, priority), timeout_ms
        )

    async def unregister_triggers(self, *ids: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Forget triggers, and what they are still to run; no error if there are none of these ids."""
        await self._done(tree.UnregisterTriggers(ids), timeout_ms)

    async def triggers(
        self, *, mode: ReadMode = "consistent", timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> tuple[Trigger, ...]:
        """The triggers that are registered, by their ids."""
        answer = await self._ask(in_mode(tree.Triggered(), mode, None), timeout_ms)
        if not isinstance(answer.outcome, tree.Value):
            raise error_of(answer.outcome, answer.term)
        found = _triggers.decode(answer.outcome.data)
        return tuple(
            Trigger(each.id, format_pattern(each.path), format_pattern(each.procedure), each.on_actions, each.priority)
            for each in found
        )

    # --- projections ------------------------------------------------------------------------------------------

    async def register_projection(
        self,
        name: str,
        where: Where,
        kind: ProjectionKind = "copy",
        function: tuple[str, int] | None = None,
        tables: Mapping[str, TableKind] | None = None,
        *,
        reply_from: ReplyFrom = "leader",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Have every member keep tables of the nodes that a pattern matches (KH-14).

        Args:
            name: with a version in it: what a name stands for must never change.
            where: which nodes.
            kind: "copy", "simple" or "extended".
            function: name and version of the registered function of the latter two.
            tables: by their names; one of the projection's name if none is given.
            reply_from: who knows it before this returns, see `execute`. It may still be building it.
            timeout_ms: after so long the node gives up.

        Raises:
            StoreRefusedError: "projection_already_exists", "unknown_function", "invalid_options", ...
        """
        wanted = tree.RegisterProjection(name, pattern_of(where), kind, function, tuple((tables or {}).items()))
        await self._done(wanted, timeout_ms, reply_from)

    async def unregister_projections(
        self, names: Sequence[str] | None, *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> Mapping[str, str]:
        """Drop projections with their tables, all if `names` is None: those that there were, with their patterns."""
        command = tree.UnregisterProjections(None if names is None else tuple(names))
        answer = await self._ask(command, timeout_ms)
        return _registered(answer.outcome, answer.term)

    async def projections(
        self, *, mode: ReadMode = "consistent", timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> Mapping[str, str]:
        """The projections that are registered, with their patterns."""
        answer = await self._ask(in_mode(tree.Projections(), mode, None), timeout_ms)
        return _registered(answer.outcome, answer.term)

    async def look_up(self, table: str, key: Any) -> Records:
        """The records of a key in a table of a projection, as the node that is asked holds it: at once, maybe old.

        Raises:
            UnavailableError: the node does not know: it has not caught up since it started, is building the projection,
                or knows none of that name (yet). It never says "not found" for what it does not know (KH-15).
        """
        return await self._records(tree.LookUp(table, encode_value(key)))

    async def all_records(self, table: str) -> Records:
        """All records of a table of a projection; see `look_up`."""
        return await self._records(tree.LookUp(table))

    # --- inside -----------------------------------------------------------------------------------------------

    async def _done(self, command: tree.Command, timeout_ms: int, reply_from: ReplyFrom = "leader") -> None:
        answer = await self._ask(command, timeout_ms, reply_from)
        if not isinstance(answer.outcome, tree.Nodes):
            raise error_of(answer.outcome, answer.term)

    async def _records(self, query: tree.LookUp) -> Records:
        answer = await self._ask(query, DEFAULT_TIMEOUT_MS)
        if not isinstance(answer.outcome, tree.Value):
            raise error_of(answer.outcome, answer.term)
        return Records(answer.term, tuple(map(tuple, decode_value(answer.outcome.data))))


def _registered(outcome: object, term: int) -> Mapping[str, str]:
    if not isinstance(outcome, tree.Registered):
        raise error_of(outcome, term)  # pyright: ignore[reportArgumentType]
    return {name: format_pattern(path) for name, path in outcome.projections}
