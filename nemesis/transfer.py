"""Handing leadership over: the leader is asked to have another member lead, in the middle of everything else.

Operators do it before they stop a node, and systems do it by themselves to spread load. It is an election at a moment
that nothing else chooses: the leader lives, commands are under way, and the successor may lag, or be a learner, which
must be refused (Ongaro's thesis, 3.10; bugs of it in Ra: 114d1d37, 4196322e). A leader that follows itself after a
short while meets answers that were meant for its former term.

An op has the members that are to lead in turn, and a pause after each, drawn when it is scheduled. The node that says
it leads is asked each time; if it is to lead already, the next one in the order of the op is meant. What comes of it is
what nodes say afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.contract.transfer import Transfer
from splitbrain.harness.running.deadlines import within
from splitbrain.nemesis.checks import check_enough, check_nodes, check_over
from splitbrain.nemesis.draws import STEPS_MAX, check_pauses
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Figures, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import leader, primaries, views
from splitbrain.results.errors import NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked
from splitbrain.results.quantities import counted

FAULT: Final = "transfer"

NODES_MIN: Final = 2

ONCE: Final = (1, 1)

TIMES: Final = (2, 5)
"""How often leadership is handed over by an op that does it again and again."""

PAUSES_MS: Final = (1, 200)
"""The pause after each."""

REQUEST_S: Final = 1.0
"""Timeout of a request."""

LEADS_S: Final = 1.5
"""Timeout of the wait for a successor."""

POLL_MS: Final = 20
"""The interval between two looks."""

_MS: Final = 1_000_000


class TransferRequest(Request, tag="transfer", frozen=True, kw_only=True):
    """Who is to lead.

    Attributes:
        nodes: one after the other.
        pauses_ms: the pauses after each; there may be more pauses than nodes, because shrinking removes nodes.
        over: always true: the fault ends with the op.
    """

    nodes: tuple[NodeId, ...] = ()
    pauses_ms: tuple[int, ...] = ()
    over: bool = True


def draw(times: tuple[int, int]) -> Figures:
    """For `Injection.figures`: random members, each to lead in turn, and the pauses."""

    def figures(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
        count = rng.between(*times)
        return {
            "nodes": [rng.choice(nodes) for _ in range(count)],
            "pauses_ms": [rng.between(*PAUSES_MS) for _ in range(count)],
            "over": True,
        }

    return figures


class Transfers:
    """Has the leader hand leadership over (`transfer`); its stop (`stop-transfer`) has nothing to do.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"transfer", "stop-transfer"})
    faults: frozenset[FaultKind] = frozenset({"transfer"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Ask for what the op says; reports of each request who was asked, what was answered, and who leads then."""

        async def transfer(effect: Effect) -> None:
            wanted = asked(op.value, TransferRequest)
            check(wanted, context.deployment.nodes)
            order = wanted.order or context.deployment.nodes
            evidence: list[dict[str, Any]] = []
            for node, pause_ms in zip(wanted.nodes, wanted.pauses_ms, strict=False):  # there may be more pauses
                found = await self._hand_over(context, node, order)
                if found is not None:
                    evidence.append(found)
                await context.runtime.clock.sleep_ns(pause_ms * _MS)
            effect.hits(dict.fromkeys(each["to"] for each in evidence), otherwise="no node says that it leads")
            if evidence:
                effect.evidence |= {"transfers": evidence, "bit": any(each["leads"] for each in evidence)}

        async def stop(effect: Effect) -> None:
            effect.nothing("a transfer is over at once")

        return await carry_out(context, op, transfer if op.f == "transfer" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Nothing is left to be healed."""

    async def _hand_over(
        self, context: NemesisContext, wished: NodeId, order: Sequence[NodeId]
    ) -> dict[str, Any] | None:
        """Ask the node that leads; what came of it. None if no node says that it leads."""
        seen = await views(context)
        boss = leader(seen)
        if boss is None or boss not in primaries(seen):
            return None
        to = wished if wished != boss else next(node for node in _behind(order, boss) if node != boss)
        answer = await self._ask(context, boss, to)
        leads = answer == "done" and await self._leads(context, to, _term(seen, boss))
        if leads:
            reached("leadership transferred")
        elif answer != "done":
            reached("transfer refused")
        return {"asked": boss, "term": _term(seen, boss), "to": to, "answer": answer, "leads": leads}

    async def _ask(self, context: NemesisContext, boss: NodeId, to: NodeId) -> str:
        """What the leader answers, in words; "done" if it agreed."""
        clock, request = context.runtime.clock, _system(context).transfer(context.deployment, boss, to)
        try:
            await within(clock, REQUEST_S, request)
        except DefiniteError as refusal:
            return f"refused: {refusal}"
        except (IndefiniteError, TimeoutError) as problem:
            return f"no answer: {problem}"
        return "done"

    async def _leads(self, context: NemesisContext, node: NodeId, term: int) -> bool:
        """Wait until the node says that it leads a later term; False after the timeout, or once another one does."""
        clock = context.runtime.clock
        end_ns = clock.now_ns() + round(LEADS_S * 1e9)
        while True:
            later = [view.node for view in await views(context) if view.role == "leader" and view.term > term]
            if later or clock.now_ns() >= end_ns:
                return node in later
            await clock.sleep_ns(POLL_MS * _MS)


def _behind(order: Sequence[NodeId], node: NodeId) -> Sequence[NodeId]:
    """The nodes in their order, from the one behind this one on."""
    place = order.index(node) + 1 if node in order else 0
    return [*order[place:], *order[:place]]


def _term(seen: Sequence[NodeView], node: NodeId) -> int:
    return next(view.term for view in seen if view.node == node)


def _system(context: NemesisContext) -> Transfer:
    system = context.test.system
    transfer = system.capabilities.transfer
    if transfer is None:
        raise NemesisError(f"{FAULT}: the leader of system {system.name!r} cannot be asked to hand leadership over.")
    return transfer


def check(wanted: TransferRequest, known: Sequence[NodeId]) -> None:
    """Refuse transfers that are not possible.

    Raises:
        UsageError: a request names no nodes, or nodes that are not in the test, or lacks pauses.
    """
    check_enough(known, NODES_MIN, "a transfer of leadership")
    check_nodes(FAULT, "nodes", wanted.nodes, known)
    if not len(wanted.nodes) <= len(wanted.pauses_ms) <= STEPS_MAX:
        raise UsageError(
            f"a transfer has a pause after each of its nodes, {STEPS_MAX:,} at most: "
            f"{counted(len(wanted.nodes), 'node')}, {counted(len(wanted.pauses_ms), 'pause')}."
        )
    check_pauses("pauses_ms", wanted.pauses_ms)


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[TransferRequest]) -> None:
    check_over(given.request.over)
    check(given.request, given.nodes)


def _transfers(times: tuple[int, int]) -> tuple[Injection, ...]:
    return (Injection({}, nodes=NODES_MIN, figures=draw(times), needs=("transfer",)),)


KIND: Final = Kind(
    request=TransferRequest,
    nemesis=Transfers,
    start_f="transfer",
    stop_f="stop-transfer",
    example='{"nodes": ["n2", "n1"], "pauses_ms": [50, 50]}',
    needs=always("transfer"),
    marks=("leadership transferred", "transfer refused"),
    healed=5,
    check=_check,
    over=True,
    ways={
        "transfer": Ways(
            (_transfers(ONCE), _transfers(TIMES)),
            "asks the leader to hand leadership to a random other member, learners included: once, and 2 to 5 times",
        ),
        "transfer-once": Ways((_transfers(ONCE),), "asks the leader to hand leadership to a random other member"),
        "transfer-often": Ways(
            (_transfers(TIMES),), "asks who leads to hand leadership to random members, 2 to 5 times within a second"
        ),
    },
)
