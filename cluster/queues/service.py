"""Which consumer is served next: of those with the highest priority the one that has waited longest (QQ-3)."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict

from splitbrain.cluster.queues.identities import ConsumerKey


class ServiceQueue:
    """Keys of consumers that may get messages; each is there once, and keeps its place until it is served.

    One that cannot take a message any more is found out when its turn comes.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, OrderedDict[ConsumerKey, None]] = {}
        self._descending: list[int] = []  # priorities with their signs changed
        self._priorities: dict[ConsumerKey, int] = {}

    def push(self, key: ConsumerKey, priority: int) -> None:
        """Add a consumer behind those of its priority, if it is not there yet."""
        if key in self._priorities:
            return
        waiting = self._waiting.get(priority)
        if waiting is None:
            waiting = self._waiting[priority] = OrderedDict()
            insort(self._descending, -priority)
        waiting[key] = None
        self._priorities[key] = priority

    @property
    def head(self) -> ConsumerKey | None:
        """The one that is served next; None if there is none."""
        return next(iter(self._waiting[-self._descending[0]])) if self._descending else None

    def discard(self, key: ConsumerKey) -> None:
        """Remove a consumer, if it is there."""
        priority = self._priorities.pop(key, None)
        if priority is None:
            return
        waiting = self._waiting[priority]
        del waiting[key]
        if not waiting:
            del self._waiting[priority]
            self._descending.remove(-priority)

    def dump(self) -> list[tuple[int, list[ConsumerKey]]]:
        """By priority, the highest first, in order."""
        return [(-negated, list(self._waiting[-negated])) for negated in self._descending]

    @classmethod
    def load(cls, dumped: list[tuple[int, list[ConsumerKey]]]) -> ServiceQueue:
        """The queue whose dump this is."""
        queue = cls()
        for priority, keys in dumped:
            for key in keys:
                queue.push(key, priority)
        return queue
