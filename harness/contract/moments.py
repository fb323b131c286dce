"""Moments: a node passes a coverage mark of its system for the n-th time.

A fault at a random time seldom falls into the window of a crash, which lasts microseconds. A fault at a moment does:
marks of the system stand where a state has just come about (FoundationDB's buggify; etcd's failpoints in its robustness
tests). Marks are counted from the begin of a wait, so that a moment does not depend on what happened long before.

`Moments` is a pure state machine: marks in, waits that are over out. Who hears the marks, and what happens then, is up
to the deployment (`HearsMarks`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from splitbrain.harness.contract.magnitudes import Bounds
from splitbrain.harness.contract.nodes import NodeId

OCCURRENCE: Final = Bounds(1, 1_000_000, "times")

AFTER_US: Final = Bounds(0, 10_000_000, "us")

Hear: TypeAlias = Callable[[str], None]
"""Called with a mark at the moment at which a node in this process passes it."""


@dataclass(frozen=True, slots=True)
class SystemMarks:
    """The coverage marks of a system (`Capabilities.marks`).

    Attributes:
        declared: marks with a line on when each is passed: a drawn fault waits for some of them.
        asked_for: further ones, which only some tests pass: a fault waits for them where it names them.
        heard: calls what it is given with each mark that a node in this process passes, while its context lasts.
        variable: the environment variable that names a file to which a node process appends each mark that it passes,
            one a line.
    """

    declared: Mapping[str, str]
    heard: Callable[[Hear], AbstractContextManager[None]]
    variable: str
    asked_for: Mapping[str, str] = field(default_factory=dict[str, str])


class Moment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a node passes a mark.

    Attributes:
        mark: of the system under test.
        occurrence: how often the same node passes it until then, counted from the begin of the wait.
        node: which node; None for the first one to do so.
        after_us: how much later the fault follows, in microseconds; 0: before the node does anything else.
    """

    mark: str
    occurrence: int = 1
    node: NodeId | None = None
    after_us: int = 0


class Passed(NamedTuple):
    """A moment that came, and the node that passed the mark."""

    moment: Moment
    node: NodeId


class Moments:
    """Which waits there are, and how often nodes have passed their marks since each began."""

    def __init__(self) -> None:
        self._waits: dict[int, tuple[tuple[Moment, dict[NodeId, int]], ...]] = {}
        self._begun = 0

    def wait(self, moments: Sequence[Moment]) -> int:
        """Begin to wait for the first of some moments; the number of the wait."""
        self._begun += 1
        self._waits[self._begun] = tuple((moment, {}) for moment in moments)
        return self._begun

    def give_up(self, wait: int) -> None:
        """Wait no more; nothing happens if the wait is over."""
        self._waits.pop(wait, None)

    def passed(self, node: NodeId, mark: str) -> dict[int, Passed]:
        """Count a mark that a node passes: the waits that are over by it, in the order of their begins."""
        over = {wait: found for wait in self._waits if (found := self._count(wait, node, mark)) is not None}
        for wait in over:
            del self._waits[wait]
        return over

    def _count(self, wait: int, node: NodeId, mark: str) -> Passed | None:
        found: Passed | None = None
        for moment, counts in self._waits[wait]:
            if moment.mark == mark and moment.node in (None, node):
                counts[node] = counts.get(node, 0) + 1
                if counts[node] == moment.occurrence and found is None:
                    found = Passed(moment, node)
        return found


Act: TypeAlias = Callable[[NodeId], Coroutine[Any, Any, None]]
"""What is done to the node that passed the mark."""


@runtime_checkable
class HearsMarks(Protocol):
    """A deployment that knows when its nodes pass marks; the fault kind "moment" needs it."""

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        """Wait for the first of some moments, and act on its node.

        A simulation acts before the node continues; `act` must not wait there for anything that takes time. Real nodes
        have gone on for some milliseconds when their marks are read.

        Args:
            moments: any of them.
            act: what is done then.
            within_ns: how long it may take until then, in nanoseconds.

        Returns:
            The moment that came; None if none came in time, and then nothing was done.
        """
        ...
