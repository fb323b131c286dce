"""What holds for all tests: signals reach what they start, and no clock fails them.

A witness of an anomaly that does not prove it does, and in CI a skipped test.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Generator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests import witnesses
from tests.slow_parts import is_in, mark_rest_of_samples

# Hypothesis gives an example 200 ms, and a second to draw ten of them: a busy machine takes longer. The suite draws the
# same examples each time, so a change is judged by what it changed; --hypothesis-profile search looks for new ones.
_ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any-machine", _ANY_MACHINE, derandomize=True)
settings.register_profile("search", _ANY_MACHINE)
settings.load_profile("any-machine")


def _nothing(_: int, __: object) -> None:
    """Do nothing."""


for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    # What this process ignores (under nohup, or in the background of a script), all that it starts would ignore as
    # well, and tests send signals. A handler is not inherited: with one that does nothing, this process goes on to
    # ignore the signal, and what it starts has the default.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _nothing)


_WAITING: Final = ("tests/backends/", "tests/systems/")
"""Where tests wait for nodes of a real run more than they compute."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow cases of families. Leave out slow tests of another part than SPLITBRAIN_SLOW_PART (`0/3`). Order.

    Tests that wait come first: one worker has them while the others compute, and none is left alone with them.
    """
    part = os.environ.get("SPLITBRAIN_SLOW_PART", "0/1")
    mark_rest_of_samples(items)
    left_out = [each for each in items if each.get_closest_marker("slow") and not is_in(part, each.nodeid)]
    config.hook.pytest_deselected(items=left_out)
    others = set(left_out)
    items[:] = sorted(
        (each for each in items if each not in others), key=lambda item: not item.nodeid.startswith(_WAITING)
    )


_PATIENT: Final = 5
"""How much a test that computes yields to one that waits, on the scale of nice."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Beside others, tests that compute leave the processors to nodes and controllers of real runs.

    A controller that does not get a processor for long makes its run inconclusive, and such a run is repeated. Only
    root may take a priority back: the tests of others stay at the lower one, which is no harm.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 0 if item.nodeid.startswith(_WAITING) else _PATIENT)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage once all tests are collected: nothing of them is any, and it is millions of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish() -> None:
    """Look at all witnesses from now on."""
    witnesses.watch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test in which, or in whose fixtures, a witness was found that does not prove its anomaly."""
    done = yield
    found = witnesses.noted()
    if found:
        pytest.fail(f"a witness does not prove what it says: {found[0]}")
    return done


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session in which tests were skipped, in CI: what they need, `.ci/run` brings."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None or not reporter.stats.get("skipped"):
        return
    reporter.write_line(f"{len(reporter.stats['skipped'])} skipped: in CI that is a failure.", red=True)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
