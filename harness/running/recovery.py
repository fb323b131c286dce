"""Whether a system is usable: every node runs, all agree on one leader, and a session on every node answers a read.

Asked twice in a run: before the test begins, and after everything was healed. If members left and joined meanwhile, all
nodes must list all nodes again, and none of them as a learner that is to vote once it has caught up: nothing else is
left to be done then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.operations import COLLECTIONS, CREATIONS, included, need
from splitbrain.harness.contract.sessions import StandbyError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.deadlines import together, within
from splitbrain.harness.running.processes import describe
from splitbrain.results.errors import ProtocolError

POLL_NS = 100_000_000
"""Pause between two looks."""

ANSWER_LIMIT_S = 2.0
"""How long one node may take to answer one look."""

PROBE_KEY = "splitbrain-probe"
"""The key (or collection) that is read to see whether a node answers; no client writes it."""


class OwnProblem(str):
    """What is wrong with a node, in words, where the code that asked failed: it says nothing of the node."""

    __slots__ = ()


class Ended(str):
    """What is said of a node whose process has ended."""

    __slots__ = ()


def in_words(problems: Mapping[NodeId, str]) -> dict[NodeId, str]:
    """What is wrong, by node, as a history can carry it."""
    return {node: str(problem) for node, problem in problems.items()}


_OWN_ERRORS = (AssertionError, AttributeError, KeyError, NameError, ProtocolError, TypeError)
"""Errors of the code that asks a node."""


class Usable(msgspec.Struct, frozen=True):
    """Attributes: seconds until the system was usable, None if it was not in time; else what was wrong, by node."""

    seconds: float | None
    problems: dict[NodeId, str]


async def until_usable(
    test: Test,
    deployment: Deployment,
    clock: Clock,
    limit_s: float,
    *,
    nodes: Sequence[NodeId] | None = None,
    go_on: Callable[[], bool] = lambda: True,
    lists_members: bool = False,
    starts_again: bool = True,
) -> Usable:
    """Wait until these nodes, or else all, are usable, for `limit_s` at most, or until `go_on` says no.

    With `starts_again` a node that has ended may be started again meanwhile; without it, the wait ends with the node.

    With `lists_members` each must list every node of the test as a member, by the same ids, and no learner that is to
    vote.

    Raises:
        ProtocolError: the system's sessions are not what it declares.
    """
    nodes = test.nodes if nodes is None else nodes
    started_ns = clock.now_ns()
    end_ns = started_ns + round(limit_s * 1e9)
    while True:
        problems = await _look(test, deployment, clock, nodes)
        if not problems and lists_members:
            problems = await _lists(test, deployment, clock, nodes)
        now_ns = clock.now_ns()
        if not problems:
            return Usable((now_ns - started_ns) / 1e9, {})
        ended = not starts_again and any(isinstance(problem, Ended) for problem in problems.values())
        if ended or now_ns >= end_ns or not go_on():
            return Usable(None, problems)
        await clock.sleep_ns(min(POLL_NS, end_ns - now_ns))


async def _look(test: Test, deployment: Deployment, clock: Clock, nodes: Sequence[NodeId]) -> dict[NodeId, str]:
    """What is wrong now, by node."""
    views = await together([within(clock, ANSWER_LIMIT_S, _view(test, deployment, node)) for node in nodes])
    problems = _disagreement(nodes, views)
    if problems:
        return problems
    reads = await together([within(clock, ANSWER_LIMIT_S, _read(test, deployment, node)) for node in nodes])
    for read in reads:
        if isinstance(read, ProtocolError):  # no waiting makes it better
            raise read
    leaders = {view.leader for view in views if isinstance(view, NodeView)}
    return {
        node: _words("does not answer a read: ", read)
        for node, read in zip(nodes, reads, strict=True)
        if isinstance(read, Exception) and not _may_refuse(test, node, leaders, read)
    }


def _words(before: str, error: Exception) -> str:
    words = before + describe(error)
    return OwnProblem(words) if isinstance(error, _OWN_ERRORS) else words


def _may_refuse(test: Test, node: NodeId, leaders: set[NodeId | None], refusal: Exception) -> bool:
    """Whether a standby refused, as it may: it has said already that it runs and whom it follows."""
    return test.system.capabilities.standbys and node not in leaders and isinstance(refusal, StandbyError)


async def _view(test: Test, deployment: Deployment, node: NodeId) -> NodeView | str:
    """What the node says of itself, or what is wrong with it."""
    status = await deployment.status(node)
    if status.state != "running":
        ended = ": ".join(str(status.evidence[name]) for name in ("exit", "log") if name in status.evidence)
        members = test.system.capabilities.membership
        if members is not None and members.unsettled(node):
            out = f"is {status.state}: it left the cluster, and did not join again, so that it was not started any more"
            return f"{out} ({ended})" if ended else out
        words = f"is {status.state} ({ended})" if ended else f"is {status.state}"
        return Ended(words) if status.state == "stopped" else words
    view = await test.system.view(deployment, node)
    return "does not say who leads" if view is None else view


def _disagreement(nodes: Sequence[NodeId], views: list[NodeView | str | Exception]) -> dict[NodeId, str]:
    """Nodes that do not run, and nodes that do not follow the leader of the highest term."""
    problems: dict[NodeId, str] = {}
    answered: list[NodeView] = []
    for node, view in zip(nodes, views, strict=True):
        if isinstance(view, NodeView):
            answered.append(view)
        else:
            problems[node] = view if isinstance(view, str) else _words("", view)
    newest = max(answered, key=lambda view: view.term, default=None)
    for view in answered:
        if view.leader is None:
            problems[view.node] = "knows no leader"
        elif newest is not None and view.leader != newest.leader:
            problems[view.node] = f"follows {view.leader}, but {newest.node} follows {newest.leader}"
    return problems


async def _lists(test: Test, deployment: Deployment, clock: Clock, nodes: Sequence[NodeId]) -> dict[NodeId, str]:
    """Nodes that list other members than most, or not all nodes."""
    membership = test.system.capabilities.membership
    if membership is None:
        return {}
    asked = [within(clock, ANSWER_LIMIT_S, membership.members(deployment, node)) for node in nodes]
    problems: dict[NodeId, str] = {}
    listed: dict[NodeId, tuple[str, ...]] = {}
    for node, found in zip(nodes, await together(asked), strict=True):
        if isinstance(found, Exception):
            problems[node] = _words("does not list the members: ", found)
            continue
        listed[node] = tuple(sorted(found))
        if sorted(found.values()) != sorted(test.nodes):
            problems[node] = f"lists {' '.join(listed[node]) or 'nobody'} as members"
    most = Counter(listed.values()).most_common(1)
    for node, waiting in (await _learners(test, deployment, clock, nodes)).items():
        problems.setdefault(node, f"lists {' '.join(waiting)} as learners, which are to vote")
    for node, members in listed.items():
        if members != most[0][0]:
            problems.setdefault(node, f"lists {' '.join(members)} as members, others {' '.join(most[0][0])}")
    return problems


async def _learners(
    test: Test, deployment: Deployment, clock: Clock, nodes: Sequence[NodeId]
) -> dict[NodeId, list[str]]:
    """By node the learners that are to get a vote by themselves once they have caught up, and did not get it."""
    learners = test.system.capabilities.learners
    if learners is None:
        return {}
    asked = [within(clock, ANSWER_LIMIT_S, learners.listed(deployment, node)) for node in nodes]
    found: dict[NodeId, list[str]] = {}
    for node, answer in zip(nodes, await together(asked), strict=True):
        if not isinstance(answer, Exception) and any(answer.values()):
            found[node] = [member for member, promotable in answer.items() if promotable]
    return found


async def _read(test: Test, deployment: Deployment, node: NodeId) -> None:
    """Read something through a session; a system that has nothing to read is looked at as far as connecting goes."""
    system = test.system
    session = await system.connect(deployment, node)
    try:
        if CREATIONS.name in included(system.capabilities.operations):
            await need(session, CREATIONS, system.name).read(PROBE_KEY)
        elif COLLECTIONS.name in system.capabilities.operations:
            await need(session, COLLECTIONS, system.name).elements(PROBE_KEY)
    finally:
        await session.close()
