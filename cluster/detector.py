"""Which other nodes a node takes for down: a failure detector after aten, which Ra uses (RA-4). A pure state machine.

Every message of a node is a sign of life, and each node sends one every 250 ms at least (`splitbrain.cluster.peers`).
For each node the last intervals between signs are kept. It is taken for down once the present silence is longer than
nearly all of them, with half as much again to spare: so a node behind a slow or lossy way is given more time than one
behind a good way. It is asked once a second. An election timeout is shorter (D12), so elections do not wait for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

_MS: Final = 1_000_000

POLL_MS: Final = 1000
"""How often `FailureDetector.poll` is to be called."""

SAMPLES: Final = 1000
"""Intervals between signs that are kept of each node."""

FACTOR: Final = 1.5
"""An interval counts as exceeded once the silence is this much longer."""

THRESHOLD: Final = 0.99
"""A node is taken for down if this share of its intervals is exceeded."""

USUAL_MS: Final = 250
"""The interval with which a node begins: that of the signs of one that has nothing else to say."""

COARSE_MS: Final = 200
"""Signs that follow one within this time are not counted apart.

Under load thousands come each second: without this, the silence of a node with nothing more to say would look long.
"""


class Signs:
    """The signs of life of one node. Made by `FailureDetector.connected`."""

    __slots__ = ("_counted_ns", "_intervals_ns", "_stood_still", "connections", "heard_ns", "is_down")

    def __init__(self, stood_still: Callable[[int], bool]) -> None:
        """`stood_still` says whether the node that listens did until now."""
        self._stood_still = stood_still
        self._intervals_ns: deque[int] = deque([USUAL_MS * _MS], SAMPLES)
        self.heard_ns = 0
        self._counted_ns = 0
        self.connections = 0
        self.is_down = False

    def began(self, now_ns: int) -> None:
        """A connection came, which is a sign of life itself; how long that took says nothing about intervals."""
        self.connections += 1
        self.begin_anew(now_ns)

    def begin_anew(self, now_ns: int) -> None:
        """Count silence and interval from now on."""
        self.heard_ns = self._counted_ns = now_ns

    def heard(self, now_ns: int) -> None:
        """A message came."""
        self.heard_ns = now_ns
        interval_ns = now_ns - self._counted_ns
        if interval_ns >= COARSE_MS * _MS:
            self._counted_ns = now_ns
            if not (self.is_down or self._stood_still(now_ns)):  # else it was an outage, there or here, and no interval
                self._intervals_ns.append(interval_ns)

    def ended(self) -> None:
        """A connection broke."""
        self.connections -= 1

    def suspicion(self, now_ns: int) -> float:
        """The share of intervals that the present silence exceeds; 1 without a connection."""
        if not self.connections:
            return 1.0
        silence_ns = now_ns - self.heard_ns
        if silence_ns < FACTOR * COARSE_MS * _MS:
            return 0.0  # shorter than any interval
        exceeded = sum(interval_ns * FACTOR <= silence_ns for interval_ns in self._intervals_ns)
        return exceeded / len(self._intervals_ns)


class FailureDetector:
    """What a node thinks of others. Before the first poll it takes none for down.

    Args:
        nodes: the others.
    """

    def __init__(self, nodes: Iterable[str]) -> None:
        self._signs = {node: Signs(self._stood_still) for node in nodes}
        self._polled_ns: int | None = None

    def _stood_still(self, now_ns: int) -> bool:
        """Whether a poll is overdue: then this node did nothing for a while."""
        return self._polled_ns is not None and now_ns - self._polled_ns > FACTOR * POLL_MS * _MS

    def connected(self, node: str, now_ns: int) -> Signs:
        """A connection from a node came: what is returned must hear each message on it, and its end.

        The node may be one that joined later (PD-3), and is judged from now on.
        """
        signs = self._signs.get(node)
        if signs is None:
            signs = self._signs[node] = Signs(self._stood_still)
        signs.began(now_ns)
        return signs

    def heard_ns(self, node: str) -> int | None:
        """When the last sign of life of a node came, or counting began anew; None if there was none."""
        signs = self._signs.get(node)
        return None if signs is None or not signs.heard_ns else signs.heard_ns

    def is_down(self, node: str) -> bool:
        """Whether a node is taken for down, as of the last poll."""
        signs = self._signs.get(node)
        return signs is not None and signs.is_down

    def poll(self, now_ns: int) -> list[str]:
        """Judge all nodes anew; those that are taken for down and were not, or the reverse."""
        late = self._stood_still(now_ns)
        self._polled_ns = now_ns
        if late:
            # This node itself stood still: messages may have come, and not been looked at yet.
            for signs in self._signs.values():
                signs.begin_anew(now_ns)
            return []
        changed: list[str] = []
        for node, signs in self._signs.items():
            down = signs.suspicion(now_ns) >= THRESHOLD
            if down != signs.is_down:
                signs.is_down = down
                changed.append(node)
        return changed
