"""When the replicas of a queue are checked: some time after an event, and periodically (CMR-1)."""

from __future__ import annotations

from splitbrain.cluster.replicas.settings import ReplicaSettings

_NS_IN_MS = 1_000_000


class Schedule:
    """The checks of one queue on the node that leads it. Times are nanoseconds of one monotonic clock.

    Args:
        settings: of the node.
        now_ns: when the node began to lead the queue, which counts as an event.
    """

    def __init__(self, settings: ReplicaSettings, now_ns: int) -> None:
        self._trigger_ns = settings.trigger_ms * _NS_IN_MS
        self._interval_ns = settings.interval_ms * _NS_IN_MS
        self._due_ns = now_ns + min(self._trigger_ns, self._interval_ns)

    def triggered(self, now_ns: int) -> None:
        """Something happened: a node came or went, a queue was declared, a policy was set, a node is drained."""
        self._due_ns = min(self._due_ns, now_ns + self._trigger_ns)

    def failed(self, now_ns: int) -> None:
        """A node has been down for the failure recovery interval: that is due at once."""
        self._due_ns = min(self._due_ns, now_ns)

    def is_due(self, now_ns: int) -> bool:
        """Whether a check is."""
        return now_ns >= self._due_ns

    def checked(self, now_ns: int, *, did_something: bool) -> None:
        """A check was made: the next one is soon if there was something to be done."""
        self._due_ns = now_ns + (self._trigger_ns if did_something else self._interval_ns)
