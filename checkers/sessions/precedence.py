"""Whether the writes of a run can be put in one order, and if not, the shortest circles.

The links of sessions are edges between writes. Real time is a chain of moments, one for each write that showed: the
write comes before its moment, and the last moment before an invocation comes before the write that is invoked. So there
are at most three edges for each write, however many ops overlap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.sessions.evidence import GUARANTEES, Link, Links, Why, shown
from splitbrain.checkers.sessions.reading import INITIAL, Reading
from splitbrain.checkers.weaker.calls import NOTHING
from splitbrain.results.calls import Ints

LOOKED_AT: Final = 32
"""The largest number of edges of one component through which a circle is searched."""

OF_TIME: Final = -1
"""In the place of a link: the edge is one of real time."""

Edges: TypeAlias = dict[int, list[tuple[int, int]]]
"""By node the nodes after it, each with the number of a link, or OF_TIME."""


class Order:
    """The writes and moments of a run, and what comes before what."""

    def __init__(self, reading: Reading, found: Links, *, real_time: bool) -> None:
        """Put all links together; real time if it is evidence."""
        self._reading, self._links = reading, found
        columns = found.columns()
        number = np.arange(len(columns), dtype=np.int64)
        inner = (columns[:, 0] != INITIAL) & (columns[:, 1] != INITIAL)
        self.broken_at_first: list[int] = number[columns[:, 1] == INITIAL].tolist()
        self._before, self._after, self._number = columns[inner, 0], columns[inner, 1], number[inner]
        self._nodes = len(reading.f)
        self._moments: list[int] = []
        if real_time:
            self._add_moments()

    def _add_moments(self) -> None:
        known = sorted(shown(self._reading), key=lambda each: each[1])
        if not known:
            return
        writes = np.array([write for write, _, _ in known], np.int64)
        rows = np.array([row for _, row, _ in known], np.int64)
        self._moments = [op for _, _, op in known]
        moments = self._nodes + np.arange(len(known), dtype=np.int64)
        leaves = np.array(self._reading.registers.leaves, np.int64)
        invoked = np.flatnonzero(leaves != NOTHING)
        last = np.searchsorted(rows, np.array(self._reading.calls.begin, np.int64)[invoked]) - 1
        after = last >= 0
        before = [self._before, writes, moments[:-1], moments[last[after]]]
        behind = [self._after, moments, moments[1:], invoked[after]]
        of_time = sum(map(len, before)) - len(self._before)
        self._before, self._after = np.concatenate(before), np.concatenate(behind)
        self._number = np.concatenate([self._number, np.full(of_time, OF_TIME, np.int64)])
        self._nodes += len(known)

    def circles(self) -> list[list[Link]]:
        """For each set of writes that come before each other a shortest circle; empty if there is an order.

        A circle begins with a link of a guarantee, if it has any.
        """
        kept = _in_circles(self._before, self._after, self._nodes)
        if not kept.any():
            return []
        edges: Edges = {}
        chosen = (each[kept].tolist() for each in (self._before, self._after, self._number))
        for before, after, number in zip(*chosen, strict=True):
            edges.setdefault(before, []).append((after, number))
        return [self._circle(edges, component) for component in components(edges)]

    def _circle(self, edges: Edges, component: Sequence[int]) -> list[Link]:
        within = set(component)
        links = [
            (number, before, after)
            for before in component
            for after, number in edges[before]
            if number != OF_TIME and after in within
        ]
        ends = self._reading.calls.end
        links.sort(key=lambda each: (ends[self._links.link(each[0]).second], each[0]))
        best: list[Link] = []
        for number, before, after in links[:LOOKED_AT]:
            path = self._path(edges, within, after, before, best)
            if path is not None:
                best = [self._links.link(number), *path]
        first = next((place for place, link in enumerate(best) if link.why in GUARANTEES), 0)
        return best[first:] + best[:first]

    def _path(self, edges: Edges, within: set[int], start: int, end: int, best: Sequence[Link]) -> list[Link] | None:
        """The fewest links from one write to another, if with one more there are fewer than in `best`."""
        moment = len(self._reading.f)
        steps = {start: 0}
        came: dict[int, tuple[int, int]] = {}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            if node == end or (best and steps[node] + 1 >= len(best)):
                break
            for after, number in edges[node]:
                cost = steps[node] + (after < moment)
                if after in within and cost < steps.get(after, cost + 1):
                    steps[after], came[after] = cost, (node, number)
                    (waiting.append if after < moment else waiting.appendleft)(after)
        if end not in came or (best and steps[end] + 1 >= len(best)):
            return None
        return self._joined(came, start, end)

    def _joined(self, came: dict[int, tuple[int, int]], start: int, end: int) -> list[Link]:
        """The links of a path, each run of moments as one of them."""
        found: list[Link] = []
        node, moment = end, len(self._reading.f)
        while node != start:
            before, number = came[node]
            if number != OF_TIME:
                found.append(self._links.link(number))
            else:
                earliest = NOTHING
                while before >= moment:
                    earliest, before = before, came[before][0]
                found.append(Link(before, node, Why.REAL_TIME, self._moments[earliest - moment], node))
            node = before
        return found[::-1]


def _in_circles(before: Ints, after: Ints, nodes: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The edges that are left when all nodes are gone that nothing comes before, or that come before nothing."""
    kept = np.ones(len(before), np.bool_)
    for _ in range(2):
        start, order = _starts(before[kept], nodes)
        target = after[kept][order]
        degree = np.bincount(target, minlength=nodes).astype(np.int64)
        peel(start, target, degree, np.zeros(nodes, np.int64))
        left = degree > 0
        kept = kept & left[before] & left[after]
        if not kept.any():
            break
        before, after = after, before
    return kept


def _starts(before: Ints, nodes: int) -> tuple[Ints, Ints]:
    """Where the edges of each node begin, and the order of all of them by node."""
    counts = np.bincount(before, minlength=nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.argsort(before, kind="stable")


@kernel
def peel(start: Ints, target: Ints, degree: Ints, queue: Ints) -> int:
    """Take away every node that nothing comes before, again and again (Kahn 1962); how many there were.

    Args:
        start: by node, where its edges begin in `target`; one more for the end.
        target: the nodes after each node.
        degree: by node, how many edges lead to it; afterwards, above 0 for those that are left.
        queue: room for all nodes.
    """
    head, tail = 0, 0
    for node in range(len(degree)):
        if degree[node] == 0:
            queue[tail] = node
            tail += 1
    while head < tail:
        node = queue[head]
        head += 1
        for at in range(start[node], start[node + 1]):
            after = target[at]
            degree[after] -= 1
            if degree[after] == 0:
                queue[tail] = after
                tail += 1
    return tail


def components(edges: Edges) -> list[list[int]]:
    """Sets of several nodes that come before each other (Tarjan 1972), by their smallest nodes."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in sorted(edges):
        if root in index:
            continue
        work: list[tuple[int, Iterable[tuple[int, int]]]] = []

        def enter(node: int, work: list[tuple[int, Iterable[tuple[int, int]]]] = work) -> None:
            index[node] = low[node] = len(index)
            stack.append(node)
            on_stack.add(node)
            work.append((node, iter(edges.get(node, ()))))

        enter(root)
        while work:
            node, following = work[-1]
            for after, _ in following:
                if after not in index:
                    enter(after)
                    break
                if after in on_stack:
                    low[node] = min(low[node], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = [stack.pop()]
                    while members[-1] != node:
                        members.append(stack.pop())
                    on_stack.difference_update(members)
                    if len(members) > 1:
                        found.append(sorted(members))
    return sorted(found)
