"""What workloads of transactions share: how micro-operations reach a session, and which keys they are of.

Keys are drawn as in Elle's generators (`elle.list-append/gen`): a few are in use at a time, of which some are drawn far
more often than others; after a number of writes a key is replaced by a new one, so that lists stay short. Values are
1, 2, 3 and so on for each key, so that no two writes of a key are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.operations import TRANSACTIONS
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.sessions import Mop as SessionMop
from splitbrain.harness.contract.sessions import Transactions
from splitbrain.harness.contract.test import OpShape, Workload
from splitbrain.harness.generators import Generator, invoke, sequence
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Mop, Op
from splitbrain.workloads.groups import FINAL_READS
from splitbrain.workloads.sessions import ANY, SessionClient

TXN: Final = "txn"
"""The function of an op that is a transaction, as the checkers of transactions know it."""

ACTIVE_KEYS: Final = 5
"""Keys in use at a time. The last one is drawn as often as all others together, the one before half as often, etc."""

WRITES_PER_KEY: Final = 32

FINAL_KEYS: Final = 4
"""Keys that one transaction after all faults reads."""


class TransactionClient(SessionClient[Transactions]):
    """Carries out transactions of micro-operations as they come."""

    operations = TRANSACTIONS
    shared_by = ANY

    async def invoke(self, test: Any, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        if op.f != TXN or op.mops is None:
            raise ProtocolError(f"{type(self).__name__} knows no op {op.f!r}, only {TXN} with micro-operations.")
        answer = await self.session.transact(asked(op.mops))
        return op.complete("ok", mops=answered(answer.value), term=answer.term)


def asked(mops: Sequence[Mop]) -> list[SessionMop]:
    """Micro-operations as a session takes them."""
    return [[mop.f, mop.key, mop.value] for mop in mops]


def answered(mops: Any) -> tuple[Mop, ...]:
    """Micro-operations as a session answers them."""
    return tuple(
        Mop(f, key, values=tuple(cast("list[int]", value))) if isinstance(value, list) else Mop(f, key, value)
        for f, key, value in cast("Sequence[SessionMop]", mops)
    )


class Keys(msgspec.Struct, frozen=True):
    """The keys that are in use.

    Attributes:
        active: their numbers.
        written: how many writes of each were drawn.
        most: after so many writes a key is replaced.
    """

    active: tuple[int, ...] = tuple(range(ACTIVE_KEYS))
    written: tuple[int, ...] = (0,) * ACTIVE_KEYS
    most: int = WRITES_PER_KEY

    def draw(self, rng: Rng) -> int:
        """The place of a key: each is drawn twice as often as the one before."""
        return (1 + rng.below((1 << len(self.active)) - 1)).bit_length() - 1

    def name(self, place: int) -> str:
        """The key at a place."""
        return str(self.active[place])

    def write(self, place: int) -> tuple[int, Keys]:
        """The next value of a key, and the keys afterwards."""
        value = self.written[place] + 1
        if value < self.most:
            return value, self._with(place, self.active[place], value)
        return value, self._with(place, max(self.active) + 1, 0)

    def _with(self, place: int, key: int, count: int) -> Keys:
        active, written = list(self.active), list(self.written)
        active[place], written[place] = key, count
        return Keys(tuple(active), tuple(written), self.most)


def judged_by(
    checker: str, isolation: str, *, client: TransactionClient, generator: Generator, write: str, keys: int
) -> Workload:
    """A workload of transactions that a checker of the same name judges.

    Args:
        checker: its name.
        isolation: the consistency models that transactions must satisfy, separated by commas.
        client: carries them out.
        generator: makes them.
        write: the function of their micro-operations that write.
        keys: how many of them are written in a run.
    """
    return Workload(
        name=checker,
        client=client,
        generator=generator,
        final_generator=final_transactions(keys),
        checkers=(
            CheckerSpec(checker, {"consistency_models": isolation.split(",")}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": [TXN]}),
        ),
        fs=(TXN,),
        needs=frozenset({TRANSACTIONS.name}),
        shapes={TXN: OpShape(writes=frozenset({write}))},
    )


def final_transactions(keys: int) -> Generator:
    """Transactions after all faults that read the keys 0 to `keys` - 1, or of many an evenly spaced share."""
    count = min(keys, FINAL_READS * FINAL_KEYS)
    names = [str(keys - 1 - place * keys // count) for place in range(count)]
    groups = [names[first : first + FINAL_KEYS] for first in range(0, count, FINAL_KEYS)]
    return sequence(*(invoke(TXN, mops=tuple(Mop("r", key) for key in group)) for group in groups))


def keys_written(rate: float, time_limit_s: float, writes_per_op: float) -> int:
    """About how many keys a run gets to."""
    return ACTIVE_KEYS + int(rate * time_limit_s * writes_per_op / WRITES_PER_KEY)
