"""Bank: transfers between accounts, and reads of all balances; money is neither made nor lost.

Each transfer reads two accounts and writes both, unless the first would be overdrawn. So every read of all accounts in
one transaction finds the same total, whatever the order of transfers (Jepsen's `bank`, 2014).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import TRANSACTIONS
from splitbrain.harness.contract.sessions import Transactions
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import Context, Generator, each, final, invoke
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import readers_apart
from splitbrain.workloads.sessions import ANY, SessionClient

ACCOUNTS: Final = 8
BALANCE: Final = 10
"""Of each account at first; one that does not exist yet has it."""

AMOUNT_MAX: Final = 5


class Transfer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is to go where; accounts by number."""

    source: Annotated[int, msgspec.Meta(ge=0, lt=ACCOUNTS)] = msgspec.field(name="from")
    to: Annotated[int, msgspec.Meta(ge=0, lt=ACCOUNTS)]
    amount: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class BankClient(SessionClient[Transactions]):
    """Transfers money, and reads all accounts."""

    operations = TRANSACTIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        if op.f == "read":
            answer = await self.session.transact([["r", _key(account), None] for account in range(ACCOUNTS)])
            balances = {str(account): _held(mop[2]) for account, mop in enumerate(answer.value)}
            return op.complete("ok", balances, term=answer.term)
        if op.f == "transfer":
            asked = msgspec.convert(op.value, Transfer)
            source, to = _key(asked.source), _key(asked.to)

            def change(read: Mapping[str, Any]) -> Mapping[str, Any] | None:
                left = _held(read[source]) - asked.amount
                return None if left < 0 else {source: left, to: _held(read[to]) + asked.amount}

            answer = await self.session.update([source, to], change)
            return op.complete("ok", op.value, term=answer.term)
        raise ProtocolError(f"the bank workload knows no op {op.f!r}, only transfer and read.")


def _key(account: int) -> str:
    return f"account-{account}"


def _held(balance: Any) -> int:
    return BALANCE if balance is None else balance


def _transfer(ctx: Context) -> Op:
    source, to = ctx.rng.sample(range(ACCOUNTS), 2)
    return invoke("transfer", {"from": source, "to": to, "amount": 1 + ctx.rng.below(AMOUNT_MAX)})


def bank(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,  # noqa: ARG001 - as every builder
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload for this number of clients of these nodes."""
    reads = each(lambda _: invoke("read"))
    generator: Generator = readers_apart(concurrency, len(nodes), reads, _transfer)
    return Workload(
        name="bank",
        client=BankClient(),
        generator=generator,
        final_generator=final(invoke("read")),
        checkers=(
            CheckerSpec("bank", {"accounts": ACCOUNTS, "total": ACCOUNTS * BALANCE}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["transfer", "read"]}),
        ),
        fs=("transfer", "read"),
        needs=frozenset({TRANSACTIONS.name}),
        shapes={"transfer": OpShape(value=Transfer), "read": OpShape()},
    )
