"""Maintained replicas: queues keep their target of live replicas, and change one member at a time (S001; CMR-3).

    short      in the end, with all healed and nothing changing for long, a queue has fewer replicas than its target,
               though there are nodes that are not drained
    unserved   in the end, with all healed and nothing changing for long, a queue took nothing more of what a client put
               in, but what others did: the client's node does not find the replica that leads
    two        two changes of members were under way at once, or one changed more than its member
    dip        a member of the cluster was removed without an operator, and fewer than the target were left
    draining   a replica was placed on a node that was being drained, without an operator
    exceeds    a replica was added without an operator and without a fault, though there were as many as the target
    extra      a replica was removed without an operator and without a fault
    hasty      a replica was added or removed without an operator, though there were as many as the target, and no fault
               had been in force for as long as a node must be down to count as failed

Changes of a queue have numbers. So what a look shows that began before a change, and ended, stands before it: all
rules compare such a look with the first one that names the change. A node counts as drained from the answer of its
drain until a revival of it begins that may have happened. An operator may do most of this: then it is no violation.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding, answer
from splitbrain.checkers.durations import DAY_S, seconds_of
from splitbrain.checkers.queues.calm import Calm
from splitbrain.checkers.replicas.reading import Look, Put, Reading, read
from splitbrain.checkers.replicas.rules import Rules, steps
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import ints
from splitbrain.results.columns import array
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

SETTLE_S: Final = 10.0
BACK_S: Final = 4.0
"""So long after a fault nodes may still not see each other: links are made again, and each looks once a second."""

EARLY_S: Final = 1.5
"""So much earlier than a fault was injected its beginning may have been: the last sign of life of a node."""

QUIET_S: Final = 8.0
TRIES: Final = 3
"""So often a client asks before it counts as not served."""

_MOST_SEVERE_FIRST: Final = ("short", "unserved", "two", "dip", "draining", "exceeds", "extra", "hasty")


class Replicas(OfOneRun):
    """Judges ops that look at the replicas of queues (`look`), put into them (`enqueue`), and drain and revive nodes.

    Options: `target` (required), how many live replicas each queue is to have; `settle_s`, how long after a fault a
    node may still count as failed (default 10); `quiet_s`, for how long nothing may have changed at the end (8);
    `recovery_s`, for how long a node must be down to count as failed (0: `hasty` is not judged).
    """

    name = "replicas"
    partition: Partition = "run"
    counts_ops = True

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return ("look", "enqueue", "drain", "revive")

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
            HistoryFormatError: an answer makes no sense.
        """
        if unknown := sorted(set(options) - {"target", "settle_s", "quiet_s", "recovery_s"}):
            raise UsageError(
                f"checker {self.name} takes target, settle_s, quiet_s and recovery_s, not {', '.join(unknown)}."
            )
        target: Any = options.get("target")
        if isinstance(target, bool) or not isinstance(target, int) or target < 1:
            raise UsageError(f"checker {self.name}: option 'target' must be a whole number from 1 on, not {target!r}.")
        quiet_s, recovery_s = self._seconds(options, "quiet_s", QUIET_S), self._seconds(options, "recovery_s", 0)
        calm = Calm.of(self.name, history, {k: v for k, v in options.items() if k == "settle_s"}, SETTLE_S)
        start = time.process_time()
        table = history.filter(array(ints(history, "process") >= 0)).combine_chunks()
        judge = _Judge(table, read(table), target, quiet_s, calm)
        troubles = Calm.of(self.name, history, {}, 0)
        verdict = judge.verdict(self.name, _Failures(judge.time, troubles, recovery_s))
        return msgspec.structs.replace(verdict, seconds=round(time.process_time() - start, 6))

    def _seconds(self, options: Mapping[str, Any], name: str, default: float) -> float:
        return seconds_of(self.name, name, options.get(name, default), most=DAY_S)


NOTICED_S: Final = 2.0
"""A node that was away for so long was noticed by most others."""


class _Failures:
    """Whether a node may have been down for long enough to count as failed; always if no time is given."""

    def __init__(self, time: Any, troubles: Calm, recovery_s: float) -> None:
        self._time = time
        self._troubles = troubles
        self._recovery_s = recovery_s

    def may_be(self, begun: int, ended: int) -> bool:
        """Whether one may have been between two rows."""
        if not self._recovery_s:
            return True
        span = int(self._time[begun]), int(self._time[ended])
        longest_ns = self._troubles.longest_trouble(*span, round(BACK_S * 1e9))
        return longest_ns + EARLY_S * 1e9 >= self._recovery_s * 1e9

    @property
    def brief(self) -> int:
        """How many faults were too brief for a node to count as failed, and long enough for others to notice."""
        lasted_ns = (to_ns - from_ns for from_ns, to_ns in self._troubles.troubles)
        return sum(NOTICED_S * 1e9 <= each < self._recovery_s * 1e9 for each in lasted_ns)


class _Judge:
    """One run, in rows of its table: row order is real-time order."""

    def __init__(self, table: pa.Table, reading: Reading, target: int, quiet_s: float, calm: Calm) -> None:
        self.table = table
        self.reading = reading
        self.target = target
        self.calm = calm
        self.time = ints(table, "time")
        self.quiet_ns = round(quiet_s * 1e9)
        rests = {name: self._rest(looks) for name, looks in reading.looks.items()}
        self.rests = {name: rest for name, rest in rests.items() if rest is not None}
        self.quiet = {name: max(reading.looks[name], key=lambda look: look.ended) for name in self.rests}

    def _rest(self, looks: list[Look]) -> tuple[int, int] | None:
        """From when to when, until the last look at a queue, nothing changed, without a fault, if that was long."""
        last = max(looks, key=lambda look: look.ended)
        nodes = set(last.seen.cluster)
        after = max((look.ended for look in looks if set(look.seen.cluster) != nodes), default=-1)
        same = [look for look in looks if look.seen.last == last.seen.last and look.seen.change is None]
        same = [look for look in same if look.begun > after]  # a node that came or went changes what is wanted
        if last.seen.change is not None or not same:
            return None
        first = min(same, key=lambda look: look.begun)
        from_ns, to_ns = int(self.time[first.ended]), int(self.time[last.begun])
        from_ns = max(from_ns, self.calm.since(to_ns))
        return (from_ns, to_ns) if to_ns - from_ns >= self.quiet_ns else None

    def verdict(self, checker: str, failures: _Failures) -> Verdict:
        """What there is to say."""
        found: dict[str, list[Finding]] = {name: [] for name in _MOST_SEVERE_FIRST}
        for name, looks in self.reading.looks.items():
            stayed = frozenset(max(looks, key=lambda look: look.ended).seen.cluster)
            at = partial(answer, self.table)
            rules = Rules(name, self.target, stayed, self._is_calm, failures.may_be, at)
            for rule, findings in rules.findings(self.reading).items():
                found[rule] += findings
        found["short"] = list(self._short())
        found["unserved"] = list(self._unserved())
        findings = [finding for each in found.values() for finding in each]
        figures = {**self._figures(), "brief": failures.brief, **{name: len(each) for name, each in found.items()}}
        reasons = list(self._too_little(figures))
        sentence = findings[0].sentence if findings else reasons[0].sentence if reasons else self._praise(figures)
        return Verdict(
            checker=checker,
            valid="false" if findings else "unknown" if reasons else "true",
            algorithm="numbered changes between looks",
            sentence=sentence,
            anomalies=tuple(name for name in _MOST_SEVERE_FIRST if found[name]),
            inconclusive=tuple(reasons),
            evidence=by_key.evidence_of(self.table, findings),
            figures=figures,
        )

    def _is_calm(self, begun: int, ended: int) -> bool:
        return self.calm.covers(int(self.time[begun]), int(self.time[ended]))

    def _short(self) -> Iterator[Finding]:
        for name, look in self.quiet.items():
            live = self._live(look)
            spare = self._spare(look, self.rests[name][0])
            if len(live) < min(self.target, len(live) + len(spare)):
                yield Finding(
                    "short",
                    f"Short of replicas: queue {name} is on {', '.join(live) or 'no node'} at "
                    f"{answer(self.table, look.ended)}, and nothing changes any more. The target is {self.target}, and "
                    f"the cluster has {counted(len(look.seen.cluster), 'member')}.",
                    (look.ended,),
                )

    def _live(self, look: Look) -> list[str]:
        return [member for member in look.seen.members if member in look.seen.cluster]

    def _spare(self, look: Look, from_ns: int) -> list[str]:
        """The nodes without a replica of a queue that were certainly not drained since some time."""
        others = [node for node in look.seen.cluster if node not in look.seen.members]
        return [node for node in others if not self._may_be_drained(node, from_ns)]

    def _may_be_drained(self, node: str, from_ns: int) -> bool:
        certain = [each for each in self.reading.revivals if each.node == node and each.is_certain]
        back = [each for each in certain if self.time[each.ended] <= from_ns]
        return any(
            drain.node == node and drain.may_be and not any(each.begun > drain.ended for each in back)
            for drain in self.reading.drains
        )

    def _unserved(self) -> Iterator[Finding]:
        for name, (from_ns, to_ns) in self.rests.items():
            of_process: dict[int, list[Put]] = {}
            for put in self.reading.puts.get(name, ()):
                if from_ns <= self.time[put.begun] and self.time[put.ended] <= to_ns:
                    of_process.setdefault(put.process, []).append(put)
            served = [process for process, puts in of_process.items() if any(put.is_ok for put in puts)]
            # A queue that is just being formed takes nothing of any client yet.
            taken = (self.time[put.ended] for puts in of_process.values() for put in puts if put.is_ok)
            first_ns = min(taken, default=0)
            for process, every in of_process.items():
                puts = [put for put in every if self.time[put.begun] >= first_ns]
                if served and process not in served and len(puts) >= TRIES:
                    yield Finding(
                        "unserved",
                        f"Not served: queue {name} took none of the {counted(len(puts), 'message')} of process "
                        f"{process} in the end, the last at {answer(self.table, puts[-1].ended)}, with all healed and "
                        f"nothing changing for long. It took those of {counted(len(served), 'other client')}.",
                        (puts[0].begun, puts[-1].ended),
                    )

    def _figures(self) -> dict[str, Any]:
        changes = [step.change for looks in self.reading.looks.values() for step in steps(looks)]
        automated = [change for change in changes if change.by == "automation"]
        return {
            "queues": len(self.reading.looks),
            "quiet": len(self.quiet),
            "attempted": self.reading.attempts,
            "looks": sum(map(len, self.reading.looks.values())),
            "changes": len(changes),
            "automated": len(automated),
            "replaced": sum(change.kind == "grow" and change.outcome == "done" for change in automated),
            "by_operators": len(changes) - len(automated),
            "drains": sum(each.is_certain for each in self.reading.drains),
        }

    def _too_little(self, figures: Mapping[str, Any]) -> Iterator[Reason]:
        if not figures["looks"]:
            yield Reason(Code.NEVER_OK, "No look at a queue was answered: nothing is known of its replicas.")
            return
        if figures["quiet"] < figures["queues"]:
            restless = ", ".join(str(name) for name in self.reading.looks if name not in self.quiet)
            yield Reason(
                Code.NOT_EXERCISED,
                f"Queue {restless} did not come to rest: it is not known whether the target would be reached.",
            )
        for name, look in self.quiet.items():
            live = self._live(look)
            if len(live) < min(self.target, len(look.seen.cluster)) and not self._spare(look, self.rests[name][0]):
                yield Reason(
                    Code.NOT_EXERCISED,
                    f"Queue {name} has {counted(len(live), 'live replica')}, and all other nodes may still be drained: "
                    "it is not known whether the target would be reached.",
                    "Revive all nodes before the end.",
                )
        if not figures["replaced"] and not figures["brief"]:
            yield Reason(Code.NO_OCCASION, "No replica was added without an operator: no change was needed.")

    def _praise(self, figures: Mapping[str, Any]) -> str:
        return (
            f"{counted(figures['queues'], 'queue')} came to rest with at least {self.target} live replicas each, or as "
            f"many as there are nodes, after {counted(figures['automated'], 'change')} by the system and "
            f"{figures['by_operators']} by operators, one at a time. "
            f"{counted(figures['brief'], 'fault')} did not last for so long that a node counts as failed."
        )
