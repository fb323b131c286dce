"""How a job is sized, run, and explained when it fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from splitbrain.results.errors import EngineError
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ROWS_PER_TASK: Final = 20_000
"""What is worth a task, as a rule."""

_ROWS_FOR_ONE_TASK: Final = 1_000
_TASKS_PER_CORE: Final = 4


def tasks_for(spark: SparkSession, rows: int) -> int:
    """How many tasks: some per core, so that a heavy group does not hold up the rest; one for next to nothing."""
    if rows < _ROWS_FOR_ONE_TASK:
        return 1
    cores = spark.sparkContext.defaultParallelism
    return max(cores, min(cores * _TASKS_PER_CORE, rows // ROWS_PER_TASK))


def collect(frame: DataFrame, runs: int) -> list[Row]:
    """The rows of a result.

    Raises:
        EngineError: Spark failed.
        KeyboardInterrupt: an interrupt came, even if it broke the connection to Java and so became an error of py4j.
    """
    try:
        return frame.collect()
    except Exception as error:
        if (interrupt := _interrupt_behind(error)) is not None:
            raise interrupt from error
        reason = _reason(error)
        if lacking := _LACKING.search(reason):
            raise LackingPackagesError(
                f"the Python of Spark's executors cannot import {lacking[1]!r}. splitbrain pack OUT.tar.gz packs what "
                "they need, and prints how to hand it over (docs/running.md, On a cluster)."
            ) from error
        raise EngineError(f"Spark could not judge {counted(runs, 'run')}: {reason}") from error


def as_bytes(table: pa.Table) -> bytes:
    """A table as Arrow writes a stream of one."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


class LackingPackagesError(EngineError):
    """Executors lack packages: no run is to blame, and none can be judged with Spark until they have them."""


def lacks_packages(error: EngineError) -> bool:
    """Whether a job failed because executors lack packages."""
    return isinstance(error, LackingPackagesError)


_LACKING: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


def _interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt during whose handling an error was raised.

    PySpark talks to Java once more while a `KeyboardInterrupt` passes; on a busy machine Java may still be occupied
    with the talk that was broken off, and closes the new one.
    """
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        behind = behind.__context__
    return behind


def _reason(error: Exception) -> str:
    """The line that says why, from under Spark's layers."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:  # an error from Java asks the Java process for its text
        return f"{type(error).__name__}, and its Java process is gone"
    informative = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (informative or lines or [type(error).__name__])[-1][:300]
