"""The part of a client that exports and imports the tree (KH-18)."""

from __future__ import annotations

import msgspec

from splitbrain.cluster import tree
from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, Asking, error_of
from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.errors import InvalidRequestError, StoreRefusedError
from splitbrain.cluster.patterns import Where, pattern_of
from splitbrain.cluster.reading import ReadMode, in_mode
from splitbrain.cluster.wire import MAX_REQUEST_BYTES


class Imported(msgspec.Struct, frozen=True):
    """What an import did.

    Attributes:
        term: in which the last node was put.
        nodes: how many were put.
    """

    term: int
    nodes: int


class TransferClient(Asking):
    """Exports and imports the tree."""

    async def export(
        self, where: Where | None = None, *, mode: ReadMode = "consistent", timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> bytes:
        """What it takes to put nodes again, with checksums: those that a pattern matches and all below them, or all.

        They are those of one state. Triggers and projections are not among it.

        Raises:
            StoreRefusedError: "too_many_nodes": it would be too large for one answer; export parts.
        """
        query = tree.Export(None if where is None else pattern_of(where))
        answer = await self._ask(in_mode(query, mode, None), timeout_ms)
        if not isinstance(answer.outcome, tree.Value):
            raise error_of(answer.outcome, answer.term)
        return decode_value(answer.outcome.data)

    async def import_(self, data: bytes, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Imported:
        """Put the nodes of an export again; what else there is stays.

        It is read to its end before the first node is put. Then each is a command: others may come in between, and an
        error leaves those before it. To begin again does no harm. A node that others have to keep comes after them.

        Args:
            data: an export.
            timeout_ms: for each node.

        Raises:
            CorruptExportError: it is none, is cut short or damaged, or has what cannot be put; nothing was put.
            InvalidRequestError: a record is too large; nothing was put.
            StoreRefusedError: "keep_while_conditions_not_met", also once all other nodes are there.
        """
        waiting = tree.decode_export(data)
        for number, record in enumerate(waiting, start=1):
            size = len(tree.encode_command(tree.command_of(record)))
            if size > MAX_REQUEST_BYTES:
                problem = (
                    f"record {number:,} of the export is a request of {size} bytes, of at most {MAX_REQUEST_BYTES}"
                )
                raise InvalidRequestError(f"invalid_request: {problem}.")
        term = done = 0
        while waiting:
            unkept: list[tree.Record] = []
            refusal: StoreRefusedError | None = None
            for record in waiting:
                answer = await self._ask(tree.command_of(record), timeout_ms)
                if isinstance(answer.outcome, tree.Nodes):
                    term, done = answer.term, done + 1
                    continue
                error = error_of(answer.outcome, answer.term)
                if not isinstance(error, StoreRefusedError) or error.reason != "keep_while_conditions_not_met":
                    raise error
                unkept.append(record)
                refusal = error
            if refusal is not None and len(unkept) == len(waiting):
                raise refusal
            waiting = unkept
        return Imported(term, done)
