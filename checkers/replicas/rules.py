"""What is wrong with the changes of members that were seen of one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.replicas.reading import NEVER, Change, Drained, Look, Reading


class Step(msgspec.Struct, frozen=True):
    """A change that is known to have begun between two looks.

    Attributes:
        change: it.
        before: the last look that began before any look named it, and at which the change before it had ended; None if
            there is none.
        first: the first look that named it.
    """

    change: Change
    before: Look | None
    first: Look


def steps(looks: Sequence[Look]) -> Iterator[Step]:
    """The changes of a queue that were named, in the order of their numbers."""
    named: dict[int, tuple[Change, Look]] = {}
    rested: dict[int, Look] = {}
    for look in looks:
        for change in look.seen.named:
            known = named.get(change.number)
            first = look if known is None or look.ended < known[1].ended else known[1]
            is_older = known is not None and (change.outcome is None or known[0].outcome is not None)
            named[change.number] = (known[0] if known is not None and is_older else change, first)
        if look.seen.change is None:
            held = rested.get(look.seen.last)
            if held is None or look.begun > held.begun:
                rested[look.seen.last] = look
    for number in sorted(named):
        change, first = named[number]
        before = rested.get(number - 1)
        yield Step(change, before, first)


class Rules(msgspec.Struct, frozen=True):
    """The rules, for one queue.

    Attributes:
        queue: its name.
        target: how many live replicas it is to have.
        stayed: members that were of the cluster to the end.
        is_calm: whether no fault can have moved anything between two rows.
        may_have_failed: whether a node may have been down between two rows for so long that it counted as failed.
        at: words for a row.
    """

    queue: str | None
    target: int
    stayed: frozenset[str]
    is_calm: Callable[[int, int], bool]
    may_have_failed: Callable[[int, int], bool]
    at: Callable[[int], str]

    def findings(self, reading: Reading) -> Mapping[str, list[Finding]]:
        """All that is wrong, by the name of the rule."""
        looks = reading.looks[self.queue]
        every = list(steps(looks))
        return {
            "two": list(self._two(looks, every)),
            "dip": list(self._dip(every)),
            "draining": list(self._draining(looks, every, reading)),
            "exceeds": list(self._exceeds(every)),
            "extra": list(self._extra(every)),
            "hasty": list(self._hasty(every)),
        }

    def _two(self, looks: Sequence[Look], every: Sequence[Step]) -> Iterator[Finding]:
        for look in looks:
            seen = look.seen
            under_way = [change.number for change in seen.named if change.outcome is None]
            if len(under_way) > 1 or (under_way and under_way[0] != seen.last):
                yield Finding(
                    "two",
                    f"Two at once: {self._named} had changes {', '.join(map(str, under_way))} under way at once, and "
                    f"{seen.last} had begun last, says {self.at(look.ended)}.",
                    (look.ended,),
                )
                return
        rested = {look.seen.last: look for look in looks if look.seen.change is None}
        for step in every:
            before, after = rested.get(step.change.number - 1), rested.get(step.change.number)
            if before is None or after is None:
                continue
            differing = set(before.seen.members) ^ set(after.seen.members)
            if not differing <= {step.change.member}:
                yield Finding(
                    "two",
                    f"Two at once: change {step.change.number} of {self._named} is of {step.change.member}, and also "
                    f"{', '.join(sorted(differing - {step.change.member}))} came or went between "
                    f"{self.at(before.ended)} and {self.at(after.ended)}.",
                    (before.ended, after.ended),
                )

    def _dip(self, every: Sequence[Step]) -> Iterator[Finding]:
        for step in every:
            change, before = step.change, step.before
            if before is None or not _automated(change, "shrink") or change.member not in self._stayed(step):
                continue
            seen = before.seen
            left = [member for member in seen.members if member in seen.cluster and member != change.member]
            if change.outcome == "done" and len(left) < self.target:
                yield Finding(
                    "dip",
                    f"Dip: {self._named} had {_list(before.seen.members)} at {self.at(before.ended)}, and then "
                    f"{change.member} was removed without an operator, though it is a member of the cluster: "
                    f"{len(left)} are left, and the target is {self.target}.",
                    (before.ended, step.first.ended),
                )

    def _draining(self, looks: Sequence[Look], every: Sequence[Step], reading: Reading) -> Iterator[Finding]:
        for step in every:
            if not _automated(step.change, "grow"):
                continue
            for drain in reading.drains:
                if drain.node != step.change.node or not drain.is_certain:
                    continue
                between = (look for look in looks if look.begun > drain.ended and look.seen.last < step.change.number)
                look = next(between, None)
                if look is None or _revived(drain, step.first.ended, reading.revivals):
                    continue
                yield Finding(
                    "draining",
                    f"On a drained node: {step.change.node} was drained ({self.at(drain.ended)}). At "
                    f"{self.at(look.ended)} change {step.change.number} of {self._named} had not begun, and then a "
                    f"replica was placed there, says {self.at(step.first.ended)}.",
                    (drain.ended, look.ended, step.first.ended),
                )
                break

    def _exceeds(self, every: Sequence[Step]) -> Iterator[Finding]:
        for step in every:
            before = step.before
            if before is None or not _automated(step.change, "grow"):
                continue
            stayed = self._stayed(step)
            live = [member for member in before.seen.members if member in stayed]
            if len(live) >= self.target and self.is_calm(before.begun, step.first.ended):
                yield Finding(
                    "exceeds",
                    f"Too many: {self._named} had {_list(live)} at {self.at(before.ended)}, and without a fault and "
                    f"without an operator {step.change.member} was added, says {self.at(step.first.ended)}. The target "
                    f"is {self.target}.",
                    (before.ended, step.first.ended),
                )

    def _extra(self, every: Sequence[Step]) -> Iterator[Finding]:
        for step in every:
            before = step.before
            if before is None or not _automated(step.change, "shrink") or step.change.member not in self._stayed(step):
                continue
            if self.is_calm(before.begun, step.first.ended):
                yield Finding(
                    "extra",
                    f"A running replica: {step.change.member} was removed from {self._named} without an operator and "
                    f"without a fault, between {self.at(before.ended)} and {self.at(step.first.ended)}.",
                    (before.ended, step.first.ended),
                )

    def _hasty(self, every: Sequence[Step]) -> Iterator[Finding]:
        for step in every:
            before, change = step.before, step.change
            if before is None or change.by != "automation" or not self._stayed(step).issuperset(before.seen.members):
                continue
            enough = len(before.seen.members) >= self.target
            if enough and not self.may_have_failed(before.begun, step.first.ended):
                done = "added" if change.kind == "grow" else "removed"
                yield Finding(
                    "hasty",
                    f"Hasty: {self._named} had {_list(before.seen.members)} at {self.at(before.ended)}, and "
                    f"{change.member} was {done} without an operator, says {self.at(step.first.ended)}, though no "
                    f"fault had lasted for so long that a node counts as failed. The target is {self.target}.",
                    (before.ended, step.first.ended),
                )

    def _stayed(self, step: Step) -> frozenset[str]:
        """Members of the cluster to the end, and when a change had begun: of looks at once any may be the last."""
        return self.stayed.intersection(step.first.seen.cluster)

    @property
    def _named(self) -> str:
        return f"queue {self.queue}"


def _automated(change: Change, kind: str) -> bool:
    return change.by == "automation" and change.kind == kind


def _revived(drain: Drained, until: int, revivals: Sequence[Drained]) -> bool:
    """Whether a node may have been revived since it was drained, up to a row."""
    return any(
        each.node == drain.node
        and each.may_be
        and each.begun < until
        and (each.ended > drain.begun or each.ended == NEVER)
        for each in revivals
    )


def _list(members: Sequence[str]) -> str:
    return ", ".join(members) or "no members"
