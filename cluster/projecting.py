"""What a member answers from its projections: never "not found" where it does not know (KH-15)."""

from __future__ import annotations

from collections.abc import Callable

from splitbrain.cluster import wire
from splitbrain.cluster.bugs import M30, M78, Bugs
from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.marks import reached
from splitbrain.cluster.projection import PROJECTIONS, CatchingUp
from splitbrain.cluster.raft import Raft
from splitbrain.cluster.requests import outdated
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Done, InSlices, LookUp, NodeNotFound, Project, Refused, Value


class Projecting:
    """Answers from the projections of one member.

    Args:
        node: its name.
        store: the one of the moment.
        raft: of the member; it is only looked at.
        catching_up: whether it has applied again what it may have shown before.
        bugs: what is broken on purpose.
    """

    def __init__(self, node: str, store: Callable[[], Store], raft: Raft, catching_up: CatchingUp, bugs: Bugs) -> None:
        self._node = node
        self._store = store
        self._raft = raft
        self._catching_up = catching_up
        self._bugs = bugs

    def projected(self, query: Project) -> wire.Outcome:
        """What this member holds, now; nothing is answered from a projection that may lack what there is (KH-15)."""
        if query.projection not in PROJECTIONS:
            detail = f"there is no projection {query.projection!r}, only {', '.join(PROJECTIONS)}"
            return wire.Failure("invalid_request", True, detail)
        failure = self._cannot_project()
        if failure is not None and M78 in self._bugs:
            return NodeNotFound(query.path)
        if failure is not None:
            return failure
        found = self._store().projected(query.projection, query.path)
        return NodeNotFound(query.path) if found is None else Done(found)

    def looked_up(self, query: LookUp) -> InSlices[wire.Outcome]:
        """The same of a table of a projection that was registered; with pauses if all records of many are wanted."""
        outcome: wire.Outcome | None = self._cannot_project()
        if outcome is None:
            outcome = yield from self._store().tree.look_up_in_slices(query)
        if isinstance(outcome, Refused | wire.Failure) and M78 in self._bugs:
            return Value(encode_value([]))
        return outcome

    def _cannot_project(self) -> wire.Failure | None:
        if self._raft.is_outdated and M30 not in self._bugs:
            return outdated(self._node)
        if not self._catching_up.done:
            reached("projection asked before it was built")
            return wire.Failure("unavailable", True, f"{self._node} has not caught up yet: try again later")
        return None
