"""A live migration: an operator has the system move its metadata from one store to another while clients work.

What was acknowledged before has to be in the second store, and what was deleted must not be there; the checkers of the
workload judge that, as they do without a migration. The request is all that is made: a system may need all of its nodes
for it, refuse, or go on when the nemesis has given up waiting. So other faults strike before, during and after it. Once
a migration has been seen to end, later ops do nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.migrations import Migrations
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import within
from splitbrain.nemesis.checks import check_over
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.errors import NemesisError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

FAULT: Final = "migrate"

WAIT_S: Final = 5.0
"""How long the answer is waited for: while it is, no other op of the nemesis begins."""


class MigrateRequest(Request, tag="migrate", frozen=True, kw_only=True):
    """A migration, asked of the first node of the order that can be reached.

    Attributes:
        over: always true: the request ends with the op.
    """

    over: bool = True


class Migrate:
    """Asks for the migration (`migrate`); its stop (`stop-migrate`) has nothing to do: there is no way back.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"migrate", "stop-migrate"})
    faults: frozenset[FaultKind] = frozenset({"migrate"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Ask for it; reports who was asked, the answer, and the store in force on each node before and after."""

        async def migrate(effect: Effect) -> None:
            wanted, system = asked(op.value, MigrateRequest), _system(context)
            before = await _stores(context)
            if set(before.values()) == {system.second}:
                effect.nothing(f"{system.second} is in force on every node")
                return
            for node in wanted.order or context.deployment.nodes:
                if before[node] is not None:
                    answer = await _ask(context, node)
                    after = await _stores(context)
                    bit = answer == "done" or system.second in {after[each] for each in after if after != before}
                    effect.hits([node], otherwise="")
                    effect.evidence |= {"asked": node, "answer": answer, "before": before, "after": after, "bit": bit}
                    reached("migration ended" if bit else "migration not seen to end")
                    return
            effect.nothing("no node says which store is in force")

        async def stop(effect: Effect) -> None:
            effect.nothing("there is no way back")

        return await carry_out(context, op, migrate if op.f == "migrate" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Nothing is left to be healed."""


async def _stores(context: NemesisContext) -> dict[NodeId, str | None]:
    """By node the store in force, None if it does not say."""
    system = _system(context)
    nodes = context.deployment.nodes
    found = await asyncio.gather(*(system.store_of(context.deployment, node) for node in nodes))
    return dict(zip(nodes, found, strict=True))


async def _ask(context: NemesisContext, node: NodeId) -> str:
    """What a node answers, in words; "done" if it says that everything was moved."""
    request = _system(context).migrate(context.deployment, node)
    try:
        await within(context.runtime.clock, WAIT_S, request)
    except DefiniteError as refusal:
        return f"refused: {refusal}"
    except TimeoutError:
        return f"no answer within {WAIT_S:g} s"
    except IndefiniteError as problem:
        return f"no answer: {problem}"
    return "done"


def _system(context: NemesisContext) -> Migrations:
    system = context.test.system
    migrations = system.capabilities.migrations
    if migrations is None:
        raise NemesisError(f"{FAULT}: system {system.name!r} cannot be asked to move its metadata to another store.")
    return migrations


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[MigrateRequest]) -> None:
    check_over(given.request.over)


KIND: Final = Kind(
    request=MigrateRequest,
    nemesis=Migrate,
    start_f="migrate",
    stop_f="stop-migrate",
    example="{}",
    needs=always("migrate"),
    marks=("migration ended", "migration not seen to end"),
    healed=5,
    check=_check,
    over=True,
    ways={
        "migrate": Ways(
            ((Injection({"over": True}, needs=("migrate",)),),),
            "asks a node to move the system's metadata to its second store, until it has",
        )
    },
)
