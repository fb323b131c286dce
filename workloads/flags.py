"""Feature flags: clients of all nodes enable flags, several at once, and ask every node what it reports.

Flags are enabled in the order of their numbers, a new one every half second: so clients want the same one at the same
time, or one that another one depends on. Some are asked for once only: what becomes of such a flag, its one request has
to say, as no other one can have enabled it. In the end each client asks its node until nothing changes there any more,
and once more then: a request without an answer may have taken effect between the first answers of two nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import FEATURE_FLAGS
from splitbrain.harness.contract.sessions import FeatureFlags, flag_count
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Result, each, final, invoke, mix, sequence
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import ANY, SessionClient

ENABLE: Final = "enable-flag"
LIST: Final = "list-flags"

WEIGHTS: Final = (1, 3)
"""Of enabling a flag, and of asking a node."""

NEW_EACH_NS: Final = 500_000_000
"""Each flag can be enabled only once."""

AT_ONCE: Final = 3
"""So many of the newest flags are asked for."""

EVERY: Final = 4
ALONE: Final = 2
"""The flags of which one in so many is asked for by one request alone; none depends on those."""


class FlagsClient(SessionClient[FeatureFlags]):
    """Enables flags, and asks for them."""

    operations = FEATURE_FLAGS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        match op.f:
            case "enable-flag":
                return op.complete("ok", (await self.session.enable_flag(op.value)).value)
            case "list-flags":
                found = (await self.session.list_flags()).value
                if op.value and found["changing"]:
                    return op.complete("fail", found, error=f"flags still change here: {found['changing']}")
                return op.complete("ok", found)
            case _:
                raise ProtocolError(f"the workload flags knows no op {op.f!r}, only {ENABLE} and {LIST}.")


class Enables(msgspec.Struct, frozen=True):
    """Asks for one of the newest flags.

    Attributes:
        count: of the flags.
        alone: those that are asked for once only, and were.
    """

    count: int
    alone: frozenset[int] = frozenset()

    def op(self, ctx: Context) -> Result:
        """The next one; it never ends."""
        if not ctx.free:
            return PENDING, self
        newest = min(self.count, 1 + ctx.time_ns // NEW_EACH_NS)
        flag = max(1, newest - ctx.rng.below(AT_ONCE))
        if flag in self.alone:
            flag -= 1
        op = assign(invoke(ENABLE, flag), ctx)
        if op is None:
            return PENDING, self
        is_new = flag % EVERY == ALONE
        return op, msgspec.structs.replace(self, alone=self.alone | {flag}) if is_new else self

    def update(self, ctx: Context, event: Op) -> Generator:
        """What came of it changes nothing."""
        return self


def flags(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,
) -> Workload:
    """The workload for this time; it is the same for any number of nodes and clients."""
    return Workload(
        name="flags",
        client=FlagsClient(),
        generator=mix(Enables(flag_count(time_limit_s)), each(lambda _: invoke(LIST)), weights=list(WEIGHTS)),
        final_generator=sequence(final(invoke(LIST, True)), final(invoke(LIST, True))),
        checkers=(
            CheckerSpec("flags"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": [ENABLE, LIST], "reads": [LIST]}),
        ),
        fs=(ENABLE, LIST),
        needs=frozenset({FEATURE_FLAGS.name}),
        shapes={ENABLE: OpShape(value=WHOLE), LIST: OpShape(value=bool | None)},
    )
