"""The quiet phase at the end of a run: there are no more requests, and the replicas have time to converge.

Replicas have converged once every node reports that it applied everything committed, and the same index. The proof is
their telemetry, which lags behind: a node may report commits only at intervals. So they must report the same twice,
that interval apart; then the last state of each is recorded before nodes are stopped. (TigerBeetle's simulator ends the
same way: safety first, then a phase in which all must converge.)
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.deadlines import together, within
from splitbrain.harness.running.nearing import CATCHING_UP, Nearing
from splitbrain.harness.running.recovery import ANSWER_LIMIT_S

REPORT_NS = 250_000_000
"""Pause between two looks: for no longer than that a node keeps what it applied from its telemetry (the metadata
cluster for 100 ms, and who is polled instead is asked more often than that)."""


class Quiet(msgspec.Struct, frozen=True):
    """How the wait went.

    Attributes:
        seconds: how long it took until the replicas had converged and reported it; None if they did not in time.
        applied: the index that each node said last it had applied; None for one that did not answer.
    """

    seconds: float | None
    applied: dict[NodeId, int | None]


async def until_converged(
    test: Test, deployment: Deployment, clock: Clock, limit_s: float, *, go_on: Callable[[], bool] = lambda: True
) -> Quiet:
    """Wait until the replicas have met, for `limit_s` at least where they do not, or until `go_on` says no.

    The limit begins again whenever the last replica applies more, or more of a snapshot has come to one, up to
    `CATCHING_UP` times in all: one that is slow is no violation, one that stands still is.
    """
    started_ns, limit_ns = clock.now_ns(), round(limit_s * 1e9)
    end_ns = started_ns + limit_ns
    before: int | None = None
    nearing = Nearing()
    while True:
        views = await _look(test, deployment, clock)
        now_ns = clock.now_ns()
        met, answered = _common_index(views), [view for view in views.values() if view is not None]
        received_more, goes_on = nearing.received_more(answered), nearing.last_goes_on(answered)
        if received_more or goes_on:
            end_ns = min(now_ns, started_ns + (CATCHING_UP - 1) * limit_ns) + limit_ns
        if met is not None and met == before:
            return Quiet((now_ns - started_ns) / 1e9, _applied(views))
        # Replicas that have met at the last moment are looked at once more, behind the limit.
        if now_ns >= end_ns + (0 if met is None else REPORT_NS) or not go_on():
            return Quiet(None, _applied(views))
        before = met
        await clock.sleep_ns(REPORT_NS if met is not None else min(REPORT_NS, end_ns - now_ns))


async def _look(test: Test, deployment: Deployment, clock: Clock) -> dict[NodeId, NodeView | None]:
    """What each node says of itself; None for one that does not."""
    asked = [within(clock, ANSWER_LIMIT_S, test.system.view(deployment, node)) for node in test.nodes]
    views = await together(asked)
    return {node: view if isinstance(view, NodeView) else None for node, view in zip(test.nodes, views, strict=True)}


def _common_index(views: dict[NodeId, NodeView | None]) -> int | None:
    """The index up to which all have committed and applied everything; None where one lags, or does not answer."""
    indexes = {index for view in views.values() for index in _indexes(view)}
    return indexes.pop() if len(indexes) == 1 else None


def _indexes(view: NodeView | None) -> tuple[int | None, int | None]:
    return (None, None) if view is None else (view.commit_index, view.applied_index)


def _applied(views: dict[NodeId, NodeView | None]) -> dict[NodeId, int | None]:
    return {node: None if view is None else view.applied_index for node, view in views.items()}
