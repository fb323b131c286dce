"""What all transactions on etcd share: a request that reads at one revision, and one that writes on conditions.

Where the conditions do not hold another transaction was in between, and nothing happened: the transaction is tried
again while its time lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.etcd.errors import changing_nothing
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.messages import (
    Compare,
    RangeAnswer,
    RangeRequest,
    RequestOp,
    TxnAnswer,
    TxnRequest,
)


class Optimistic:
    """Transactions over one connection.

    Args:
        gateway: the connection.
        clock: says how long a transaction may be tried again.
        timeout_ms: how long.
        serializable: let the node answer transactions that only read from what it has itself, however old that is.
    """

    def __init__(self, gateway: Gateway, clock: Clock, timeout_ms: int, *, serializable: bool) -> None:
        self._gateway = gateway
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._serializable = serializable

    def _deadline(self) -> Callable[[], None]:
        """A check for a transaction that begins now: it raises a DefiniteError once the time is over.

        It is made after conditions that did not hold, so nothing of the transaction happened.
        """
        ends_ns = self._clock.now_ns() + self._timeout_ms * 1_000_000

        def check() -> None:
            if self._clock.now_ns() >= ends_ns:
                raise DefiniteError(f"conflict: other transactions were first for {self._timeout_ms / 1000:g} s")

        return check

    async def _ranges(self, wanted: Sequence[RangeRequest]) -> tuple[int, list[RangeAnswer]]:
        """The revision at which all of one or more ranges were read, and what was found in each.

        Raises:
            DefiniteError: they could not be read.
        """
        reads = tuple(RequestOp(request_range=each) for each in wanted)
        with changing_nothing():
            answer = await self._gateway.call("kv/txn", TxnRequest((), reads), TxnAnswer)
        found = [each.response_range for each in answer.responses if each.response_range is not None]
        if len(found) != len(wanted):
            raise DefiniteError(f"etcd answered {len(found)} of {len(wanted)} reads")
        return answer.header.revision, found

    async def _commit(self, conditions: Sequence[Compare], changes: Sequence[RequestOp]) -> TxnAnswer:
        """Make changes, if all conditions hold.

        Raises:
            IndefiniteError: the answer is missing.
        """
        return await self._gateway.call("kv/txn", TxnRequest(tuple(conditions), tuple(changes)), TxnAnswer)
