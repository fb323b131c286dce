"""Members that leave the cluster, and join it again as new ones with nothing on their disks.

Operators do this when they lose a machine, and systems have lost quorums and data by it: after a change a majority
consists of other members than before, and a removed member may not know (Ongaro's dissertation of 2014, chapter 4, and
his correction of 2015; Jepsen's membership nemesis).

An op has the spec of its target (`spec`). A leave (`leave`) asks another member to remove it, verifies on the others'
lists that it is gone, ends its process, and wipes its data. At most one node is out at a time, and a node leaves only
if the others keep a healthy majority: the cluster must be able to recover. A join (`join`) asks a member to add the
node, starts it, and waits until it serves and the lists agree.

A system may refuse a change, as etcd does until all members have been connected for a while. The request is repeated
for some seconds. While another fault is in force it is repeated for less time, and then any other member may leave
instead. A refused leave removes no node. After a refused join the node stays out until the next join, at the latest
until everything is healed. Then the wait goes on as long as any node comes nearer to the others: a member that takes
over a snapshot in small parts hears late of a change. A node that does not come back nevertheless is not started any
more, and the recovery says that it is out.

A replacement lets one node leave, and then has it taken in while another one is removed, both requested at once, as who
exchanges machines does. A node can also join as a learner, in the op by which it leaves; the op that ends the fault
promotes it. In between it is a member which must not vote, nor lead.

A rash leave asks nodes that say they lead, also those that are cut off, to remove two members at once, those first
that it does not reach: so do operators who see half of a cluster. What becomes of these requests may show late. The
next join waits until all members list the same members; what they list is a member, and the others join again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from splitbrain.harness.contract.faults import DiskFault, FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.membership import Learners, Membership
from splitbrain.harness.contract.nodes import Link, NodeId
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together, within
from splitbrain.harness.running.processes import describe
from splitbrain.nemesis.changes import REQUEST_S, Deadline, NotDoneError, PatientDeadline, certain, patiently
from splitbrain.nemesis.effects import Effect, carry_out, in_force, status_evidence
from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.rosters import (
    Members,
    can_spare,
    cut_off,
    reachable,
    roster,
    running,
    takes_another,
    with_majority,
)
from splitbrain.nemesis.targets import choose, leads, needs_views, primaries, views
from splitbrain.results.errors import NemesisError, NodeStartError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked

FAULT: Final = "membership"

NODES_MIN: Final = 3
"""With fewer nodes no other node remains that could lead or be disturbed."""

SPECS: Final = ("one", "leader", "follower", "primaries")
"""Node specs that mean a single node, and that of a rash leave."""

LEAVES_S: Final = 3.0
"""Timeout of a leave that is not refused: the others know that a leader left once they have a new one."""

PATIENT_S: Final = 9.0
"""How long a refused change is repeated: etcd requires that its members were connected for five seconds."""

HURRIED_S: Final = 1.5
"""The same while another fault is in force: that fault does not end before this op."""

HEALED_S: Final = 30.0
"""The same limit when everything is healed; it begins again whenever a node comes nearer to the others."""

SERVES_S: Final = 10.0
"""Timeout for lists to show a change, and for an added node to serve."""


RASH: Final = 2
"""How many members a node is asked to remove at once by a rash leave."""

RASH_NODES_MIN: Final = 4
"""With fewer nodes too few could be left."""


Wait: TypeAlias = Callable[[NemesisContext, float], Deadline]
"""How a deadline begins, so many seconds ahead: an op's is fixed, that of the healing may be put off."""


class MembershipRequest(RequestOfNodes, tag="membership", frozen=True, kw_only=True):
    """The node that leaves: one of `SPECS`.

    Attributes:
        rash: ask nodes that say they lead to remove members, whomever they reach: one of them, or all ("primaries").
        replace: let it join again while another one leaves.
        learner: let it join again as a learner; it is promoted when the fault ends.
    """

    rash: bool = False
    replace: bool = False
    learner: bool = False


@dataclass
class _Out:
    """The state of a node that left, or was asked to.

    Attributes:
        member: its id.
        gone: whether it was seen to be removed, has ended, and has no data.
        doubtful: whether it is not known yet if it was removed.
        added: its id as a new member, once it was added.
    """

    member: str
    gone: bool = False
    doubtful: bool = False
    added: str | None = None


class MembershipChanges:
    """Lets a node leave (`leave`), and join again (`join`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"leave", "join"})
    faults: frozenset[FaultKind] = frozenset({"membership", "kill", "learners"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._out: dict[NodeId, _Out] = {}
        self._learners: dict[NodeId, str] = {}
        """The members that joined as learners, and were not promoted yet."""
        self._began = False
        """Whether any node was to leave so far."""

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Let the op's target leave, or let the node that left join; reports the members' lists."""

        async def leave(effect: Effect) -> None:
            self._began = True
            if self._out or self._learners:
                effect.nothing(f"{' '.join([*self._out, *self._learners])} is still out")
                return
            wanted = asked(op.value, MembershipRequest)
            # A node that leaves after the clients have stopped has no effect on them.
            left_s = context.test.time_limit_s - op.time / 1e9 - LEAVES_S
            order = wanted.order or context.deployment.nodes
            if wanted.rash:
                await self._leave_rashly(context, wanted.node_spec, order, effect)
                return
            await self._leave(context, wanted.node_spec, order, left_s, effect)
            if wanted.replace:
                await self._replace(context, order, effect)
            elif wanted.learner:
                await self._come_back(context, effect, learner=True)

        async def join(effect: Effect) -> None:
            effect.hits([*self._learners, *self._out], otherwise="every node is a member")
            if not await self._doubts_end(context):
                effect.nothing("it is not known yet who is a member")
                return
            await self._come_back(context, effect)

        return await carry_out(context, op, leave if op.f == "leave" else join, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Let the nodes that are out join, and wait until all that run list the same members.

        A change that stands still is waited for no longer than a recovery may take. Whether all nodes are members then,
        and list each other, is a question of recovery (`splitbrain.harness.running.recovery`). A node that is still out
        is not started after that (`splitbrain.harness.running.crashes`).
        """
        deadline = PatientDeadline(context, min(max(context.test.recovery_s, PATIENT_S), HEALED_S))
        if not await self._end_doubts(context, deadline):
            reached("member did not come back")
            return
        for node in [*self._learners, *await self._in_order(context)]:
            while node in self._out or node in self._learners:
                try:
                    await self._back(context, node, PATIENT_S, {}, wait=PatientDeadline)
                except (NotDoneError, NemesisError):  # the node stays out, whatever step it was
                    if not await deadline.allows_another():
                        reached("member did not come back")
                        break
        while self._began and await self._is_changing(context):
            if not await deadline.allows_another():
                break

    async def _end_doubts(self, context: NemesisContext, deadline: Deadline) -> bool:
        """Wait until it is known of every node if it was removed; False if it is not at the deadline."""
        while True:
            try:
                if await self._doubts_end(context):
                    return True
            except NemesisError:  # it is removed, and others still list it
                pass
            if not await deadline.allows_another():
                return False

    async def _is_changing(self, context: NemesisContext) -> bool:
        """Whether nodes that run list different members, or learners that are to get a vote."""
        alive, clock = await running(context), context.runtime.clock
        seen = await roster(context, _membership(context), alive)
        if len(seen.lists) < len(alive) or len({frozenset(listed.items()) for listed in seen.lists.values()}) > 1:
            return True
        learners = context.test.system.capabilities.learners
        if learners is None:
            return False
        asked = [within(clock, REQUEST_S, learners.listed(context.deployment, node)) for node in alive]
        return any(isinstance(answer, Exception) or any(answer.values()) for answer in await together(asked))

    # --- leaving ------------------------------------------------------------------------------------------------------

    async def _leave(
        self, context: NemesisContext, spec: str, order: Sequence[NodeId], left_s: float, effect: Effect
    ) -> None:
        before = await roster(context, _membership(context), await running(context))
        effect.evidence["listed"] = before.as_evidence()
        members = before.agreed()
        if members is None:
            effect.nothing("no majority agrees on who is a member")
            return
        seen = await views(context) if needs_views(spec) else ()
        targets = choose(spec, order, seen)
        able = await self._able(context, [*targets, *(node for node in order if node not in targets)], members)
        if not able:
            effect.nothing("no member can be spared")
            return
        hurried = await self._hurried(context)
        attempts = [functools.partial(self._ask_to_leave, context, node, members) for node in able]
        try:
            node, asked = await patiently(
                context, min(left_s, HURRIED_S if hurried else PATIENT_S), attempts if hurried else attempts[:1]
            )
        except NotDoneError as problem:
            if not problem.definite:
                raise NemesisError(f"{FAULT}: it is unknown whether {' '.join(self._out)} left: {problem}.") from None
            effect.nothing(f"the cluster refuses to let a member go ({problem})")
            reached("membership change refused")
            return
        effect.target = node
        evidence = {"member": self._out[node].member, "members": dict(members), "asked": asked, "bit": True}
        effect.evidence[node] = evidence
        await self._expel(context, node, evidence)
        reached("member removed")
        if leads(node, seen):
            reached("leader removed")

    async def _leave_rashly(self, context: NemesisContext, spec: str, order: Sequence[NodeId], effect: Effect) -> None:
        """Ask one node that says it leads, or all of them, to remove members, and wait for no outcome."""
        before = await roster(context, _membership(context), await running(context))
        effect.evidence["listed"] = before.as_evidence()
        members = before.agreed()
        if members is None or sorted(members.values()) != sorted(context.deployment.nodes):
            effect.nothing("a majority does not list every node")
            return
        leading = primaries(await views(context))
        bosses = [node for node in order if node in leading]
        if spec != "primaries":
            bosses = bosses[:1]
        if not bosses:
            effect.nothing("no node says that it leads")
            return
        ids = {node: member for member, node in members.items()}
        cut = await context.deployment.dropped()
        asked = [
            (boss, node)
            for boss in bosses
            for node in _unreached_first(boss, [node for node in order if node != boss], cut)[:RASH]
            if not self._ledger.held_by_others(node, FAULT)
        ]
        for _, node in asked:
            self._out.setdefault(node, _Out(ids[node], doubtful=True))
            self._ledger.hold(node, FAULT)
        effect.hits(dict.fromkeys(node for _, node in asked), otherwise="no member can be spared")
        system, clock = _membership(context), context.runtime.clock
        answers = await together(
            [within(clock, REQUEST_S, system.remove(context.deployment, boss, node, ids[node])) for boss, node in asked]
        )
        effect.evidence["bit"] = True
        effect.evidence["asked"] = [
            [boss, node, "done" if answer is None else describe(answer)]
            for (boss, node), answer in zip(asked, answers, strict=True)
        ]
        reached("members removed rashly")

    async def _doubts_end(self, context: NemesisContext) -> bool:
        """Whether it is known of every node if it was removed: once all members list the same members.

        A member that holds a change which is not committed lists it, so that none of them does then.
        """
        doubtful = [node for node, out in self._out.items() if out.doubtful]
        if not doubtful:
            return True
        system, alive = _membership(context), await running(context)
        for node in doubtful:
            if node in alive or self._ledger.held_by_others(node, FAULT):
                continue
            if (await context.deployment.status(node)).state == "stopped":  # one that is paused is another fault's
                system.settle(node)  # or it could not be started
                await context.deployment.start(node)
        seen = await roster(context, system, await running(context))
        members = seen.agreed()
        if members is None or any(seen.lists.get(node) != members for node in members.values()):
            return False
        for node in doubtful:
            if self._out[node].member in members:
                self._settle(context, node)
        removed = [node for node in doubtful if node in self._out]
        if removed and not await with_majority(context, self._out):
            return False
        # All of them before one joins: a node that was removed, and runs, lists other members.
        for node in removed:
            await self._expel(context, node, {})
            self._out[node].doubtful = False
            reached("member removed")
        return True

    async def _able(self, context: NemesisContext, wished: Sequence[NodeId], members: Members) -> list[NodeId]:
        """Of the requested nodes those that run, have no other fault, and can be spared."""
        alive = await running(context)
        lost = {*self._ledger.spoiled, *self._ledger.rotted}
        healthy = [node for node in alive if node not in lost]
        return [
            node
            for node in wished
            if node in alive
            and node in members.values()
            and node not in self._ledger.spoiled
            and not self._ledger.held_by_others(node, FAULT)
            and can_spare(node, list(members.values()), healthy)
        ]

    async def _ask_to_leave(self, context: NemesisContext, node: NodeId, members: Members) -> tuple[NodeId, NodeId]:
        """Remove a node; returns the node, and the member that was asked.

        Raises:
            NotDoneError: it was refused, and the node stays; or the outcome is unknown.
        """
        member = next(member for member, found in members.items() if found == node)
        self._out[node] = _Out(member)
        self._ledger.hold(node, FAULT)
        try:
            return node, await self._ask_to_remove(context, node)
        except NotDoneError as problem:
            if problem.definite:
                self._settle(context, node)
            raise

    async def _ask_to_remove(self, context: NemesisContext, node: NodeId) -> NodeId:
        system, member = _membership(context), self._out[node].member
        asked, _ = await certain(
            context,
            lambda: with_majority(context, self._out),
            lambda asked: system.remove(context.deployment, asked, node, member),
        )
        return asked

    async def _expel(
        self, context: NemesisContext, node: NodeId, evidence: dict[str, Any], wait: Wait = Deadline
    ) -> None:
        """Verify that no node with a majority lists the removed node, end its process, and wipe its data.

        Raises:
            NemesisError: it is still listed.
        """
        out, deadline = self._out[node], wait(context, SERVES_S)
        while True:
            after = await roster(context, _membership(context), await with_majority(context, self._out))
            if after.lists and len(after.without(out.member)) == len(after.lists):
                break
            if not await deadline.allows_another():
                raise NemesisError(f"{FAULT}: {node} was removed, and others still list it: {after.as_evidence()}.")
        evidence["unlisted by"] = after.as_evidence()
        evidence["before"] = status_evidence(await context.deployment.status(node))
        evidence["after"] = status_evidence(await context.deployment.kill(node))
        evidence["wiped"] = dict(await context.deployment.spoil(node, DiskFault(wipe=True))).get("wiped")
        self._ledger.damaged.pop(node, None)
        await context.deployment.spoil(node, None)
        out.gone = True

    async def _replace(self, context: NemesisContext, order: Sequence[NodeId], effect: Effect) -> None:
        """Have the node that left taken in, and another one removed, without waiting for one before the other."""
        seen = await roster(context, _membership(context), await running(context))
        members, gone = seen.agreed(), list(self._out)
        able = (
            [] if members is None else await self._able(context, [node for node in order if node not in gone], members)
        )
        if not gone or members is None or not able:
            effect.evidence["replaced"] = "no member can be spared"
            return
        one, other = gone[0], able[0]
        joined: dict[str, Any] = effect.evidence.setdefault(one, {})
        left: dict[str, Any] = {"member": next(member for member, node in members.items() if node == other)}
        effect.evidence[other] = left
        limit_s = HURRIED_S if await self._hurried(context) else PATIENT_S

        async def leave() -> None:
            _, left["asked"] = await patiently(context, limit_s, [lambda: self._ask_to_leave(context, other, members)])
            await self._expel(context, other, left)
            reached("member removed")

        answers = await together([self._join(context, one, limit_s, joined), leave()])
        for answer in answers:
            if answer is not None and not isinstance(answer, NotDoneError):
                raise answer
        effect.evidence["replaced"] = [None if answer is None else str(answer) for answer in answers]
        if not any(answers):
            reached("member replaced")
        effect.hits(dict.fromkeys([one, *self._out]), otherwise="")

    # --- joining ------------------------------------------------------------------------------------------------------

    async def _come_back(self, context: NemesisContext, effect: Effect, *, learner: bool = False) -> None:
        """Promote those that joined as learners, and let those that are out join.

        Raises:
            NemesisError: one did not, although nothing else is wrong.
        """
        hurried = await self._hurried(context)
        for node in [*self._learners, *await self._in_order(context)]:
            evidence: dict[str, Any] = effect.evidence.setdefault(node, {})
            try:
                await self._back(context, node, HURRIED_S if hurried else PATIENT_S, evidence, learner=learner)
            except NotDoneError as problem:
                if not hurried:
                    raise NemesisError(f"{FAULT}: {node} did not join: {problem}.") from None
                effect.nothing(f"{node} is not back ({problem})")

    async def _in_order(self, context: NemesisContext) -> list[NodeId]:
        """The nodes that are out; those first that a member lists under a new id.

        They were added by a request without an answer. Until they run, the others may have no majority.
        """
        if len(self._out) < 2:
            return list(self._out)
        seen = await roster(context, _membership(context), await with_majority(context, self._out))
        listed = {
            node
            for members in seen.lists.values()
            for member, node in members.items()
            if node in self._out and member != self._out[node].member
        }
        return sorted(self._out, key=lambda node: node not in listed)

    async def _back(
        self,
        context: NemesisContext,
        node: NodeId,
        limit_s: float,
        evidence: dict[str, Any],
        *,
        learner: bool = False,
        wait: Wait = Deadline,
    ) -> None:
        """Promote a node that is a learner, or let it join; raises NotDoneError as `_join`."""
        if node not in self._learners:
            await self._join(context, node, limit_s, evidence, learner=learner, wait=wait)
            return
        learners, member = _learners(context), self._learners[node]

        async def promote() -> tuple[NodeId, None]:
            return await certain(
                context,
                lambda: with_majority(context, self._out),
                lambda asked: learners.promote(context.deployment, asked, member),
            )

        evidence["member"] = member
        evidence["asked"], _ = await patiently(context, limit_s, [promote])
        del self._learners[node]
        reached("learner promoted")

    async def _join(
        self,
        context: NemesisContext,
        node: NodeId,
        limit_s: float,
        evidence: dict[str, Any],
        *,
        learner: bool = False,
        wait: Wait = Deadline,
    ) -> None:
        """Add a node that left, start it, and verify that it serves as a member.

        Raises:
            NotDoneError: it was refused, its outcome is unknown, or the node does not serve.
        """
        adds, out = _learners(context) if learner else _membership(context), self._out[node]
        if not out.gone:
            await patiently(context, limit_s, [lambda: self._ask_to_remove(context, node)])
            await self._expel(context, node, evidence, wait)

        async def add() -> tuple[NodeId, str]:
            if not learner:
                await self._refuse_without_majority(context, node)
            return await certain(
                context,
                lambda: with_majority(context, self._out),
                lambda asked: adds.add(context.deployment, asked, node),
            )

        if len(await reachable(context, node, self._out)) + 1 < majority(len(context.deployment.nodes)):
            raise NotDoneError(f"{node} reaches no majority", definite=True)
        if out.added is None:
            evidence["asked"], out.added = await patiently(context, limit_s, [add])
        evidence["member"] = out.added
        await self._until(wait(context, limit_s), lambda: self._is_known(context, node, evidence))
        try:
            await self._until(wait(context, SERVES_S), lambda: self._comes_up(context, node, evidence))
        except NotDoneError:
            self._out[node] = _Out(out.added)  # not as this member any more: it may have taken itself for another
            raise
        evidence["after"] = status_evidence(await context.deployment.status(node))
        self._settle(context, node)
        if learner:
            self._learners[node] = out.added
            reached("member joined as learner")
        reached("member added")

    async def _refuse_without_majority(self, context: NemesisContext, node: NodeId) -> None:
        """Refuse to add a voter if the members that run were no majority then.

        The change is in force once it is in the log. If another added member does not run yet, both together can leave
        the cluster without a majority for ever.

        Raises:
            NotDoneError: by the list of a member too few would run.
        """
        seen = await roster(context, _membership(context), await with_majority(context, self._out))
        alive = await running(context)
        for listed in seen.lists.values():
            if not takes_another(node, listed, alive):
                raise NotDoneError(f"of {' '.join(sorted(listed))} too few run for one more", definite=True)

    async def _until(self, deadline: Deadline, problem: Callable[[], Coroutine[Any, Any, str | None]]) -> None:
        """Wait until there is no problem any more.

        Raises:
            NotDoneError: there still is.
        """
        while (found := await problem()) is not None:
            if not await deadline.allows_another():
                raise NotDoneError(found, definite=False)

    async def _is_known(self, context: NemesisContext, node: NodeId, evidence: dict[str, Any]) -> str | None:
        """A sentence on the nodes that would reach a starting node and do not list its new member id, or None.

        From them it would learn that it is the member that left, and act as that one, with an empty disk; a minority
        that is cut off keeps etcd's nodes from noticing.
        """
        peers = await reachable(context, node, self._out)
        seen = await roster(context, _membership(context), peers)
        evidence["listed by"] = seen.as_evidence()
        strangers = [peer for peer in peers if self._out[node].added not in seen.lists.get(peer, {})]
        return f"{node} was taken in, and {', '.join(strangers)} did not hear of it" if strangers else None

    async def _comes_up(self, context: NemesisContext, node: NodeId, evidence: dict[str, Any]) -> str | None:
        """Start an added node; returns what is missing for it to serve as a member.

        A node with a cut link need not know of the change.
        """
        try:
            await context.deployment.start(node)
        except NodeStartError as problem:
            return str(problem)
        seen = await roster(context, _membership(context), await running(context))
        evidence["listed by"] = seen.as_evidence()
        own, excused = seen.lists.get(node), await cut_off(context)
        view = await context.test.system.view(context.deployment, node)
        if own is None or view is None or view.leader is None:
            return f"{node} was taken in, and does not serve"
        agreeing = [other for other, listed in seen.lists.items() if listed == own]
        others = [other for other in seen.lists if other not in agreeing and other not in excused]
        if others or self._out[node].added not in own or len(agreeing) < majority(len(own)):
            return f"{node} was taken in, and the members' lists differ: {seen.as_evidence()}"
        return None

    # --- what else is in force ----------------------------------------------------------------------------------------

    def _settle(self, context: NemesisContext, node: NodeId) -> None:
        del self._out[node]
        self._ledger.release(FAULT)
        for other in self._out:
            self._ledger.hold(other, FAULT)
        _membership(context).settle(node)

    async def _hurried(self, context: NemesisContext) -> bool:
        """Whether anything is wrong with the cluster beside the node that is out."""
        found = await in_force(context.deployment, self._ledger)
        others_down = set(found.down or ()) - set(self._out)
        faults = (found.cut, found.paused, found.links, found.disks, found.clocks, found.cpus, found.clients)
        return bool(others_down) or any(faults)


def _unreached_first(boss: NodeId, nodes: Sequence[NodeId], cut: Collection[Link]) -> list[NodeId]:
    """Nodes, those first with which this one has no links in both directions."""
    return sorted(nodes, key=lambda node: (boss, node) not in cut and (node, boss) not in cut)


def _membership(context: NemesisContext) -> Membership:
    system = context.test.system
    members = system.capabilities.membership
    if members is None:
        raise NemesisError(f"{FAULT}: the members of system {system.name!r} are fixed.")
    return members


def _learners(context: NemesisContext) -> Learners:
    system = context.test.system
    learners = system.capabilities.learners
    if learners is None:
        raise NemesisError(f"{FAULT}: every member of system {system.name!r} votes from the beginning.")
    return learners
