"""One Spark session for the folder, and a module of checkers that misbehave, on the path here and on the workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from checkers.spark.session import Spark, session

from .support import lay_misbehaving


@pytest.fixture(scope="session")
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("modules")
    lay_misbehaving(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.setattr(sys, "path", [str(folder), *sys.path])
        yield


@pytest.fixture(scope="module")
def spark(misbehaving: None) -> Iterator[Spark]:
    with session("local[2]") as running:
        yield running
