"""The plan of a run: what clients and nemesis did and when, apart from what came of it.

A run in a simulation is a function of its seed; its plan can be taken apart, shrunk and kept as a regression test. On
real nodes the plan is all that can be repeated. A plan file is JSON with a line for each op, made to be read, changed
and compared by people:

    {
      "format": 1,
      "options": {"workload": "register", ..., "seed": 7},
      "nodes": ["n1", "n2", "n3"],
      "placement": ["n1", "n3"],
      "end_ns": 2000000000,
      "faults": [
        {"at_ns":500000000,"f":"start-partition","value":{"action":"start","fault":"partition",...}}
      ],
      "ops": [
        {"at_ns":900000000,"f":"write","key":"0","thread":0,"value":3},
        {"at_ns":1500000000,"f":"read","key":"0","thread":1}
      ],
      "final_ops": [],
      "expect": {"outcome": "violation", "checker": "linearizable", ...},
      "versions": {...}
    }

In a regression test, `load` gives the plan of a file, and `scripted` turns the test that its options compose into one
that does just what the plan says.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import LEAST, RATE_MAX, Test, check_placement
from splitbrain.harness.generators.script import ScriptedFault, ScriptedOp, script, script_faults
from splitbrain.results.errors import HistoryFormatError, StoreVersionError, UsageError
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.nemesisop import action_in, fault_in
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others

FORMAT: Final = 1
"""The version of plan files. A higher one is refused."""

_END_NS: Final = 1 << 63
"""No time of a history is as large."""


NODE_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9]{0,11}")
"""What a node of a plan can be called: names become folders."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a run of the plan came out.

    Attributes:
        outcome: "pass", "violation", "inconclusive" or "harness error"; None if it was not judged.
        checker: which checker found the violation.
        anomalies: what it found.
        key: on which key, where it judges each by itself.
        history: the history's hash (`splitbrain.results.arrow.history_hash`); exact in a simulation only.
        fingerprint: the simulation's hash of everything that happened in it.
        plan: the `Plan.digest` of the plan that came out so. One that was changed since has another.
    """

    outcome: Literal["pass", "violation", "inconclusive", "harness error"] | None = None
    checker: str | None = None
    anomalies: tuple[str, ...] = ()
    key: str | None = None
    history: str | None = None
    fingerprint: str | None = None
    plan: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that was done to a system in a run.

    Attributes:
        options: the options of `splitbrain run` from which its test is composed, its seed among them.
        nodes: names of the nodes.
        placement: the node of each client thread.
        end_ns: end of the faults phase; all times are in nanoseconds since the test began.
        faults: what the nemesis did in the faults phase. What heals the system afterwards is not part of a plan.
        ops: what clients did in the faults phase.
        final_ops: what clients did in the final phase; their times count from its beginning.
        expect: its result, None if unknown.
        versions: of what it was recorded with.
        of_seed: the `digest` that it had when it was recorded in a simulation. As long as it still has it, the seed of
            its options gives the very same run.
        format: version of the file's shape.
    """

    options: dict[str, Any]
    nodes: tuple[NodeId, ...]
    placement: tuple[NodeId, ...]
    end_ns: int
    faults: tuple[ScriptedFault, ...] = ()
    ops: tuple[ScriptedOp, ...] = ()
    final_ops: tuple[ScriptedOp, ...] = ()
    expect: Expectation | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    of_seed: str | None = None
    format: int = FORMAT

    def digest(self) -> str:
        """A hash of what it says to do: of everything but what came of it and with what."""
        bare = msgspec.structs.replace(self, expect=None, versions={}, of_seed=None)
        return hashlib.blake2b(encode(bare), digest_size=16).hexdigest()

    def known(self) -> Expectation | None:
        """The result of a run of exactly this plan; None if unknown, because it was changed afterwards or never run.

        If it is unknown whether the plan was changed, its history is unknown.
        """
        if self.expect is None:
            return None
        stamp = self.expect.plan or self.of_seed
        if stamp is None:
            return msgspec.structs.replace(self.expect, history=None, fingerprint=None)
        return self.expect if stamp == self.digest() else None

    def expecting(self, expect: Expectation) -> Plan:
        """The plan, with what came of a run of it."""
        digest = self.digest()
        of_seed = self.of_seed if self.of_seed == digest else None
        return msgspec.structs.replace(self, expect=msgspec.structs.replace(expect, plan=digest), of_seed=of_seed)

    def check(self) -> None:
        """Refuse a plan that makes no sense.

        Raises:
            UsageError: a thread or a node is named that the plan does not have, or a time is negative.
        """
        if not self.nodes or not self.placement:
            raise UsageError("a plan needs at least one node and one client thread.")
        for node in self.nodes:
            if not NODE_NAME.fullmatch(node):
                raise UsageError(
                    f"{node!r} is not a valid node name: use letters and digits, a letter first, 12 at most."
                )
        check_placement(self.placement, self.nodes, len(self.placement))
        self._check_ops()
        if self.end_ns <= 0:
            raise UsageError(f"end_ns must be positive, not {self.end_ns}.")
        if self.end_ns >= _END_NS:
            raise UsageError("end_ns is no time of a run: it is more than 292 years.")
        for place, fault in enumerate(self.faults):
            action = action_in(fault.value)
            if action not in (None, "start", "stop"):
                raise UsageError(f"faults[{place}] has the action {action!r}: it starts a fault, or stops it.")

    def _check_ops(self) -> None:
        threads = len(self.placement)
        for name, ops in (("ops", self.ops), ("final_ops", self.final_ops)):
            for place, op in enumerate(ops):
                if not 0 <= op.thread < threads:
                    raise UsageError(f"{name}[{place}] is for thread {op.thread}; the placement has {threads}.")
        for name, timed in (("ops", self.ops), ("final_ops", self.final_ops), ("faults", self.faults)):
            for place, each in enumerate(timed):
                for time_ns in (each.at_ns, getattr(each, "due_ns", None) or 0):
                    if time_ns < 0:
                        raise UsageError(f"{name}[{place}] has a negative time: {time_ns}.")
                if each.at_ns >= _END_NS:
                    raise UsageError(f"{name}[{place}] is due after more than 292 years, at no time of a run.")
                due_ns = getattr(each, "due_ns", None)
                if due_ns is not None and due_ns > each.at_ns:
                    raise UsageError(
                        f"{name}[{place}] is due at {due_ns}, after it begins ({each.at_ns}): an op waits for a free "
                        f"client, and never begins before it is due."
                    )

    def check_times(self) -> None:
        """Refuse ops and faults that would never come.

        Raises:
            UsageError: one is due after the end of the faults phase.
        """
        for name, timed in (("ops", self.ops), ("faults", self.faults)):
            for place, each in enumerate(timed):
                if each.at_ns > self.end_ns:
                    raise UsageError(f"{name}[{place}] is due at {each.at_ns}, after end_ns {self.end_ns}.")


# --- from a history, to a test --------------------------------------------------------------------------------------


def plan_of(
    history: Iterable[Op],
    test: Test,
    options: Mapping[str, Any] | None = None,
    *,
    expect: Expectation | None = None,
    versions: Mapping[str, str] | None = None,
) -> Plan:
    """The plan that a recorded run followed.

    Args:
        history: its ops, in order; of a run that ended early, as much as there is.
        test: the test that was run.
        options: the options that it was composed from; None for those that the test carries.
        expect: how it came out.
        versions: of what it was recorded with.
    """
    ops: list[ScriptedOp] = []
    final_ops: list[ScriptedOp] = []
    faults: list[ScriptedFault] = []
    phase, phase_ns, end_ns, last_ns = "", 0, None, 1
    for op in history:
        last_ns = max(last_ns, op.time)
        if op.process == HARNESS and op.f == "phase":
            phase, phase_ns = str(cast("Mapping[str, Any]", op.value).get("phase")), op.time
            if phase == "heal":
                end_ns = op.time
        elif op.type == "invoke" and op.process >= 0:
            # A process that crashed is followed by process + concurrency on the same thread.
            thread = op.process % test.concurrency
            if phase == "final":
                final_ops.append(_scripted_op(op, thread, phase_ns))
            else:
                ops.append(_scripted_op(op, thread, 0))
        elif op.type == "invoke" and op.process == NEMESIS and phase == "faults":
            faults.append(ScriptedFault(at_ns=op.time, f=op.f, value=op.value))
    return Plan(
        options=dict(test.options if options is None else options),
        nodes=tuple(test.nodes),
        placement=tuple(test.node_of(thread) for thread in range(test.concurrency)),
        end_ns=last_ns if end_ns is None else end_ns,
        faults=tuple(faults),
        ops=tuple(ops),
        final_ops=tuple(final_ops),
        expect=expect,
        versions=dict(versions or {}),
    )


def _scripted_op(op: Op, thread: int, zero_ns: int) -> ScriptedOp:
    """A recorded invocation as an op of a plan whose times count from `zero_ns` of the test."""
    return ScriptedOp(
        at_ns=op.time - zero_ns,
        thread=thread,
        f=op.f,
        key=op.key,
        value=op.value,
        mops=op.mops,
        due_ns=None if op.due is None or op.due == op.time else op.due - zero_ns,
    )


def scripted(test: Test, plan: Plan) -> Test:
    """The test, doing just what the plan says: same system, bugs and checkers; nodes, clients, ops, faults of the plan.

    Coverage asks for nothing that the plan does not do. The heal phase is as in the test.

    Args:
        test: composed from the plan's options.
        plan: what to do.

    Raises:
        UsageError: the plan has faults and the test no nemesis, or the plan makes no sense.
    """
    plan.check()
    if plan.faults and test.nemesis.nemesis is None:
        raise UsageError("the plan has faults, but its options have no nemesis: correct options.nemesis in the plan.")
    workload = dataclasses.replace(
        test.workload,
        generator=script(plan.ops, plan.end_ns),
        final_generator=script(plan.final_ops, from_now=True) if plan.final_ops else None,
        checkers=tuple(_asking_little(spec) for spec in test.workload.checkers),
    )
    nemesis = dataclasses.replace(test.nemesis, generator=script_faults(plan.faults) if plan.faults else None)
    return dataclasses.replace(
        test,
        name=test.name if test.name.endswith(_SUFFIX) else test.name + _SUFFIX,
        nodes=plan.nodes,
        workload=workload,
        nemesis=nemesis,
        concurrency=len(plan.placement),
        placement=plan.placement,
        is_timed=True,
        rate=float(RATE_MAX),
        burst=1,
        time_limit_s=max(plan.end_ns / 1e9, LEAST),
    )


_SUFFIX: Final = "-plan"
"""Ends the names of scripted tests: their runs say nothing about the trend of those that they came from."""


def _asking_little(spec: CheckerSpec) -> CheckerSpec:
    if spec.name == "stats":
        return CheckerSpec(spec.name)  # a plan has times, and no rate
    if spec.name != "coverage":
        return spec
    return CheckerSpec(spec.name, {**spec.options, "fs": [], "faults": False, "floors": False})


# --- files ----------------------------------------------------------------------------------------------------------

_ROWS: Final = ("faults", "ops", "final_ops")


def encode(plan: Plan) -> bytes:
    """The plan as the text of a file: a line for each op, equal plans to the byte."""
    document: dict[str, Any] = msgspec.to_builtins(plan, str_keys=True)
    names = ("format", "options", "nodes", "placement", "end_ns", *_ROWS, "expect", "versions", "of_seed")
    fields = [f'  "{name}": {_field(name, document[name])}' for name in names]
    return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


def _field(name: str, value: Any) -> str:
    if name in _ROWS:
        # Sorted keys: `digest` is a hash of this text.
        rows = [f"    {msgspec.json.encode(row, order='deterministic').decode()}" for row in value]
        return "[\n" + ",\n".join(rows) + "\n  ]" if rows else "[]"
    if isinstance(value, dict) and value:
        return (
            msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2)
            .decode()
            .replace("\n", "\n  ")
        )
    return msgspec.json.encode(value).decode()


class _Versioned(msgspec.Struct):
    format: int


def decode(text: bytes, source: str = "plan") -> Plan:
    """The plan in the text of a file.

    Args:
        text: the file's content.
        source: its name, for errors.

    Raises:
        HistoryFormatError: it is no plan, or one that makes no sense; the message says where.
        StoreVersionError: a newer splitbrain wrote it.
    """
    try:
        version = msgspec.json.decode(text, type=_Versioned).format
        if version < 1:
            raise HistoryFormatError(source, f"there is no format {version}: the first one is 1")
        if version > FORMAT:
            raise StoreVersionError(
                f"{source} is in format {version}, this splitbrain reads up to {FORMAT}: upgrade splitbrain."
            )
        plan = msgspec.json.decode(text, type=Plan)
        plan.check()
    except msgspec.ValidationError as error:
        raise HistoryFormatError(source, f"this is not a plan: {error}") from error
    except RecursionError as error:
        raise HistoryFormatError(source, "this is nested too deeply to be a plan") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryFormatError(source, f"this is not JSON: {error}", line=_line(text, str(error))) from error
    except (StoreVersionError, HistoryFormatError):
        raise
    except UsageError as error:
        raise HistoryFormatError(source, f"this plan cannot be followed: {error}") from error
    return plan


def load(path: str | os.PathLike[str]) -> Plan:
    """The plan in a file.

    Raises:
        UsageError: there is no such file, or it cannot be read.
        HistoryFormatError: it is no plan; the message says where.
        StoreVersionError: a newer splitbrain wrote it.
    """
    refuse_others(path, DOCUMENT_BYTES)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise UsageError(f"{os.fspath(path)}: the plan cannot be read: {error.strerror}.") from error
    plan = decode(text, os.fspath(path))
    try:
        plan.check_times()
    except UsageError as error:
        raise HistoryFormatError(os.fspath(path), f"this plan cannot be followed: {error}") from error
    return plan


def _line(text: bytes, problem: str) -> int | None:
    """The line of a syntax error, from the byte that msgspec names."""
    _, found, rest = problem.rpartition("(byte ")
    place = rest.rstrip(")")
    return text.count(b"\n", 0, int(place)) + 1 if found and place.isdigit() else None


# --- figures --------------------------------------------------------------------------------------------------------


class PlanFigures(msgspec.Struct, frozen=True):
    """How large a plan is: what shrinking makes smaller.

    Attributes:
        faults: the number of faults; ops that heal are not counted.
        ops: client ops, final ones included.
        clients: client threads.
        nodes: nodes.
        seconds: length of the faults phase.
    """

    faults: int
    ops: int
    clients: int
    nodes: int
    seconds: float


def figures(plan: Plan) -> PlanFigures:
    """The sizes of a plan."""
    return PlanFigures(
        faults=sum(not heals(fault) for fault in plan.faults),
        ops=len(plan.ops) + len(plan.final_ops),
        clients=len(plan.placement),
        nodes=len(plan.nodes),
        seconds=round(plan.end_ns / 1e9, 3),
    )


def heals(fault: ScriptedFault) -> bool:
    """Whether a nemesis op undoes a fault."""
    return action_in(fault.value) == "stop"


def kinds(faults: Sequence[ScriptedFault]) -> tuple[str, ...]:
    """The kinds of fault, sorted."""
    return tuple(sorted({kind for each in faults if (kind := fault_in(each.value)) is not None}))
