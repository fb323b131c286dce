"""MN-7: which partition wins, by the answers on which the leader decided. From the description of RabbitMQ's autoheal:

the partition with the most connections of clients; of equal ones that with the most nodes; then that whose sorted list
of nodes sorts last. The winner is the first node of it, and all nodes of the others lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from splitbrain.checkers.strategies.sights import Sight


class Decision(NamedTuple):
    """What a leader decided, and on which answers.

    Attributes:
        sight: the row that says it.
        answers: by node; the last of each since its last decision.
    """

    sight: Sight
    answers: Mapping[str, Sight]

    @property
    def winner(self) -> str:
        """The node that won."""
        return self.sight.other

    @property
    def losers(self) -> frozenset[str]:
        """All that lost."""
        return self.sight.alive

    def blind_to(self, nodes: Sequence[str]) -> tuple[str, str] | None:
        """A node that did not see another one, or did not answer; None if all saw all."""
        for node in nodes:
            answer = self.answers.get(node)
            missing = sorted(set(nodes) - (answer.alive if answer is not None else frozenset()))
            if missing:
                return node, missing[0]
        return None


def decisions(lives: Sequence[Sequence[Sight]]) -> list[Decision]:
    """All decisions of all processes, in order of time."""
    found: list[Decision] = []
    for life in lives:
        answers: dict[str, Sight] = {}
        for each in life:
            if each.event == "answers":
                answers[each.other] = each
            elif each.event == "decides":
                found.append(Decision(each, answers))
                answers = {}
    return sorted(found, key=lambda each: each.sight.time)


def documented(nodes: Sequence[str], answers: Mapping[str, Sight]) -> tuple[str, frozenset[str]]:
    """The winner and the losers by the documented order, from answers of all nodes."""
    partitions = [sorted(nodes)]
    for node in sorted(nodes):
        apart = answers[node].apart
        own = next(partition for partition in partitions if node in partition)
        here, there = [each for each in own if each not in apart], [each for each in own if each in apart]
        if here and there:
            partitions = [here, there, *(each for each in partitions if each is not own)]
    won = max(
        partitions, key=lambda each: (sum(answers[node].row.applied_count or 0 for node in each), len(each), each)
    )
    return won[0], frozenset(nodes) - frozenset(won)
