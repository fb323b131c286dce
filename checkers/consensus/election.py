"""Election safety: at most one leader in a term (Raft, figure 3 and section 5.2; Ongaro and Ousterhout 2014).

    two-leaders    two nodes led the same term
    elected-twice  one node led the same term in two of its lives, or again after another role in it: it forgot that the
                   term was over
    voted-twice    one node voted for two candidates in the same term
    minority       a node leads, and no majority of the voters by its own log voted for it
    learner-stands a node stands for election, or leads, that is a member without a vote by its own log

A node starts as a follower. It leads only after it won an election, and each election has a new term. So a node that
leads the same term again, after a restart or after it stepped down, was elected twice in it. If nodes report their
votes (rows of event "vote", whose `leader` is the candidate), a second vote in a term is found even if it changes no
election. A vote that names no candidate is not counted. A node that left, lost its data, and came back (a row of
event "new-member") is another member, with a vote of its own. A leader is asked for its majority if it reported its
own vote in the term, and every voter reported anything; a voter that was killed then may have voted for it without a
word (`.untold`). A learner neither votes nor stands (thesis, 4.2.1): it is judged by the rows of event "role", where
they name the `members`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.consensus.untold import Untold
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.arrow import array
from splitbrain.results.calls import is_equal, seconds
from splitbrain.results.once import once
from splitbrain.results.quantities import counted

Term: TypeAlias = tuple[str | None, int]
Leaders: TypeAlias = dict[tuple[str, int, int], list[Row]]
"""For each node and life that led a term, and how often it had stepped down from it before: the rows that say so."""

Votes: TypeAlias = dict[tuple[str | None, str, int], dict[str, Row]]
"""For each group, node and term: the first row that reports a vote for each candidate."""


_STANDING: Final = ("pre_candidate", "candidate", "leader")

_TELLS_A_VOTE: Final = ("vote", "start")
"""A node that is killed once its vote is durable, before it reports it, says at its next start whom it voted for."""

_INCARNATION: Final = "#"
"""Between the name of a node and which life of its data it is, in the id of a member."""


class ElectionSafety(OfOneRun):
    """Judges every row whose role is "leader", and every vote. No options.

    The figures: `terms` with a leader, `leaders` (distinct nodes), `highest_term`, `votes` that were reported,
    `majorities` that were counted, and `broken` terms (votes included).
    """

    name = "election-safety"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        return once(telemetry, type(self)._judge)

    @classmethod
    def _judge(cls, telemetry: pa.Table) -> Verdict:
        """The verdict, which the checker of quorum progress needs as well."""
        terms: dict[Term, Leaders] = {}
        stretches: dict[tuple[Term, str, int], _Stretches] = {}
        votes: Votes = {}
        by_member: dict[tuple[str | None, str, int, int], dict[str, Row]] = {}
        members: dict[tuple[str | None, str], int] = {}
        untold = Untold()
        has_roles = False
        for row in rows(telemetry):
            untold.step(row)
            member = members.setdefault((row.group, row.node), 0)
            if row.event == "new-member":
                member = members[row.group, row.node] = member + 1
            if row.role is None or row.term is None:
                continue
            has_roles = True
            if row.event in _TELLS_A_VOTE and row.leader is not None:
                votes.setdefault((row.group, row.node, row.term), {}).setdefault(row.leader, row)
            if row.event == "vote" and row.leader is not None:
                by_member.setdefault((row.group, row.node, member, row.term), {}).setdefault(row.leader, row)
            term = (row.group, row.term)
            stretch = stretches.setdefault((term, row.node, row.life), _Stretches()).step(row)
            if row.role == "leader":
                terms.setdefault(term, {}).setdefault((row.node, row.life, stretch), []).append(row)
        found = [_finding(term, leaders) for term, leaders in terms.items() if len(leaders) > 1]
        found += [_double_vote(node, cast) for (_, node, _, _), cast in by_member.items() if len(cast) > 1]
        elected = list(_elected(telemetry, votes, members, untold))
        found += [_minority(*each) for each in elected if 2 * len(each[2]) <= len(each[1])]
        found += _standing_learners(telemetry)
        nodes = dict.fromkeys(node for leaders in terms.values() for node, _, _ in leaders)
        return verdict_of(
            cls.name,
            unknown=not has_roles,
            algorithm="leaders by term",
            found=found,
            otherwise=_praise(len(terms), len(nodes), has_roles),
            figures={
                "terms": len(terms),
                "leaders": len(nodes),
                "highest_term": max((term for _, term in terms), default=0),
                "votes": sum(map(len, votes.values())),
                "majorities": len(elected),
                "broken": len(found),
            },
        )


class _Stretches:
    """How often one life of a node stepped down in a term that it led."""

    def __init__(self) -> None:
        self._leads = False
        self._ended = 0

    def step(self, row: Row) -> int:
        """Take the life's next row in the term."""
        leads = row.role == "leader"
        self._ended += self._leads and not leads
        self._leads = leads
        return self._ended


def _standing_learners(telemetry: pa.Table) -> Iterator[dict[str, Any]]:
    """The first finding of each life of a node that has no vote by its own log, is a member, and stands or leads."""
    roles = telemetry.filter(array(is_equal(telemetry, "event", "role")))
    electorates: list[list[str] | None] = roles.column("voters").to_pylist()
    seen: dict[tuple[str | None, str, int], None] = {}
    for row, voters in zip(rows(roles), electorates, strict=True):
        life = (row.group, row.node, row.life)
        if row.role not in _STANDING or row.members is None or not voters or row.node in voters or life in seen:
            continue
        if any(_node_of(member) == row.node for member in row.members.split()):
            seen[life] = None
            yield _standing_learner(row, voters)


def _node_of(member: str) -> str:
    return member.partition(_INCARNATION)[0]


def _standing_learner(row: Row, voters: Collection[str]) -> dict[str, Any]:
    does = "led" if row.role == "leader" else "stood for election in"
    return {
        "anomaly": "learner-stands",
        "sentence": (
            f"A learner stands: {row.node} {does} term {row.term}{of_group(row.group)} ({row.at}), and by its own log "
            f"only {', '.join(voters)} vote."
        ),
        "row": row.shown(),
        "voters": list(voters),
    }


def _elected(
    telemetry: pa.Table, votes: Votes, known: Collection[tuple[str | None, str]], untold: Untold
) -> Iterator[tuple[Row, list[str], list[str]]]:
    """The rows with which leaders began, who the voters were by their logs, and which of those had voted for them.

    Those are left out whose majority depends on votes that may have been given, and were not reported.
    """
    began = telemetry.filter(array(is_equal(telemetry, "event", "role") & is_equal(telemetry, "role", "leader")))
    electorates: list[list[str] | None] = began.column("voters").to_pylist()
    for row, voters in zip(rows(began), electorates, strict=True):
        if not voters or row.term is None or row.node not in votes.get((row.group, row.node, row.term), {}):
            continue
        if not all((row.group, voter) in known for voter in voters):
            continue
        had = [voter for voter in voters if row.node in votes.get((row.group, voter, row.term), {})]
        may = [voter for voter in voters if voter in had or untold.may_have_voted(row.group, voter, row.term)]
        if 2 * len(had) > len(voters) or 2 * len(may) <= len(voters):
            yield row, voters, had


def _minority(leader: Row, voters: list[str], votes: list[str]) -> dict[str, Any]:
    who = f"only {_listed(votes)}" if votes else "none"
    return {
        "anomaly": "minority",
        "sentence": (
            f"Elected by a minority: {leader.node} led term {leader.term}{of_group(leader.group)} ({leader.at}), and "
            f"{who} of the voters {_listed(voters)} voted for it in that term."
        ),
        "group": leader.group,
        "term": leader.term,
        "node": leader.node,
        "voters": voters,
        "votes": votes,
    }


def _finding(term: Term, leaders: Leaders) -> dict[str, Any]:
    nodes = list(dict.fromkeys(node for node, _, _ in leaders))
    stretches = [f"{node} in life {life}, {_stretch(led)}" for (node, life, _), led in leaders.items()]
    where = f"term {term[1]}{of_group(term[0])}"
    if len(nodes) > 1:
        sentence = f"{_count(len(nodes))} leaders: {where} was led by {' and by '.join(stretches)}."
    else:
        in_one_life = len({life for _, life, _ in leaders}) == 1
        how = "again after it had another role in that term" if in_one_life else "in more than one life"
        sentence = f"Elected twice: {where} was led by {nodes[0]} {how}: {'; '.join(stretches)}."
    return {
        "anomaly": "two-leaders" if len(nodes) > 1 else "elected-twice",
        "sentence": sentence,
        "group": term[0],
        "term": term[1],
        "leaders": [
            {
                "node": node,
                "life": life,
                "first_s": seconds(led[0].time),
                "last_s": seconds(led[-1].time),
                "rows": len(led),
            }
            for (node, life, _), led in leaders.items()
        ],
    }


def _listed(nodes: list[str]) -> str:
    """As in: n1, n2 and n3."""
    return " and ".join([", ".join(nodes[:-1]), nodes[-1]]) if nodes[1:] else "".join(nodes)


def _double_vote(node: str, cast: dict[str, Row]) -> dict[str, Any]:
    first = next(iter(cast.values()))
    stories = [f"for {candidate} {row.at}" for candidate, row in cast.items()]
    return {
        "anomaly": "voted-twice",
        "sentence": f"Voted twice: {node} voted in term {first.term}{of_group(first.group)} {' and '.join(stories)}.",
        "group": first.group,
        "term": first.term,
        "node": node,
        "votes": [{"candidate": candidate, **row.shown()} for candidate, row in cast.items()],
    }


def _stretch(led: list[Row]) -> str:
    first, last = led[0].time / 1e9, led[-1].time / 1e9
    return f"seen at {first:.3f} s" if len(led) == 1 else f"seen from {first:.3f} s to {last:.3f} s"


def _count(nodes: int) -> str:
    return "Two" if nodes == 2 else str(nodes)


def _praise(terms: int, nodes: int, has_roles: bool) -> str:
    if not has_roles:
        return "Unknown: no row of the telemetry has a role and a term."
    if not terms:
        return "No leader was seen, so no term had two leaders."
    return f"No term had more than one leader: {counted(terms, 'term')} had one, {counted(nodes, 'node')} led."
