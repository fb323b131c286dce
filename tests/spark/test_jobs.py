"""What becomes of an error of a job: an interrupt stays one, anything else is an error of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from splitbrain.checkers.spark.jobs import collect
from splitbrain.results.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _Interrupted:
    """A frame whose job is interrupted, while Java answers nothing more."""

    def collect(self) -> list[Any]:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("Answer from Java side is empty")


class _Failed:
    def collect(self) -> list[Any]:
        raise ConnectionError("Answer from Java side is empty")


def test_an_interrupt_that_broke_the_connection_to_java_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        collect(cast("DataFrame", _Interrupted()), 1)


def test_a_broken_connection_is_an_error_of_the_engine() -> None:
    with pytest.raises(EngineError, match=r"could not judge 2 runs: .*Java side is empty"):
        collect(cast("DataFrame", _Failed()), 2)
