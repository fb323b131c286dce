"""One Spark session for the folder, and a module of checkers that misbehave, on the path here and on the workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from splitbrain.checkers.spark.session import Spark, session
from tests.remote.s3 import CREDENTIALS

from .support import lay_misbehaving


class SharedSession:
    """A session that is started when it is first asked for, as that takes ten seconds and more."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._spark: Spark | None = None

    def spark(self) -> Spark:
        if self._spark is None:
            self._spark = self._opened.enter_context(session("local[2]"))
        return self._spark

    def end(self) -> None:
        self._spark = None
        self._opened.close()


_SHARED = SharedSession()


@pytest.fixture(scope="session")
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("modules")
    lay_misbehaving(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        for name, value in CREDENTIALS.items():  # workers have the variables that the session was started with
            patch.setenv(name, value)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        yield


@pytest.fixture
def spark(misbehaving: None) -> Spark:
    return _SHARED.spark()


@pytest.fixture(autouse=True)
def no_session_unless_asked_for(request: pytest.FixtureRequest) -> None:
    """A process has one session at most: a test that does not ask for this one may start its own."""
    if "spark" not in request.fixturenames:
        _SHARED.end()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Tests of other folders find no session."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _SHARED.end()
