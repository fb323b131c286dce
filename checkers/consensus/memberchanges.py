"""Changes of members: one at a time, by a leader that has committed something in its term, and in force by the log
alone (Ongaro's thesis, chapter 4).

    change-before-commit  a leader put other members into force while the change before was not committed
    change-before-noop    a leader put other members into force before an entry of its own term was committed
    quorums-apart         a leader put other members into force such that a majority of the former voters and one of the
                          new ones need not share a voter
    members-apart         with equal logs up to an entry, one node has other members in force than another one

Each of these can leave a group with two majorities that know nothing of each other, and so with two leaders. It takes a
loss of connections at the wrong moment until that happens; the mistake itself shows in what nodes say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.quantities import counted

_COMMIT: Final = "commit_index"
_BEFORE: Final = "before_index"
_OLD: Final = 1
_NEW: Final = 2

_OF_LOGS: Final = ("first", "log")

Log: TypeAlias = tuple[str | None, int | None, str]
"""A group, an index, and the hash of a log up to there."""

InForce: TypeAlias = tuple[int | None, str]
"""The entry that put members into force, and these members."""


class MemberChanges(OfOneRun):
    """Judges every row of event "members" of a leader that says what was in force before. No options.

    Of such a row `counted_index` is the entry that put the members into force, and `counted` says what was so when the
    leader appended it: `commit_index=17 before_index=12 n1=3 n2=1 n3=2`, the leader's commit index, the entry of the
    configuration before, and its voters: 1 for a former one, 2 for a new one, 3 for one that stays. That the node
    leads, and with which entry its term began, is known by its last row of event "role" in the same life.

    Of rows of events "log" and "first" those are compared whose logs are equal, by their hashes, up to `log_index`:
    `counted_index` and `counted`, the entry that put members into force and these members, must be the same. The log
    decides that alone: also of a node from whose log a change was cut off, which took over a snapshot, or restarted.
    As long as the founders are in force (0) only that is compared, and not who they are.
    The figures: `changes` judged, `compared` (logs of which two nodes or more said so), and `broken`.
    """

    name = "member-changes"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run.

        Raises:
            HistoryFormatError: a row does not say what was counted in the form above.
        """
        refuse_options(self.name, options)
        roles: dict[tuple[str | None, str, int], Row] = {}
        by_log: dict[Log, dict[InForce, dict[str, Row]]] = {}
        changes, found = 0, list[dict[str, Any]]()
        for row in rows(telemetry):
            if row.event in _OF_LOGS and row.log_hash is not None and row.counted is not None:
                log = (row.group, row.log_index, row.log_hash)
                by_log.setdefault(log, {}).setdefault(_said(row), {}).setdefault(row.node, row)
            if row.event == "role":
                roles[row.group, row.node, row.life] = row
            if row.event != "members" or row.counted_index is None or row.counted is None:
                continue
            led = roles.get((row.group, row.node, row.life))
            if led is None or led.role != "leader" or row.role != "leader" or led.term != row.term:
                continue
            changes += 1
            found += _wrong(row, led)
        compared = [said for said in by_log.values() if len({node for of in said.values() for node in of}) > 1]
        found += _all_apart(by_log.values())
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(changes, len(compared)),
            figures={"changes": changes, "compared": len(compared), "broken": len(found)},
        )


def majorities_meet(old: Collection[str], new: Collection[str]) -> bool:
    """Whether each majority of these voters shares a voter with each majority of those."""
    left, joined = set(old) - set(new), set(new) - set(old)
    stay = len(set(old) & set(new))
    # Majorities that avoid each other are made of those first that are in one of the two only.
    needed = max(0, len(old) // 2 + 1 - len(left)) + max(0, len(new) // 2 + 1 - len(joined))
    return needed > stay


def _wrong(row: Row, led: Row) -> Iterator[dict[str, Any]]:
    said = counts_of(row)
    commit, before = said.pop(_COMMIT, 0), said.pop(_BEFORE, 0)
    old = sorted(voter for voter, when in said.items() if when & _OLD)
    new = sorted(voter for voter, when in said.items() if when & _NEW)
    who = (
        f"{row.node}{of_group(row.group)} led term {row.term} and put {', '.join(new)} into force as voters by entry "
        f"{row.counted_index} ({row.at})"
    )
    if before > commit:
        yield _finding(
            "change-before-commit",
            f"Two changes at once: {who} while the change before, entry {before}, was not committed (up to {commit}).",
            row,
        )
    if led.last_index is not None and commit <= led.last_index:
        yield _finding(
            "change-before-noop",
            f"A change too early: {who} before the first entry of its term, {led.last_index + 1}, was committed (up to "
            f"{commit}): there may be another change that it has never seen.",
            row,
        )
    if not majorities_meet(old, new):
        yield _finding(
            "quorums-apart",
            f"Majorities apart: {who} in place of {', '.join(old)}: a majority of these and one of those need not "
            "share a voter.",
            row,
        )


def _said(row: Row) -> InForce:
    # No entry names the founders: each node has them from its start, and one that joins later may not know them.
    return row.counted_index, (row.counted or "") if row.counted_index else ""


def _all_apart(logs: Iterable[Mapping[InForce, Mapping[str, Row]]]) -> Iterator[dict[str, Any]]:
    """Nodes with the same log, or one node at two times, that have different members in force.

    Once for the same members, however many entries that lasts.
    """
    apart: dict[tuple[str | None, frozenset[InForce]], list[list[Row]]] = {}
    for said in logs:
        if len(said) > 1:
            shown = [next(iter(of_nodes.values())) for of_nodes in said.values()]
            apart.setdefault((shown[0].group, frozenset(said)), []).append(shown)
    for first, *later in apart.values():
        yield _apart(first, len(later))


def _apart(shown: Sequence[Row], later: int) -> dict[str, Any]:
    first = shown[0]
    members = " and ".join(f"{row.node} has {_in_force(row)} ({row.at})" for row in shown)
    more = f" The same holds of {counted(later, 'later entry', 'later entries')}." if later else ""
    return {
        "anomaly": "members-apart",
        "sentence": (
            f"Members apart: of the same log up to entry {first.log_index} of term {first.log_term}"
            f"{of_group(first.group)} {members}.{more}"
        ),
        "entry": first.log_index,
        "rows": [row.shown() for row in shown],
    }


def _in_force(row: Row) -> str:
    members = ", ".join(f"{member}{'' if votes else ' (learner)'}" for member, votes in counts_of(row).items())
    return f"{members or 'no members'} in force by entry {row.counted_index}"


def _finding(anomaly: str, sentence: str, row: Row) -> dict[str, Any]:
    return {"anomaly": anomaly, "sentence": sentence, "by": row.node, "row": row.shown()}


def _praise(changes: int, compared: int) -> str:
    same = f"nodes with the same log had the same members in force ({counted(compared, 'log')} compared)."
    if not changes:
        nothing = "No leader reported a change of members"
        return f"{nothing}; {same}" if compared else f"Nothing was judged: {nothing[:1].lower()}{nothing[1:]}."
    judged = (
        f"{counted(changes, 'change')} of members came one at a time, each in a term of which an entry was committed"
    )
    return f"{judged}; {same}" if compared else f"{judged}."
