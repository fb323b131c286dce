"""The part of a client that carries out registered functions and stored procedures as transactions."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, Asking, error_of, once
from splitbrain.cluster.commands import decode_value, encode_value
from splitbrain.cluster.dedup import Ref
from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.reading import ReadMode, in_mode
from splitbrain.cluster.tree import Transact, TransactRead, Value
from splitbrain.cluster.wire import Answer, Body, ReplyFrom, TransactAuto

TransactionMode: TypeAlias = Literal["auto", "write", "read"]
"""Whether a transaction may write. "auto": the node looks at the function's code; one that it does not know counts as
one that writes."""


class TransactionResult(msgspec.Struct, frozen=True):
    """What a transaction came to.

    Attributes:
        term: the term in which the answer was given; of one that may write, that of its entry.
        value: what the function gave.
        index: of the entry in the log; of one that only reads, how far the node that answered had applied the log.
    """

    term: int
    value: Any
    index: int


class TransactionClient(Asking):
    """Carries out transactions of a group."""

    async def transaction(
        self,
        function: str,
        version: int,
        data: Any = None,
        mode: TransactionMode = "auto",
        *,
        read_mode: ReadMode = "consistent",
        after: tuple[int, int] | None = None,
        ref: Ref | None = None,
        reply_from: ReplyFrom = "leader",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> TransactionResult:
        """Carry out a function that the nodes have registered, as one command or one query (KH-8).

        Args:
            function: its name.
            version: its version.
            data: what it is given: anything that msgpack can carry.
            mode: whether it may write.
            read_mode: what its answer promises, of one in mode "read" (`ReadMode`); else "consistent".
            after: of one in mode "read" with local reads, see `get`.
            ref: with it a transaction that writes is carried out once, however often it is sent (KH-9): then it may be
                sent again (`splitbrain.cluster.retry`, KH-10). Of no effect on one that only reads.
            reply_from: who has applied one in mode "write" before it is answered, see `execute`.
            timeout_ms: after so long the node gives up.

        Raises:
            TransactionAbortedError: the function ended it, with a reason.
            StoreRefusedError: "unknown_function", "function_failed", "denied_update_in_readonly_tx", or what an
                operation of the function asked for makes no sense. As after an abort, nothing of it was applied.
            InvalidRequestError: the arguments do not go together.
        """
        wanted = _wanted(function, version, encode_value(data), mode, in_mode_of_reads=(read_mode, after), ref=ref)
        return transaction_result(await self._ask(wanted, timeout_ms, reply_from if mode == "write" else "leader"))


def transaction_result(answer: Answer) -> TransactionResult:
    """What a transaction gave.

    Raises:
        ClientError: the answer says why there is nothing.
    """
    if not isinstance(answer.outcome, Value):
        raise error_of(answer.outcome, answer.term)
    return TransactionResult(answer.term, decode_value(answer.outcome.data), answer.index)


def _wanted(
    function: str,
    version: int,
    data: bytes,
    mode: TransactionMode,
    *,
    in_mode_of_reads: tuple[ReadMode, tuple[int, int] | None],
    ref: Ref | None,
) -> Body:
    if mode == "read":
        return in_mode(TransactRead(function, version, data), *in_mode_of_reads)
    if in_mode_of_reads != ("consistent", None):
        raise InvalidRequestError('a mode of reads is for transactions in mode "read": give that.')
    if mode == "auto":
        return TransactAuto(function, version, data, ref)
    if mode != "write":
        raise InvalidRequestError(
            f"there is no mode {mode!r} of transactions, only {', '.join(get_args(TransactionMode))}."
        )
    return once(Transact(function, version, data), ref)
