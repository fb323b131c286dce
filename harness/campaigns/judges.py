"""Who judges a test: what its workload names, and every checker that applies to its system and its backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from splitbrain.checkers.coverage.judged import judges_of_ops
from splitbrain.checkers.registry import check_spec
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness import validate
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.test import Backend, Test, Workload
from splitbrain.results.errors import UsageError
from splitbrain.results.telemetry import CONSENSUS_CHECKERS

OWN_LOGS_PACES: Final = 10
"""How many ops one after the other take as long as a group of a queue or a stream may need more than the bound of its
system: it is formed, and elects, while the disks are busy with other groups. Where ops are quick that is next to none.
"""

_LINKS_S: Final = 2.0
"""How long simulated nodes may be without a connection (checker `links`): no other work of a machine slows them."""


def with_judges(test: Test, backend: Backend) -> Test:
    """The test, judged by every checker that applies; those that its workload names stay as they are.

    These are: figures of the load (`stats`); coverage, which every test has; the rules of consensus, or those that the
    system names instead, where nodes write telemetry; quorum progress, where the system has elections, and the workload
    a function that a majority answers; and in simulation, whether nodes live on and recover within the bound. On a real
    machine a node that ends and a late recovery may be the machine's doing: there they make a run inconclusive.

    Raises:
        UsageError: the test needs figures that its system does not have, or its workload names a checker or a model
            that does not exist or does not know its functions.
    """
    for spec in test.workload.checkers:
        check_spec(spec.name, spec.options, test.workload.fs)
    named = {spec.name for spec in test.workload.checkers}
    specs = [_with_load(spec, test) for spec in test.workload.checkers]
    specs += [spec for spec in _applicable(test, backend) if spec.name not in named]
    return dataclasses.replace(test, workload=dataclasses.replace(test.workload, checkers=tuple(specs)))


def can_be_judged(workload: Workload, capabilities: Capabilities) -> bool:
    """Whether a checker judges the ops of the workload's clients on such a system.

    Without elections there is no quorum progress, and only the checkers that the workload names are left.
    """
    return capabilities.elections is not None or bool(judges_of_ops(spec.name for spec in workload.checkers))


def _with_load(spec: CheckerSpec, test: Test) -> CheckerSpec:
    """The checker of figures knows the load that was asked for."""
    return CheckerSpec(spec.name, {**_load(test), **spec.options}) if spec.name == "stats" else spec


def _load(test: Test) -> dict[str, Any]:
    asked = {"rate": test.rate, "time_limit_s": test.time_limit_s}
    return asked if test.burst == 1 else {**asked, "burst": test.burst}


def _applicable(test: Test, backend: Backend) -> list[CheckerSpec]:
    specs = [CheckerSpec("stats", _load(test)), CheckerSpec("answers")]
    is_simulated = isinstance(backend, SimBackend)
    if validate.system(test.system).telemetry(test, Path("node")) is not None:
        links = CheckerSpec("links", {"limit_s": _LINKS_S} if is_simulated else {})
        specs += [links if name == links.name else CheckerSpec(name) for name in _of_telemetry(test)]
    elections = test.system.capabilities.elections
    if elections is not None:
        progress = _quorum_progress(test, elections)
        specs += [progress] if progress.options["fs"] else []
    elif test.quiet_s is not None or test.availability:
        raise UsageError(
            f"--progress-bound and --availability are for systems with elections, and {test.system.name} has "
            "none: remove them."
        )
    if is_simulated:
        specs.append(CheckerSpec("crashes"))
        if test.recovery_s > 0:
            specs.append(CheckerSpec("recovery", {"bound_s": test.recovers_within_s}))
    return specs


def _of_telemetry(test: Test) -> Sequence[str]:
    """The names of those who judge the telemetry."""
    named = test.system.capabilities.telemetry_checkers
    return CONSENSUS_CHECKERS if named is None else named(test.settings, test.nemesis.faults)


def recovery_bound_s(test: Test, elections: Elections) -> float:
    """How long nodes need not answer after a change of links or nodes, apart from what an outage adds, in seconds.

    Args:
        test: what is run.
        elections: of its system, under the settings of the test.
    """
    if test.quiet_s is not None:
        return test.quiet_s
    has_own = not test.workload.needs.isdisjoint(elections.own_groups)
    return elections.bound_s + (OWN_LOGS_PACES * test.pace_s if has_own else 0.0)


def _quorum_progress(test: Test, elections: Elections) -> CheckerSpec:
    """Who judges whether the right nodes answered, and the wrong ones stayed silent."""
    elections = elections.under(test.settings)
    judged_by: dict[str, Any] = {
        "nodes": list(test.nodes),
        "fs": [f for f in test.workload.fs if f not in elections.local | test.workload.local],
        "election_timeout_s": elections.timeout_s,
        "op_timeout_s": test.longest_timeout_s,
        "lease_s": elections.lease_in_force_s(test.settings),
        "recovery_bound_s": recovery_bound_s(test, elections),
    }
    groups = elections.groups_for(test.workload.needs)
    if groups:
        judged_by["groups"] = list(groups)
    if elections.recovery_per_outage and test.quiet_s is None:
        judged_by |= {
            "recovery_per_outage": elections.recovery_per_outage,
            "outage_limit_s": elections.outage_limit_s,
        }
    if test.system.capabilities.standbys:
        judged_by["standbys"] = True
    if test.availability:
        judged_by["availability"] = test.availability
    return CheckerSpec("quorum-progress", judged_by)
