"""What clients must complete for a run to prove anything: floors, and reasons where the run is below them.

Floors follow from the number of ops that were possible (`Load.possible`): length, rate, clients and op timeout.

    functions   each was invoked; of each at least `OK_SHARE` of what was possible was ok in the faults phase
    all         at least `ANSWERED_SHARE` of what was possible, and `ANSWERED_MIN`, was answered in the faults phase;
                what standbys refuse does not count as possible, as far as more than one node's share is left
    time        the system answered in more than half of the parts of the faults phase, and did not stop answering
                while no fault was in force
    nodes       each node that could answer for half of the time received, and answered, its share of `OK_SHARE`
    final       after all faults one in `ONE_OF` ops of each function was ok, and each node that received ops answered;
                standbys only have to say that they are standbys, and what they refuse is not counted
    reads       some saw a client's write (`splitbrain.checkers.coverage.sights`)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from splitbrain.checkers.coverage.calls import ClientOps
from splitbrain.checkers.coverage.judged import of_judges
from splitbrain.checkers.coverage.modes import of_modes
from splitbrain.checkers.coverage.options import Load, Options
from splitbrain.checkers.coverage.outages import calm, out_ns
from splitbrain.checkers.coverage.sights import ONE_OF, of_reads
from splitbrain.results.calls import Bools, Calls, seconds
from splitbrain.results.faults import RunEvents
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

ANSWERED_SHARE: Final = 0.15
ANSWERED_MIN: Final = 20
"""Fewer answers prove nothing, however few a test requires: about `OK_MIN` for each of three functions."""

OK_SHARE: Final = 0.02
"""Small, since a lock that is held refuses most ops: a refusal is an answer, but proves little."""

OK_MIN: Final = 6
PARTS: Final = 10
PART_OPS: Final = 5
"""The least number of possible ops in a part of the faults phase: a shorter part proves nothing."""

SILENCE_MIN_S: Final = 5.0
"""The shortest silence without a fault that is reported, in seconds."""

SILENCE_OPS: Final = 10
ASKED_MIN: Final = 3
"""A node that received fewer ops in the final phase is not called silent."""

ERROR_CHARS: Final = 150
"""The longest part of an error that a reason shows."""

_NO_OPS: Final = "Does the workload's generator make ops for clients, and is the --time-limit long enough for one?"
MORE: Final = "Give it a longer --time-limit, a higher --rate, or fewer faults; a slow system a longer --op-timeout."


class Work:
    """What the clients of one run did, and which floors it misses."""

    def __init__(self, calls: Calls, events: RunEvents, wanted: Options) -> None:
        self._events = events
        self._wanted = wanted
        self._ops = ClientOps(calls, events, wanted.local)
        self._fs = list(wanted.fs) or self._ops.functions()
        load, ops = wanted.load, self._ops
        invoked = _count(ops.faults)
        self._possible = float(invoked) if load is None else load.possible(ops.lasted_s)
        self._of_nodes = self._possible * (_count(ops.faults & ~ops.local) / invoked if invoked else 1.0)
        """The part of these ops that clients send to nodes."""
        self._of_leaders = self._of_nodes * self._share_of_leaders(_count(ops.faults & ~ops.local))
        """The part of those that are not sent to standbys, which refuse them."""

    def ok_by_f(self) -> dict[str, int]:
        """How many ops of each function were ok, in all phases."""
        return {f: _count(self._ops.are(f) & self._ops.ok) for f in self._fs}

    def floors(self) -> dict[str, Any]:
        """The floors of the faults phase: ops that are answered, and ok ops of each function."""
        if not self._wanted.floors:
            return {}
        return {
            "possible": round(self._possible),
            "answered": self._answered_floor(),
            "ok": {f: self._floor(f) for f in self._fs},
        }

    def reasons(self) -> Iterator[Reason]:
        """A reason for each floor that the run misses."""
        ops = self._ops
        if not len(ops.ok):
            yield Reason(Code.NOT_EXERCISED, "clients invoked no op: there is nothing to judge.", _NO_OPS)
            return
        for chosen, when in ((np.ones_like(ops.ok), ""), (ops.faults, " of the faults phase")):
            if chosen.any() and not (chosen & ops.ok).any():
                yield Reason(
                    Code.NOTHING_OK,
                    f"none of {counted(_count(chosen), 'client op')}{when} was ok: there is nothing to judge."
                    f"{self._ended_with(chosen)}",
                    "Are the nodes reachable, and is --op-timeout long enough?",
                )
                return
        yield from of_judges(ops, self._wanted, self._fs)
        yield from self._functions()
        yield from self._final()
        yield from of_reads(ops, self._wanted, self._fs)
        yield from of_modes(ops, self._events, self._wanted)
        if self._wanted.floors:
            yield from self._all()
            yield from self._time()
            yield from self._nodes()

    # --- functions ----------------------------------------------------------------------------------------------

    def _functions(self) -> Iterator[Reason]:
        for f in self._fs:
            of_f = self._ops.are(f)
            ok, invoked = _count(of_f & self._ops.ok), _count(of_f)
            if not invoked:
                yield Reason(
                    Code.NOT_EXERCISED,
                    f"no op of {f!r} was ever invoked.",
                    f"Does the workload's generator make ops of {f!r}? If it seldom does, give the test a longer "
                    f"--time-limit or a higher --rate.",
                )
                continue
            given = self._wanted.given_floor(f)
            if not ok and given != 0:
                least = f"; at least {given} are needed" if given else ""
                yield Reason(
                    Code.NEVER_OK,
                    f"none of {counted(invoked, 'op')} of {f!r} was ok{least}.{self._ended_with(of_f)}",
                    "Does the client carry it out correctly, and can the system? A slow one needs a longer "
                    "--op-timeout.",
                )
            elif given is not None:
                if ok < given:
                    yield Reason(
                        Code.TOO_FEW_OPS, f"only {counted(ok, 'ok op')} of {f!r}; at least {given} are needed.", MORE
                    )
            elif self._wanted.floors:
                yield from self._too_few(f)

    def _ended_with(self, chosen: Bools) -> str:
        """A sentence on the most frequent error of these ops."""
        errors = self._ops.errors(chosen)
        if not errors:
            return ""
        (error, times), total = errors[0], _count(chosen)
        shown = error if len(error) <= ERROR_CHARS else f"{error[:ERROR_CHARS]}..."
        how_many = "It" if total == 1 else "All of them" if times == total else f"{times} of them"
        return f" {how_many} ended with this error: {shown.rstrip('.')}."

    def _too_few(self, f: str) -> Iterator[Reason]:
        """Below the floor of the faults phase."""
        ops = self._ops
        of_f = ops.are(f) & ops.faults
        ok, invoked, least = _count(of_f & ops.ok), _count(of_f), self._floor(f)
        if ok < least:
            origin = self._of_what(f"{OK_SHARE:.0%}") if least > self._least(invoked) else _few(OK_MIN)
            yield Reason(
                Code.TOO_FEW_OPS,
                f"only {ok} of {counted(invoked, 'op')} of {f!r} were ok in the faults phase; at least {least} are "
                f"needed: {origin}.",
                MORE,
            )

    def _floor(self, f: str) -> int:
        """How many ops of `f` must be ok in the faults phase; 0 if none was invoked in it."""
        of_f, total = _count(self._ops.are(f) & self._ops.faults), _count(self._ops.faults)
        if not of_f:
            return 0
        return max(self._least(of_f), math.ceil(OK_SHARE * self._possible * of_f / total))

    def _least(self, invoked: int) -> int:
        return min(OK_MIN, -(-invoked // ONE_OF))

    def _of_what(self, share: str) -> str:
        """The origin of a floor that is a share, in words."""
        load = self._wanted.load
        if load is None:
            return f"{share} of the invoked ops"
        return f"{share} of the {round(self._possible):,} ops that the run could have done ({_load(load)})"

    # --- all ops ------------------------------------------------------------------------------------------------

    def _share_of_leaders(self, sent: int) -> float:
        """The share of the ops sent to nodes that standbys did not refuse, but that of one node at least.

        Clients are spread over the nodes: of seven, one that leads alone gets less than `ANSWERED_SHARE` of the ops.
        While none leads, all nodes refuse: that excuses no silence.
        """
        declined, nodes = _count(self._ops.declined & self._ops.faults), len(self._ops.nodes())
        return max(1 - declined / sent, 1 / nodes) if declined and nodes else 1.0

    def _answered_floor(self) -> int:
        least = ANSWERED_MIN if self._wanted.load is not None else 0  # a history without a load may be an excerpt
        return max(least, math.ceil(ANSWERED_SHARE * self._of_leaders))

    def _all(self) -> Iterator[Reason]:
        ops = self._ops
        answered, least = _count(ops.answered & ops.faults), self._answered_floor()
        if answered < least:
            counts = self._of_leaders
            origin = _few(least) if least > ANSWERED_SHARE * counts + 1 else self._of_what(f"{ANSWERED_SHARE:.0%}")
            if counts < self._of_nodes and origin != _few(least):
                origin += f", without {1 - counts / self._of_nodes:.0%} that standbys refused"
            yield Reason(
                Code.TOO_FEW_OPS,
                f"only {answered} of {counted(_count(ops.faults & ~ops.local), 'op')} were answered in the faults "
                f"phase; at least {least} are needed: {origin}.",
                MORE,
            )

    # --- time ---------------------------------------------------------------------------------------------------

    def _time(self) -> Iterator[Reason]:
        parts = min(PARTS, int(self._of_nodes / PART_OPS))
        ops = self._ops
        if ops.lasted_s > 0 and parts > 1:
            bounds = np.linspace(ops.begin_ns, self._load_ends_ns(), parts + 1).tolist()
            answers = ops.ended[ops.answered]
            served = sum(
                bool(np.any((answers >= first) & (answers < last))) for first, last in itertools.pairwise(bounds)
            )
            if 2 * served <= parts:
                yield Reason(
                    Code.MOSTLY_SILENT,
                    f"the system answered in only {served} of {parts} equal parts of the faults phase; more than half "
                    f"are needed.",
                    "Give it fewer or shorter faults, a longer --interval between them, or a longer --time-limit.",
                )
        if self._wanted.load is not None:
            yield from self._silences(self._wanted.load)

    def _load_ends_ns(self) -> int:
        """When the last op of the faults phase was due: a fault that is under way then makes the phase longer."""
        load, ops = self._wanted.load, self._ops
        return ops.end_ns if load is None else min(ops.end_ns, ops.begin_ns + round(load.time_limit_s * 1e9))

    def _silences(self, load: Load) -> Iterator[Reason]:
        """The first span without a fault in which ops were under way and the system answered none for too long."""
        bound_s = max(SILENCE_MIN_S, 2 * load.op_timeout_s, SILENCE_OPS / load.rate)
        ops = self._ops
        answers = np.sort(ops.ended[ops.answered])
        for begin_ns, end_ns, after_fault in calm(self._events, ops.begin_ns, ops.end_ns):
            first_ns = begin_ns + (round(load.recovery_s * 1e9) if after_fault else 0)
            if first_ns >= end_ns:
                continue
            inside = answers[(answers >= first_ns) & (answers < end_ns)]
            marks = np.concatenate([[first_ns], inside, [end_ns]])
            longest = int(np.argmax(np.diff(marks)))
            from_ns, until_ns = int(marks[longest]), int(marks[longest + 1])
            waiting = (ops.begun < until_ns) & (ops.ended > from_ns) & ~ops.answered & ~ops.local
            if until_ns - from_ns > bound_s * 1e9 and waiting.any():
                yield Reason(
                    Code.STOPPED_ANSWERING,
                    f"the system answered nothing from {seconds(from_ns):.3f} s to {seconds(until_ns):.3f} s although "
                    f"no fault was in force and ops were under way.",
                    "See the nodes' logs of that time; a slow system needs a longer --op-timeout.",
                )
                return

    # --- nodes --------------------------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[Reason]:
        ops = self._ops
        nodes = list(self._wanted.load.nodes) if self._wanted.load is not None else ops.nodes()
        if not nodes:
            return
        least = max(1, math.floor(OK_SHARE * self._of_nodes / len(nodes)))
        out = out_ns(self._events, nodes, ops.begin_ns, ops.end_ns)
        for node in nodes:
            at_node = ops.at(node) & ops.faults & ~ops.local
            invoked, answered = _count(at_node), _count(at_node & ops.answered)
            in_action = 2 * out[node] < ops.end_ns - ops.begin_ns
            if answered >= least or not in_action:
                continue
            if invoked < max(least, ASKED_MIN):
                if self._wanted.load is None:
                    continue  # the test does not say that clients use this node
                yield Reason(
                    Code.NODE_NOT_ASKED,
                    f"{node} received {_times(invoked)} in the faults phase and answered {answered}; at least {least} "
                    f"answers are needed, since it could answer for more than half of that time.",
                    "Give it as many clients as nodes (--concurrency), a longer --time-limit, or a higher --rate.",
                )
                continue
            yield Reason(
                Code.NODE_SILENT,
                f"{node} answered only {answered} of the {counted(invoked, 'op')} that it received in the faults "
                f"phase; at least {least} are needed, since it could answer for more than half of that time."
                f"{self._ended_with(at_node & ~ops.answered)}",
                "See its log; a slow system needs a longer --op-timeout.",
            )

    # --- after all faults ---------------------------------------------------------------------------------------

    def _final(self) -> Iterator[Reason]:
        ops = self._ops
        if not ops.has_final:
            return
        if not ops.final.any():
            if not self._events.of_harness("interrupted"):
                yield Reason(Code.NOT_EXERCISED, "no op was invoked in the final phase, after all faults.")
            return
        for f in ops.functions():
            of_f = ops.are(f) & ops.final & ~ops.local
            invoked, answered = _count(of_f), _count(of_f & ops.answered)
            least = max(-(-_count(of_f & ~ops.declined) // ONE_OF), 1 if invoked else 0)
            if answered < least:
                yield Reason(
                    Code.TOO_FEW_OPS if answered else Code.NEVER_OK,
                    f"only {answered} of {counted(invoked, 'op')} of {f!r} were answered after all faults; at least "
                    f"{least} are needed.{self._ended_with(of_f & ~ops.answered)}",
                    "Everything was healed by then: see the nodes' logs.",
                )
        for node in ops.nodes():
            at_node = ops.at(node) & ops.final & ~ops.local
            if _count(at_node) >= ASKED_MIN and not (at_node & (ops.answered | ops.declined)).any():
                yield Reason(
                    Code.NODE_SILENT,
                    f"{node} answered none of the {_count(at_node)} ops that it received after all faults."
                    f"{self._ended_with(at_node)}",
                    "See its log: everything was healed by then.",
                )


def _count(chosen: Bools) -> int:
    return int(np.count_nonzero(chosen))


def _few(least: int) -> str:
    return f"fewer than {least} prove nothing"


def _times(ops: int) -> str:
    return "no op" if not ops else counted(ops, "op")


def _load(load: Load) -> str:
    clients = f"{load.concurrency} clients with an op timeout of {load.op_timeout_s:g} s"
    return f"{load.rate:g} ops/s for {load.time_limit_s:g} s, {clients}"
