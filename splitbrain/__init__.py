"""What a tester imports, and nothing else.

    from splitbrain import Test, run_and_judge
    conclusion = run_and_judge(test, LocalBackend(), Path("store"))

Names are loaded when they are used: nodes of the metadata cluster and the command line's `--help` live in this package
too, and do without them.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in the module `typing`, whose import takes longer than all of this one
if TYPE_CHECKING:
    from typing import Any

    from splitbrain.checkers.models import (
        IMPOSSIBLE,
        UNKNOWN,
        AdditiveModel,
        AssignmentModel,
        Facts,
        JsonObject,
        NondeterministicModel,
        Special,
        State,
    )
    from splitbrain.checkers.verdict import Checker, CheckerSpec, Outcome, Partition, Verdict
    from splitbrain.harness.backends.local import LocalBackend
    from splitbrain.harness.backends.sim import SimBackend
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.campaigns.nightly.matrix import load_matrix
    from splitbrain.harness.campaigns.nightly.night import NightPlan, run_night
    from splitbrain.harness.campaigns.planned import play_plan
    from splitbrain.harness.campaigns.record import run_and_judge
    from splitbrain.harness.contract.capabilities import Capabilities
    from splitbrain.harness.contract.clock import Runtime
    from splitbrain.harness.contract.deployments import Deployment, StopsInGoodOrder
    from splitbrain.harness.contract.discovery import Discovery
    from splitbrain.harness.contract.elections import Elections
    from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind, LinkFault, Support
    from splitbrain.harness.contract.groups import Groups
    from splitbrain.harness.contract.installed import Release
    from splitbrain.harness.contract.membership import Learners, Membership
    from splitbrain.harness.contract.migrations import Migrations
    from splitbrain.harness.contract.moments import HearsMarks
    from splitbrain.harness.contract.nodes import Link, NodeCommand, NodeId, NodePlace, NodeStatus, NodeView
    from splitbrain.harness.contract.observing import Observer
    from splitbrain.harness.contract.operations import (
        COLLECTIONS,
        COUNTERS,
        KEY_VALUE,
        LEASE_LOCKS,
        LOCKS,
        TRANSACTIONS,
        OperationGroup,
        need,
    )
    from splitbrain.harness.contract.read_modes import ReadPromise
    from splitbrain.harness.contract.realtime import RealClock, real_runtime
    from splitbrain.harness.contract.sessions import (
        Answer,
        Collections,
        Counters,
        DefiniteError,
        IndefiniteError,
        KeyValue,
        LeaseLocks,
        Locks,
        NonsenseError,
        Session,
        StandbyError,
        Transactions,
    )
    from splitbrain.harness.contract.settings import Setting
    from splitbrain.harness.contract.test import (
        Backend,
        Client,
        Nemesis,
        NemesisContext,
        NemesisPackage,
        OpShape,
        System,
        Test,
        Workload,
    )
    from splitbrain.harness.contract.transfer import Transfer
    from splitbrain.harness.contract.upgrades import Upgrades
    from splitbrain.harness.generators import (
        Context,
        Generator,
        concurrent_keys,
        each,
        each_process,
        final,
        invoke,
        limit,
        mix,
        once,
        phases,
        rate,
        reserve,
        sequential_keys,
        stagger,
        time_limit,
        until_ok,
    )
    from splitbrain.harness.running.lifecycle import check_support, run
    from splitbrain.harness.running.runner import RunSummary, Stop, run_test
    from splitbrain.harness.simulation.programs.clients import open_streams
    from splitbrain.harness.simulation.programs.embedding import Program
    from splitbrain.harness.systems.metadata import Metadata
    from splitbrain.nemesis.effects import Effect, carry_out
    from splitbrain.nemesis.grudges import all_links
    from splitbrain.nemesis.kinds import Injection, Kind, Ways, always
    from splitbrain.nemesis.ledger import Ledger
    from splitbrain.nemesis.partition import verify
    from splitbrain.nemesis.targets import choose, fewest, needs_views, views
    from splitbrain.results.baseline import Baseline
    from splitbrain.results.errors import NemesisError, UsageError
    from splitbrain.results.history import Mop, Op
    from splitbrain.results.nemesisop import Request, RequestOfNodes, asked
    from splitbrain.workloads.sessions import SessionClient

_HOME = {
    "AdditiveModel": "checkers.models",
    "Answer": "harness.contract.sessions",
    "AssignmentModel": "checkers.models",
    "Backend": "harness.contract.test",
    "COLLECTIONS": "harness.contract.operations",
    "COUNTERS": "harness.contract.operations",
    "Baseline": "results.baseline",
    "Capabilities": "harness.contract.capabilities",
    "Checker": "checkers.verdict",
    "CheckerSpec": "checkers.verdict",
    "Client": "harness.contract.test",
    "ClockFault": "harness.contract.faults",
    "Collections": "harness.contract.sessions",
    "Counters": "harness.contract.sessions",
    "Conclusion": "harness.campaigns.judging",
    "Context": "harness.generators",
    "DefiniteError": "harness.contract.sessions",
    "Deployment": "harness.contract.deployments",
    "Discovery": "harness.contract.discovery",
    "DiskFault": "harness.contract.faults",
    "Effect": "nemesis.effects",
    "Elections": "harness.contract.elections",
    "Facts": "checkers.models",
    "FaultKind": "harness.contract.faults",
    "Generator": "harness.generators",
    "Groups": "harness.contract.groups",
    "HearsMarks": "harness.contract.moments",
    "IMPOSSIBLE": "checkers.models",
    "IndefiniteError": "harness.contract.sessions",
    "Injection": "nemesis.kinds",
    "JsonObject": "checkers.models",
    "KEY_VALUE": "harness.contract.operations",
    "KeyValue": "harness.contract.sessions",
    "Kind": "nemesis.kinds",
    "LEASE_LOCKS": "harness.contract.operations",
    "LOCKS": "harness.contract.operations",
    "Learners": "harness.contract.membership",
    "LeaseLocks": "harness.contract.sessions",
    "Ledger": "nemesis.ledger",
    "Link": "harness.contract.nodes",
    "LinkFault": "harness.contract.faults",
    "LocalBackend": "harness.backends.local",
    "Locks": "harness.contract.sessions",
    "Membership": "harness.contract.membership",
    "Metadata": "harness.systems.metadata",
    "Migrations": "harness.contract.migrations",
    "Mop": "results.history",
    "Nemesis": "harness.contract.test",
    "NemesisContext": "harness.contract.test",
    "NemesisError": "results.errors",
    "NemesisPackage": "harness.contract.test",
    "NightPlan": "harness.campaigns.nightly.night",
    "NodeCommand": "harness.contract.nodes",
    "NodeId": "harness.contract.nodes",
    "NodePlace": "harness.contract.nodes",
    "NodeStatus": "harness.contract.nodes",
    "NodeView": "harness.contract.nodes",
    "NondeterministicModel": "checkers.models",
    "NonsenseError": "harness.contract.sessions",
    "Observer": "harness.contract.observing",
    "Op": "results.history",
    "OpShape": "harness.contract.test",
    "OperationGroup": "harness.contract.operations",
    "Outcome": "checkers.verdict",
    "Partition": "checkers.verdict",
    "Program": "harness.simulation.programs.embedding",
    "ReadPromise": "harness.contract.read_modes",
    "RealClock": "harness.contract.realtime",
    "Release": "harness.contract.installed",
    "Request": "results.nemesisop",
    "RequestOfNodes": "results.nemesisop",
    "RunSummary": "harness.running.runner",
    "Runtime": "harness.contract.clock",
    "Session": "harness.contract.sessions",
    "SessionClient": "workloads.sessions",
    "Setting": "harness.contract.settings",
    "SimBackend": "harness.backends.sim",
    "Special": "checkers.models",
    "StandbyError": "harness.contract.sessions",
    "State": "checkers.models",
    "Stop": "harness.running.runner",
    "StopsInGoodOrder": "harness.contract.deployments",
    "Support": "harness.contract.faults",
    "System": "harness.contract.test",
    "TRANSACTIONS": "harness.contract.operations",
    "Test": "harness.contract.test",
    "Transactions": "harness.contract.sessions",
    "Transfer": "harness.contract.transfer",
    "UNKNOWN": "checkers.models",
    "Upgrades": "harness.contract.upgrades",
    "UsageError": "results.errors",
    "Verdict": "checkers.verdict",
    "Ways": "nemesis.kinds",
    "Workload": "harness.contract.test",
    "all_links": "nemesis.grudges",
    "always": "nemesis.kinds",
    "asked": "results.nemesisop",
    "carry_out": "nemesis.effects",
    "check_support": "harness.running.lifecycle",
    "choose": "nemesis.targets",
    "concurrent_keys": "harness.generators",
    "each": "harness.generators",
    "each_process": "harness.generators",
    "fewest": "nemesis.targets",
    "final": "harness.generators",
    "invoke": "harness.generators",
    "limit": "harness.generators",
    "mix": "harness.generators",
    "load_matrix": "harness.campaigns.nightly.matrix",
    "need": "harness.contract.operations",
    "needs_views": "nemesis.targets",
    "once": "harness.generators",
    "open_streams": "harness.simulation.programs.clients",
    "phases": "harness.generators",
    "play_plan": "harness.campaigns.planned",
    "rate": "harness.generators",
    "real_runtime": "harness.contract.realtime",
    "reserve": "harness.generators",
    "run": "harness.running.lifecycle",
    "run_and_judge": "harness.campaigns.record",
    "run_night": "harness.campaigns.nightly.night",
    "run_test": "harness.running.runner",
    "sequential_keys": "harness.generators",
    "stagger": "harness.generators",
    "time_limit": "harness.generators",
    "until_ok": "harness.generators",
    "verify": "nemesis.partition",
    "views": "nemesis.targets",
}

__all__ = [
    "COLLECTIONS",
    "COUNTERS",
    "IMPOSSIBLE",
    "KEY_VALUE",
    "LEASE_LOCKS",
    "LOCKS",
    "TRANSACTIONS",
    "UNKNOWN",
    "AdditiveModel",
    "Answer",
    "AssignmentModel",
    "Backend",
    "Baseline",
    "Capabilities",
    "Checker",
    "CheckerSpec",
    "Client",
    "ClockFault",
    "Collections",
    "Conclusion",
    "Context",
    "Counters",
    "DefiniteError",
    "Deployment",
    "Discovery",
    "DiskFault",
    "Effect",
    "Elections",
    "Facts",
    "FaultKind",
    "Generator",
    "Groups",
    "HearsMarks",
    "IndefiniteError",
    "Injection",
    "JsonObject",
    "KeyValue",
    "Kind",
    "Learners",
    "LeaseLocks",
    "Ledger",
    "Link",
    "LinkFault",
    "LocalBackend",
    "Locks",
    "Membership",
    "Metadata",
    "Migrations",
    "Mop",
    "Nemesis",
    "NemesisContext",
    "NemesisError",
    "NemesisPackage",
    "NightPlan",
    "NodeCommand",
    "NodeId",
    "NodePlace",
    "NodeStatus",
    "NodeView",
    "NondeterministicModel",
    "NonsenseError",
    "Observer",
    "Op",
    "OpShape",
    "OperationGroup",
    "Outcome",
    "Partition",
    "Program",
    "ReadPromise",
    "RealClock",
    "Release",
    "Request",
    "RequestOfNodes",
    "RunSummary",
    "Runtime",
    "Session",
    "SessionClient",
    "Setting",
    "SimBackend",
    "Special",
    "StandbyError",
    "State",
    "Stop",
    "StopsInGoodOrder",
    "Support",
    "System",
    "Test",
    "Transactions",
    "Transfer",
    "Upgrades",
    "UsageError",
    "Verdict",
    "Ways",
    "Workload",
    "all_links",
    "always",
    "asked",
    "carry_out",
    "check_support",
    "choose",
    "concurrent_keys",
    "each",
    "each_process",
    "fewest",
    "final",
    "invoke",
    "limit",
    "load_matrix",
    "mix",
    "need",
    "needs_views",
    "once",
    "open_streams",
    "phases",
    "play_plan",
    "rate",
    "real_runtime",
    "reserve",
    "run",
    "run_and_judge",
    "run_night",
    "run_test",
    "sequential_keys",
    "stagger",
    "time_limit",
    "until_ok",
    "verify",
    "views",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"splitbrain.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
