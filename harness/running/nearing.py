"""Whether replicas that lag come nearer: one that is slow is no violation, one that stands still is.

A replica comes nearer if it has less to apply than at any time before, or if more of a snapshot has come to it: what it
applied stays the same until all of it is there, which takes long in small parts on a slow link. A transfer that begins
again and again without coming further does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from splitbrain.harness.contract.nodes import NodeId, NodeView

CATCHING_UP: Final = 10
"""So many times its limit a wait may take while replicas come nearer, as on a slow disk with small batches."""


class Nearing:
    """Compares what nodes say of themselves, look after look."""

    def __init__(self) -> None:
        self._lags: dict[NodeId, int] = {}
        self._received: dict[NodeId, int] = {}
        self._applied: dict[NodeId, int] = {}

    def nearer(self, views: Iterable[NodeView]) -> bool:
        """Whether any of these nodes has come nearer since the looks before; its first look is none to compare with."""
        seen = list(views)
        newest = max((view.commit_index for view in seen), default=0)
        found = [self._is_nearer(view, newest) for view in seen]  # all of them: each is remembered
        return any(found)

    def received_more(self, views: Iterable[NodeView]) -> bool:
        """Whether more of a snapshot has come to any of these nodes than in all looks before."""
        found = [self._has_received_more(view) for view in views]
        return any(found)

    def last_goes_on(self, views: Iterable[NodeView]) -> bool:
        """Whether the node that has applied least has applied more than in any look before.

        Without load that is enough: what is committed may grow as fast, of a log that the leader had before.
        """
        seen = list(views)
        least = min((view.applied_index for view in seen), default=0)
        goes_on = any(self._applies_more(view) for view in seen if view.applied_index == least)
        for view in seen:
            self._applied[view.node] = max(view.applied_index, self._applied.get(view.node, 0))
        return goes_on

    def _applies_more(self, view: NodeView) -> bool:
        before = self._applied.get(view.node)
        return before is not None and view.applied_index > before

    def _is_nearer(self, view: NodeView, newest: int) -> bool:
        lag = newest - view.applied_index
        least = self._lags.get(view.node)
        received_more = self._has_received_more(view)
        self._lags[view.node] = lag if least is None else min(lag, least)
        if least is None or lag >= least:
            return received_more
        self._received[view.node] = view.received_bytes  # the next snapshot is another one
        return True

    def _has_received_more(self, view: NodeView) -> bool:
        most = self._received.get(view.node)
        self._received[view.node] = view.received_bytes if most is None else max(most, view.received_bytes)
        return most is not None and view.received_bytes > most
