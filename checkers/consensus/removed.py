"""A member that was removed is silent: nothing that it says changes the term or the leader of the others.

    followed-stranger   a leader left its term for a later one, since a node said so that is no member
    removed-stands      a node stands for election, or leads, in a term that began after it knew that its removal is
                        committed

A member that was removed while it was cut off does not know. It hears no leader, stands for election, and its terms
rise; so a leader pays no attention to who is no member by its own log (Raft, section 6; Ongaro's thesis, 4.2.3). A node
that does not lead may not know of a change yet: it listens to all. Until its removal is committed a node may have to
lead on, or to stand (thesis, 4.2.2). That votes of others than members do not count, `election-safety` judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.quantities import counted

_INCARNATION: Final = "#"
"""Between the name of a node and which life of its data it is, in the id of a member."""


class RemovedMembers(OfOneRun):
    """Judges nodes that report their `members`. No options.

    A leader is judged at each row of event "role" with a `raised_by`; a node that is in no list of members of its own
    by its votes for itself and by what it leads. The figures: `removals` (nodes that knew that their removal was
    committed, each counted once in a life), `followed` (how often a leader's term was raised by a message), and
    `broken`.
    """

    name = "removed-members"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        nodes: dict[tuple[str | None, str], _Node] = {}
        found: list[dict[str, Any]] = []
        reported = False
        for row in rows(telemetry):
            reported = reported or row.members is not None
            found += nodes.setdefault((row.group, row.node), _Node()).step(row)
        removals = sum(node.removals for node in nodes.values())
        followed = sum(node.followed for node in nodes.values())
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(removals, followed) if reported else _NOT_JUDGED,
            figures={"removals": removals, "followed": followed, "broken": len(found)},
        )


_NOT_JUDGED: Final = "Nothing was judged: no node reported who the members are."


class _Led(NamedTuple):
    """A leader's last row, and the members that it had in force."""

    row: Row
    members: tuple[str, ...]


class _Node:
    """One node: what it leads, and whether it knows that it was removed."""

    def __init__(self) -> None:
        self.removals = 0
        self.followed = 0
        self._members: tuple[str, ...] | None = None
        self._was_member = False
        self._led: _Led | None = None
        self._without: Row | None = None
        """The row with which its log was known to have a configuration without it."""
        self._removed: Row | None = None
        """The first row by which it knew that this is committed."""

    def step(self, row: Row) -> Iterator[dict[str, Any]]:
        """Take the node's next row; what it shows."""
        if row.event in ("start", "new-member"):
            self._members = self._led = self._without = self._removed = None
            self._was_member = self._was_member and row.event == "start"
        yield from self._follows(row)
        if row.members is not None:
            self._members = tuple(row.members.split())
            self._notice(row)
        if row.role == "leader" and self._members is not None:
            self._led = _Led(row, self._members)
        elif row.event == "role":
            self._led = None
        yield from self._stands(row)

    def _follows(self, row: Row) -> Iterator[dict[str, Any]]:
        """Whether this row ends what the node led, because of what another one said."""
        led = self._led
        if led is None or row.event != "role" or row.raised_by is None or _term(row) <= _term(led.row):
            return
        self.followed += 1
        if row.raised_by not in led.members:
            yield {
                "anomaly": "followed-stranger",
                "sentence": (
                    f"Followed a stranger: {row.node} led term {led.row.term}{of_group(row.group)} ({led.row.at}), and "
                    f"went to term {row.term} because {row.raised_by} said so ({row.at}), which is none of the members "
                    f"{', '.join(led.members)}."
                ),
                "by": row.raised_by,
                "rows": [led.row.shown(), row.shown()],
            }

    def _notice(self, row: Row) -> None:
        assert self._members is not None
        if row.node in {member.partition(_INCARNATION)[0] for member in self._members}:
            self._was_member = True
            self._without = self._removed = None
        elif self._was_member and self._without is None and row.log_index is not None:
            self._without = row

    def _stands(self, row: Row) -> Iterator[dict[str, Any]]:
        """Whether the node stands for election, or leads, although it knows that it is no member."""
        removed = self._removed
        if removed is None:
            out = self._without
            if out is not None and row.commit_index is not None and row.commit_index >= (out.log_index or 0):
                self._removed = row
                self.removals += 1
            return
        stands = row.event == "vote" and row.leader == row.node
        if (stands or (row.event == "role" and row.role == "leader")) and _term(row) > _term(removed):
            yield {
                "anomaly": "removed-stands",
                "sentence": (
                    f"Removed, and stands: {row.node}{of_group(row.group)} knew in term {removed.term} that its "
                    f"removal is committed ({removed.at}), and {'voted for itself' if stands else 'led'} "
                    f"in term {row.term} ({row.at})."
                ),
                "by": row.node,
                "rows": [removed.shown(), row.shown()],
            }


def _term(row: Row) -> int:
    return row.term or 0


def _praise(removals: int, followed: int) -> str:
    terms = "no leader left its term because of a message"
    if followed:
        whose = "its term" if followed == 1 else "their terms"
        terms = f"{counted(followed, 'leader')} left {whose} because of a message, always a member's"
    if not removals:
        return f"No node knew that it was removed; {terms}." if followed else "No node knew that it was removed."
    return f"{counted(removals, 'removed node')} stood in no later term; {terms}."
