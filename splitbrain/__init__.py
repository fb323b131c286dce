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
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.campaigns.record import run_and_judge
    from splitbrain.harness.contract.capabilities import Capabilities
    from splitbrain.harness.contract.clock import Runtime
    from splitbrain.harness.contract.deployments import Deployment
    from splitbrain.harness.contract.elections import Elections
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
    from splitbrain.harness.running.lifecycle import check_support, run
    from splitbrain.harness.running.runner import RunSummary, Stop, run_test

_HOME = {
    "COLLECTIONS": "contract.sessions",
    "KEY_VALUE": "contract.sessions",
    "LEASE_LOCKS": "contract.sessions",
    "LOCKS": "contract.sessions",
    "Answer": "contract.sessions",
    "Capabilities": "contract.capabilities",
    "Client": "contract.test",
    "Collections": "contract.sessions",
    "Conclusion": "campaigns.judging",
    "DefiniteError": "contract.sessions",
    "Deployment": "contract.deployments",
    "Elections": "contract.elections",
    "IndefiniteError": "contract.sessions",
    "KeyValue": "contract.sessions",
    "LeaseLocks": "contract.sessions",
    "Locks": "contract.sessions",
    "Nemesis": "contract.test",
    "NemesisContext": "contract.test",
    "NemesisPackage": "contract.test",
    "OperationGroup": "contract.sessions",
    "RealClock": "contract.realtime",
    "RunSummary": "running.runner",
    "Runtime": "contract.clock",
    "Session": "contract.sessions",
    "Stop": "running.runner",
    "System": "contract.test",
    "Test": "contract.test",
    "Workload": "contract.test",
    "check_support": "running.lifecycle",
    "need": "contract.sessions",
    "real_runtime": "contract.realtime",
    "run": "running.lifecycle",
    "run_and_judge": "campaigns.record",
    "run_test": "running.runner",
}

__all__ = [
    "COLLECTIONS",
    "KEY_VALUE",
    "LEASE_LOCKS",
    "LOCKS",
    "Answer",
    "Capabilities",
    "Client",
    "Collections",
    "Conclusion",
    "DefiniteError",
    "Deployment",
    "Elections",
    "IndefiniteError",
    "KeyValue",
    "LeaseLocks",
    "Locks",
    "Nemesis",
    "NemesisContext",
    "NemesisPackage",
    "OperationGroup",
    "RealClock",
    "RunSummary",
    "Runtime",
    "Session",
    "Stop",
    "System",
    "Test",
    "Workload",
    "check_support",
    "need",
    "real_runtime",
    "run",
    "run_and_judge",
    "run_test",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"splitbrain.harness.{_HOME[name]}"), name)
