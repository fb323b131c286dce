"""The controller: what a test is, how it runs, where nodes live.

    from harness import Test, run
    summary = asyncio.run(run(test, backend=backend, folder=folder, runtime=real_runtime(test.seed)))

Names are loaded when they are used: the command line lives in this package too, and answers `--help` without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.lifecycle import check_support, run
    from harness.protocols import (
        Answer,
        Client,
        DefiniteError,
        Deployment,
        IndefiniteError,
        Nemesis,
        NemesisContext,
        Runtime,
        Session,
        System,
    )
    from harness.realtime import RealClock, real_runtime
    from harness.runner import RunSummary, Stop, run_test
    from harness.test import NemesisPackage, Test, Workload

_HOME = {
    "Answer": "protocols",
    "Client": "protocols",
    "DefiniteError": "protocols",
    "Deployment": "protocols",
    "IndefiniteError": "protocols",
    "Nemesis": "protocols",
    "NemesisContext": "protocols",
    "NemesisPackage": "test",
    "RealClock": "realtime",
    "RunSummary": "runner",
    "Runtime": "protocols",
    "Session": "protocols",
    "Stop": "runner",
    "System": "protocols",
    "Test": "test",
    "Workload": "test",
    "check_support": "lifecycle",
    "real_runtime": "realtime",
    "run": "lifecycle",
    "run_test": "runner",
}

__all__ = [
    "Answer",
    "Client",
    "DefiniteError",
    "Deployment",
    "IndefiniteError",
    "Nemesis",
    "NemesisContext",
    "NemesisPackage",
    "RealClock",
    "RunSummary",
    "Runtime",
    "Session",
    "Stop",
    "System",
    "Test",
    "Workload",
    "check_support",
    "real_runtime",
    "run",
    "run_test",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"harness.{_HOME[name]}"), name)
