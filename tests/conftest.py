"""In CI a skipped test is a failure: what tests need, `.ci/run` brings."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session in which tests were skipped, in CI."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None or not reporter.stats.get("skipped"):
        return
    reporter.write_line(f"{len(reporter.stats['skipped'])} skipped: in CI that is a failure.", red=True)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
