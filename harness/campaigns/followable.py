"""Whether a plan can be followed: refused before anything starts, rather than found out in the middle of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from splitbrain.harness.contract.listed import names
from splitbrain.harness.contract.test import KEY_MAX, OpShape
from splitbrain.harness.generators.script import ScriptedFault, ScriptedOp
from splitbrain.harness.running.plan import Plan
from splitbrain.harness.running.runner import FINAL_LIMIT_S
from splitbrain.nemesis.requests import check_sequence, complete, passed_in
from splitbrain.results.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from splitbrain.harness.contract.test import System, Test

LONGER_MAX_S: Final = 600.0
"""How much longer the faults phase of a plan may be than its options' time limit and one op, in seconds: time for ops
in progress at the limit, and for a few more faults. Each simulated second costs milliseconds, even an idle one.
"""


def checked(plan: Plan, test: Test) -> Plan:
    """The plan, with whole requests, if the test can follow it.

    Args:
        plan: by whomever it was written.
        test: composed from its options.

    Raises:
        UsageError: it has an op or a fault that the test does not know, or that makes no sense; where, and why.
    """
    plan.check()
    plan.check_times()
    for name, ops in (("ops", plan.ops), ("final_ops", plan.final_ops)):
        for place, op in enumerate(ops):
            _check_op(f"{name}[{place}]", op, test)
    _check_length(plan, test)
    if not plan.faults:
        return plan
    if test.nemesis.nemesis is None:
        raise UsageError("the plan has faults, but its options have no nemesis: correct options.nemesis in the plan.")
    named = names("--nemesis", str(plan.options.get("nemesis", "")))
    faults = checked_faults(plan.faults, plan.nodes, "faults", named)
    check_passed(faults, test.system, "faults", named)
    for place, fault in enumerate(faults):
        if fault.f not in test.nemesis.nemesis.fs:
            raise UsageError(
                f"faults[{place}]: {fault.f} is not an op of the nemeses {test.nemesis.name}: add its own to "
                "options.nemesis in the plan."
            )
    return msgspec.structs.replace(plan, faults=faults)


def _check_length(plan: Plan, test: Test) -> None:
    """Refuse phases that last for ages, and final ops that never come.

    Raises:
        UsageError: the faults phase is far longer than its options say, or a final op is due after the final phase.
    """
    most_s = test.time_limit_s + test.longest_timeout_s + LONGER_MAX_S
    if plan.end_ns > most_s * 1e9:
        raise UsageError(
            f"end_ns is {plan.end_ns / 1e9:g} s, and options.time_limit is {test.time_limit_s:g} s: with that, give "
            f"{most_s:g} s at most, or raise options.time_limit in the plan."
        )
    for place, op in enumerate(plan.final_ops):
        if op.at_ns > FINAL_LIMIT_S * 1e9:
            raise UsageError(
                f"final_ops[{place}] is due {op.at_ns / 1e9:g} s after the final phase began, which lasts "
                f"{FINAL_LIMIT_S:g} s: give an earlier time."
            )


def checked_faults(
    faults: Sequence[ScriptedFault], nodes: Sequence[str], called: str, named: Sequence[str] = ()
) -> tuple[ScriptedFault, ...]:
    """Nemesis ops with whole requests.

    Args:
        faults: in the order of their times.
        nodes: of the test.
        called: the list in which they stand, for messages.
        named: names of `--nemesis`, which may bring kinds of other packages.

    Raises:
        UsageError: one is unknown, makes no sense, or is out of order; which.
    """
    placed = [(f"{called}[{place}]", fault) for place, fault in enumerate(faults)]
    whole = tuple(msgspec.structs.replace(fault, value=_whole(place, fault, nodes, named)) for place, fault in placed)
    check_sequence(placed, named)
    return whole


def declared_marks(system: System) -> tuple[str, ...]:
    """The coverage marks that nodes of a system are heard to pass, in their order."""
    marks = system.capabilities.marks
    return () if marks is None else tuple(marks.declared)


def check_passed(faults: Sequence[ScriptedFault], system: System, called: str, named: Sequence[str] = ()) -> None:
    """Refuse nemesis ops that wait for marks which the system does not have.

    Args:
        faults: checked ones.
        system: of the test.
        called, named: as of `checked_faults`.

    Raises:
        UnknownNameError: it has no such mark.
    """
    marks = system.capabilities.marks
    known = () if marks is None else (*marks.declared, *marks.asked_for)
    for place, fault in enumerate(faults):
        for mark in passed_in(fault.f, fault.value, named):
            if mark not in known:
                raise UnknownNameError("coverage mark", mark, known, f"of system {system.name!r} ({called}[{place}])")


def _whole(place: str, fault: ScriptedFault, nodes: Sequence[str], named: Sequence[str]) -> dict[str, Any]:
    try:
        return complete(fault.f, fault.value, nodes, named)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _check_op(place: str, op: ScriptedOp, test: Test) -> None:
    workload = test.workload
    if op.f not in workload.fs:
        raise UnknownNameError("function", op.f, workload.fs, f"of workload {workload.name!r} ({place})")
    shape = workload.shapes.get(op.f)
    if shape is None:
        return
    _check_mops(place, op, shape)
    if shape.keyed and (not op.key or len(op.key) > KEY_MAX or "/" in op.key or not op.key.isprintable()):
        raise UsageError(f"{place}: {op.f} is about a key, a string without slashes, not {op.key!r}.")
    if not shape.keyed and op.key is not None:
        raise UsageError(f"{place}: {op.f} takes no key: remove {op.key!r}.")
    _check_value(place, op, shape)


def _check_mops(place: str, op: ScriptedOp, shape: OpShape) -> None:
    if shape.writes is None:
        if op.mops is not None:
            raise UsageError(f"{place}: {op.f} is no transaction: remove mops.")
        return
    if not op.mops:
        raise UsageError(f"{place}: {op.f} is a transaction: give it mops.")
    for mop in op.mops:
        if mop.f not in ("r", *shape.writes):
            raise UsageError(f"{place}: {op.f} has reads (r) and {', '.join(sorted(shape.writes))}, not {mop.f!r}.")
        if not mop.key or len(mop.key) > KEY_MAX or "/" in mop.key or not mop.key.isprintable():
            raise UsageError(f"{place}: a micro-operation is about a key, a string without slashes, not {mop.key!r}.")
        if (mop.value is None) != (mop.f == "r") or mop.values is not None:
            raise UsageError(f"{place}: a write has one value, and a read none: correct {mop.f} {mop.key!r}.")


def _check_value(place: str, op: ScriptedOp, shape: OpShape) -> None:
    if shape.value is None:
        if op.value is not None:
            raise UsageError(f"{place}: {op.f} takes no value: remove {op.value!r}.")
        return
    try:
        msgspec.convert(op.value, shape.value)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}: the value of {op.f} is {op.value!r}: {error}.") from None
