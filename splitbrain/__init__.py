"""What a tester imports, and nothing else.

    from splitbrain import Test, run_and_judge
    conclusion = run_and_judge(test, LocalBackend(), Path("store"))

Names are loaded when they are used: nodes of the metadata cluster and the command line's `--help` live in this package
too, and do without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, Special, State
    from splitbrain.checkers.verdict import Checker, CheckerSpec, Outcome, Partition, Verdict
    from splitbrain.harness.backends.local import LocalBackend
    from splitbrain.harness.backends.sim import SimBackend
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.campaigns.planned import play_plan
    from splitbrain.harness.campaigns.record import run_and_judge
    from splitbrain.harness.contract.capabilities import Capabilities
    from splitbrain.harness.contract.clock import Runtime
    from splitbrain.harness.contract.deployments import Deployment
    from splitbrain.harness.contract.elections import Elections
    from splitbrain.harness.contract.faults import FaultKind
    from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
    from splitbrain.harness.contract.realtime import RealClock, real_runtime
    from splitbrain.harness.contract.sessions import (
        COLLECTIONS,
        KEY_VALUE,
        LEASE_LOCKS,
        LOCKS,
        Answer,
        Collections,
        DefiniteError,
        IndefiniteError,
        KeyValue,
        LeaseLocks,
        Locks,
        OperationGroup,
        Session,
        need,
    )
    from splitbrain.harness.contract.test import Client, Nemesis, NemesisContext, NemesisPackage, System, Test, Workload
    from splitbrain.harness.generators import Context, Generator, each, invoke, limit, mix, once
    from splitbrain.harness.running.lifecycle import check_support, run
    from splitbrain.harness.running.runner import RunSummary, Stop, run_test
    from splitbrain.harness.simulation.programs.clients import open_streams
    from splitbrain.harness.simulation.programs.embedding import Program
    from splitbrain.harness.systems.metadata import Metadata
    from splitbrain.results.history import Op
    from splitbrain.workloads.sessions import SessionClient

_HOME = {
    "Answer": "harness.contract.sessions",
    "COLLECTIONS": "harness.contract.sessions",
    "Capabilities": "harness.contract.capabilities",
    "Checker": "checkers.verdict",
    "CheckerSpec": "checkers.verdict",
    "Client": "harness.contract.test",
    "Collections": "harness.contract.sessions",
    "Conclusion": "harness.campaigns.judging",
    "Context": "harness.generators",
    "DefiniteError": "harness.contract.sessions",
    "Deployment": "harness.contract.deployments",
    "Elections": "harness.contract.elections",
    "FaultKind": "harness.contract.faults",
    "Generator": "harness.generators",
    "IMPOSSIBLE": "checkers.models",
    "IndefiniteError": "harness.contract.sessions",
    "KEY_VALUE": "harness.contract.sessions",
    "KeyValue": "harness.contract.sessions",
    "LEASE_LOCKS": "harness.contract.sessions",
    "LOCKS": "harness.contract.sessions",
    "LeaseLocks": "harness.contract.sessions",
    "LocalBackend": "harness.backends.local",
    "Locks": "harness.contract.sessions",
    "Metadata": "harness.systems.metadata",
    "Nemesis": "harness.contract.test",
    "NemesisContext": "harness.contract.test",
    "NemesisPackage": "harness.contract.test",
    "NodeCommand": "harness.contract.nodes",
    "NodeId": "harness.contract.nodes",
    "NodePlace": "harness.contract.nodes",
    "NodeView": "harness.contract.nodes",
    "Op": "results.history",
    "OperationGroup": "harness.contract.sessions",
    "Outcome": "checkers.verdict",
    "Partition": "checkers.verdict",
    "Program": "harness.simulation.programs.embedding",
    "RealClock": "harness.contract.realtime",
    "RunSummary": "harness.running.runner",
    "Runtime": "harness.contract.clock",
    "Session": "harness.contract.sessions",
    "SessionClient": "workloads.sessions",
    "SimBackend": "harness.backends.sim",
    "Special": "checkers.models",
    "State": "checkers.models",
    "Stop": "harness.running.runner",
    "System": "harness.contract.test",
    "Test": "harness.contract.test",
    "UNKNOWN": "checkers.models",
    "Verdict": "checkers.verdict",
    "Workload": "harness.contract.test",
    "check_support": "harness.running.lifecycle",
    "each": "harness.generators",
    "invoke": "harness.generators",
    "limit": "harness.generators",
    "mix": "harness.generators",
    "need": "harness.contract.sessions",
    "once": "harness.generators",
    "open_streams": "harness.simulation.programs.clients",
    "play_plan": "harness.campaigns.planned",
    "real_runtime": "harness.contract.realtime",
    "run": "harness.running.lifecycle",
    "run_and_judge": "harness.campaigns.record",
    "run_test": "harness.running.runner",
}

__all__ = [
    "COLLECTIONS",
    "IMPOSSIBLE",
    "KEY_VALUE",
    "LEASE_LOCKS",
    "LOCKS",
    "UNKNOWN",
    "Answer",
    "Capabilities",
    "Checker",
    "CheckerSpec",
    "Client",
    "Collections",
    "Conclusion",
    "Context",
    "DefiniteError",
    "Deployment",
    "Elections",
    "FaultKind",
    "Generator",
    "IndefiniteError",
    "KeyValue",
    "LeaseLocks",
    "LocalBackend",
    "Locks",
    "Metadata",
    "Nemesis",
    "NemesisContext",
    "NemesisPackage",
    "NodeCommand",
    "NodeId",
    "NodePlace",
    "NodeView",
    "Op",
    "OperationGroup",
    "Outcome",
    "Partition",
    "Program",
    "RealClock",
    "RunSummary",
    "Runtime",
    "Session",
    "SessionClient",
    "SimBackend",
    "Special",
    "State",
    "Stop",
    "System",
    "Test",
    "Verdict",
    "Workload",
    "check_support",
    "each",
    "invoke",
    "limit",
    "mix",
    "need",
    "once",
    "open_streams",
    "play_plan",
    "real_runtime",
    "run",
    "run_and_judge",
    "run_test",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"splitbrain.{_HOME[name]}"), name)
