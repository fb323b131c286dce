"""Are the reads that a leader answers by itself linearizable? Promised only while one leader leads all the time.

A node that takes itself for the leader, and asks no other, is right as long as no other one was elected. So a run is
judged if it has no fault, and all its answers are of one term; any other run is true, and the sentence says that such
reads promise no more there than sessions are promised (checker `session`). A run that could be judged, and in which no
such read was answered, is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.linearizable import Linearizable
from splitbrain.checkers.models import ReadModes
from splitbrain.checkers.partitions import by_key
from splitbrain.checkers.sessions.options import is_read
from splitbrain.checkers.turns import Task, judge_in_turns
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import Bools, Calls, client_calls
from splitbrain.results.columns import codes, numbers
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: read is the function of reads that a leader answers by itself."""

    read: str = "read-leader"


class LeaderReads(OfOneRun):
    """Judges reads of the leader with all writes, key by key; its options are the fields of `Options`."""

    name = "leader-reads"
    partition: Partition = "run"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return (*ReadModes.fs, _options(options).read)

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong, or an op is none of a register's.
        """
        f = _options(options).read
        calls = client_calls(history)
        reads = int(np.count_nonzero(calls.are(f) & calls.ended("ok")))
        if why_not := _why_not(calls, f):
            sentence = f"{counted(reads, 'read')} of the leader promised no linearizability: {why_not}."
            return Verdict(
                checker=self.name,
                valid="true",
                algorithm="none",
                sentence=sentence,
                figures={"reads": reads, "judged": 0},
            )
        if not reads:
            return self._nothing_read(f)
        wanted = {"model": f'read-modes(["{f}"])'}
        linearizable = Linearizable()
        tasks = [linearizable.begin(part, wanted) for part in by_key(history)]
        found = linearizable.merge(judge_in_turns(tasks, _raised), wanted)
        return msgspec.structs.replace(
            found, checker=self.name, figures={**found.figures, "reads": reads, "judged": reads}
        )

    def _nothing_read(self, f: str) -> Verdict:
        sentence = f"Unknown: no {f} was answered, so there was no read of the leader to judge."
        return Verdict(
            checker=self.name,
            valid="unknown",
            algorithm="none",
            sentence=sentence,
            inconclusive=(Reason(Code.NO_OCCASION, sentence),),
            figures={"reads": 0, "judged": 0},
        )


def _why_not(calls: Calls, f: str) -> str:
    """Why another leader may have been elected, as a clause; empty if none was."""
    history = calls.table
    if run_events(history).fault_ops:
        return "there were faults, and another leader may have been elected"
    if not len(calls.invoke):
        return "no client called anything"
    column = numbers(history.column("term"), null=-1)
    of_clients = column[numbers(history.column("process")) >= 0]
    known = sorted(set(of_clients[of_clients >= 0].tolist()))  # sorted: the set only removes repeats
    if not known:
        return "its answers have no terms, and another leader may have been elected"
    if len(known) > 1:
        return f"there were leaders of the terms {known[0]} to {known[-1]}"
    termless = int(np.count_nonzero(column[calls.complete[_by_leader(calls, f) & calls.ended("ok")]] < 0))
    if termless:
        return f"{counted(termless, 'answer')} of reads of the leader and of writes had no term"
    return ""


def _by_leader(calls: Calls, f: str) -> Bools:
    """Which ops a leader answered: all but reads in other modes."""
    others = [name for name in codes(calls.table.column("f"))[1] if is_read(name) and name != f]
    found = np.ones(len(calls.invoke), np.bool_)
    for other in others:
        found &= ~calls.are(other)
    return found


def _options(options: Mapping[str, Any]) -> Options:
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"checker leader-reads: {error}; it takes {', '.join(Options.__struct_fields__)}.") from None


def _raised(_: Task, error: Exception) -> Verdict:
    raise error
