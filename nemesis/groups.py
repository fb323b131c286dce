"""Groups of nodes that are deleted, and made again under the same name: clusters of their own in the same processes.

A queue that is deleted and declared again does that. The new group must have nothing of the former one, although its
name is the same, its members are, and what is left of the former one may still be on their disks or on its way
(`INTERNALS.md` of Ra on uids).

An op stores numbers in a group, which it makes first if there is none, deletes it on all nodes that run, and makes it
again at once: on all of them, or on some only, as by an operator who was interrupted, so that the new group has
members and no leader until the op that ends the fault makes it on the others. That one reads what the new group
holds, and has it store a number. Nothing but these ops uses the group: what a client finds in a group that is deleted
under its hands is no anomaly.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Literal, TypeAlias

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.groups import Groups
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together, within
from splitbrain.nemesis.changes import Deadline, PatientDeadline
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.rosters import running
from splitbrain.results.errors import NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

FAULT: Final = "groups"

GROUP: Final = "g1"
"""The name of every group that is made."""

WRITES_MAX: Final = 100

REQUEST_S: Final = 1.0
"""Timeout of a request."""

STORES_S: Final = 3.0
"""Timeout of the first number that a new group stores: it elects a leader before that."""

HEALED_S: Final = 30.0
"""How long groups that do not go are deleted again when everything is healed, if a recovery may take as long.

It begins again whenever a group went, and whenever a node comes nearer to the others, which may keep it busy."""

MadeOn: TypeAlias = Literal["all", "some"]


class GroupsRequest(Request, tag="groups", frozen=True, kw_only=True):
    """How a group is made again.

    Attributes:
        on: "all" nodes that run, or "some": fewer than a majority.
        writes: numbers that it stores before.
    """

    on: MadeOn = "all"
    writes: int = 10


class Regrouping:
    """Deletes a group and makes it again (`regroup`); completes that (`settle-group`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"regroup", "settle-group"})
    faults: frozenset[FaultKind] = frozenset({"groups"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._incarnation: int | None = None  # of the group that was made last
        self._founders: tuple[str, ...] = ()
        self._stored = 0

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Make the group again, or complete that; reports what each node was asked for, and what it answered."""

        async def regroup(effect: Effect) -> None:
            wanted = asked(op.value, GroupsRequest)
            nodes = [node for node in wanted.order or context.deployment.nodes if node in await running(context)]
            if not nodes:
                effect.nothing("no node was running")
                return
            if self._incarnation is None:
                await self._begin(context, nodes)
                effect.evidence["first made on"] = await self._make(context, nodes)
            effect.evidence["stored"] = await self._store(context, nodes, wanted.writes)
            effect.evidence["deleted"] = deleted = await self._delete(context, nodes)
            await self._begin(context, context.deployment.nodes)
            few = max(1, majority(len(context.deployment.nodes)) - 1)
            made = await self._make(context, nodes if wanted.on == "all" else nodes[:few])
            self._report(effect, made)
            done = [node for node, answer in made.items() if answer == "done"]
            if done and all(deleted.get(node) == "done" for node in done):
                reached("group made again")
            if done and wanted.on == "some":
                reached("group made in part")

        async def settle(effect: Effect) -> None:
            nodes = await running(context)
            if self._incarnation is None:
                effect.nothing("no group was made")
                return
            self._report(effect, await self._make(context, nodes))
            effect.evidence["read"] = await self._read(context, nodes)
            effect.evidence["stored"] = await self._store(context, nodes, 1)

        return await carry_out(context, op, regroup if op.f == "regroup" else settle, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Delete the group on every node that runs, also on one that comes up meanwhile.

        Where it does not go for as long as a recovery may take, it stays.
        """
        if self._incarnation is None:
            return
        gone, deadline = set[NodeId](), self._patience(context)
        while left := [node for node in await running(context) if node not in gone]:
            answers = await self._delete(context, left)
            went = [node for node, answer in answers.items() if answer == "done"]
            if went:
                gone.update(went)
                deadline = self._patience(context)
            elif not await deadline.allows_another():
                reached("group left behind")
                return

    def _patience(self, context: NemesisContext) -> Deadline:
        return PatientDeadline(context, min(max(context.test.recovery_s, STORES_S), HEALED_S))

    # --- what nodes are asked for -------------------------------------------------------------------------------------

    async def _begin(self, context: NemesisContext, nodes: Sequence[NodeId]) -> None:
        """Decide who founds the next group."""
        self._incarnation = 0 if self._incarnation is None else self._incarnation + 1
        self._founders = tuple(sorted(await _system(context).members(context.deployment, nodes)))

    async def _make(self, context: NemesisContext, nodes: Sequence[NodeId]) -> dict[NodeId, str]:
        """Have nodes begin the group; by node what came of it.

        A node that has a former one still forgets that first. One that founded the group, and lost its data since, is
        another member, and stays out: it would have forgotten what it promised.
        """
        system, deployment, incarnation, founders = (
            _system(context),
            context.deployment,
            self._incarnation,
            self._founders,
        )
        assert incarnation is not None, "it was decided who founds a group"

        async def make(node: NodeId) -> None:
            if not set(await system.members(deployment, [node])) <= set(founders):
                raise DefiniteError("it is no founder")
            if (await system.listed(deployment, node)).get(GROUP, incarnation) != incarnation:
                await system.delete(deployment, node, GROUP)
            await system.make(deployment, node, GROUP, incarnation, founders)

        made = await _answers(context, nodes, make)
        if "done" in made.values():
            reached("group made")
        return made

    async def _delete(self, context: NemesisContext, nodes: Sequence[NodeId]) -> dict[NodeId, str]:
        """Have nodes forget the group; by node what came of it."""
        system = _system(context)
        deleted = await _answers(context, nodes, lambda node: system.delete(context.deployment, node, GROUP))
        if deleted and all(answer == "done" for answer in deleted.values()):
            reached("group deleted")
        return deleted

    async def _store(self, context: NemesisContext, nodes: Sequence[NodeId], count: int) -> list[int]:
        """Have the group store numbers, asked through one node after the other; those that it stored."""
        system, deadline, stored = _system(context), Deadline(context, STORES_S), list[int]()
        turn = 0
        while len(stored) < count and nodes:
            value, node = self._stored + 1, nodes[turn % len(nodes)]
            turn += 1
            try:
                await within(context.runtime.clock, REQUEST_S, system.put(context.deployment, node, GROUP, value))
            except (DefiniteError, IndefiniteError, TimeoutError):
                if not await deadline.allows_another():
                    break
                continue
            self._stored = value
            stored.append(value)
        if stored:
            reached("group stored")
        return stored

    async def _read(self, context: NemesisContext, nodes: Sequence[NodeId]) -> dict[NodeId, int | None]:
        """What the first node that answers reads in the group, which elects a leader before; nothing if none does."""
        system, deadline, turn = _system(context), Deadline(context, STORES_S), 0
        while nodes:
            node = nodes[turn % len(nodes)]
            turn += 1
            try:
                return {
                    node: await within(context.runtime.clock, REQUEST_S, system.get(context.deployment, node, GROUP))
                }
            except (DefiniteError, IndefiniteError, TimeoutError):
                if not await deadline.allows_another():
                    break
        return {}

    def _report(self, effect: Effect, made: dict[NodeId, str]) -> None:
        done = [node for node, answer in made.items() if answer == "done"]
        effect.hits(done, otherwise="no node began the group")
        effect.evidence |= {
            "group": GROUP,
            "incarnation": self._incarnation,
            "founders": list(self._founders),
            "made": made,
            "bit": bool(done),
        }


async def _answers(
    context: NemesisContext, nodes: Sequence[NodeId], ask: Callable[[NodeId], Coroutine[Any, Any, None]]
) -> dict[NodeId, str]:
    """Ask nodes, all at once; by node "done", or what went wrong."""
    answers = await together([within(context.runtime.clock, REQUEST_S, ask(node)) for node in nodes])
    found: dict[NodeId, str] = {}
    for node, answer in zip(nodes, answers, strict=True):
        if answer is None:
            found[node] = "done"
        elif isinstance(answer, DefiniteError | IndefiniteError | TimeoutError):
            found[node] = f"{'refused' if isinstance(answer, DefiniteError) else 'no answer'}: {answer}"
        else:
            raise answer
    return found


def _system(context: NemesisContext) -> Groups:
    system = context.test.system
    groups = system.capabilities.groups
    if groups is None:
        raise NemesisError(f"{FAULT}: nodes of system {system.name!r} take part in one cluster only.")
    return groups


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[GroupsRequest]) -> None:
    if not 0 <= given.request.writes <= WRITES_MAX:
        raise UsageError(f"{given.f}: writes is 0 to {WRITES_MAX}, not {given.request.writes}.")


def _made(on: MadeOn) -> tuple[Injection, ...]:
    return tuple(Injection({"on": on, "writes": writes}, needs=("groups",)) for writes in (3, 20))


KIND: Final = Kind(
    request=GroupsRequest,
    nemesis=Regrouping,
    start_f="regroup",
    stop_f="settle-group",
    example='{"on": "some", "writes": 10}',
    needs=always("groups"),
    marks=(
        "group made",
        "group made in part",
        "group deleted",
        "group made again",
        "group stored",
        "group left behind",
    ),
    healed=90,
    check=_check,
    takes_s=STORES_S,
    ways={
        "groups": Ways(
            (_made("all"), _made("some")),
            "deletes a group of all nodes and makes it again at once: in turn on all nodes, and on some at first",
        ),
        "groups-all": Ways((_made("all"),), "deletes a group and makes it again at once on all nodes"),
        "groups-some": Ways((_made("some"),), "deletes a group and makes it again on some nodes, later on the others"),
    },
)
