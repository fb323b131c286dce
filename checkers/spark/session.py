"""A Spark session that starts fast, is silent, listens on loopback only, and leaves nothing behind.

A session belongs to the `with` block that started it. The Java process is in a session of its own, so that Ctrl-C on
the terminal reaches Python alone and the history can still be judged; it ends when the block ends, and when this
process dies from any cause, as it watches its standard input.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from splitbrain.checkers.spark.java import (
    FLAGS,
    Java,
    archive_path,
    find_java,
    flags_to_make_archive,
    flags_to_use_archive,
    install_shim,
)
from splitbrain.checkers.spark.launch import Launch, interrupts_put_off, without_py4js_log
from splitbrain.results.errors import EngineError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER: Final = re.compile(r"local(\[(\*|[1-9]\d*)(, *[1-9]\d*)?\])?|spark://.+|yarn|k8s://.+")
_PYTHON: Final = "spark.pyspark.python"
_DAEMON: Final = "spark.python.daemon.module"
_STOP_S: Final = 20.0
_ARCHIVE_S: Final = 300.0
_DRIVER_MEMORY: Final = "2g"
_WORK_PREFIX: Final = "splitbrain-spark-"
_LOG4J: Final = """status = error
rootLogger.level = error
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class Spark(msgspec.Struct, frozen=True):
    """A running session.

    Attributes:
        session: PySpark's own.
        start_s: how long it took to start, in seconds.
        java: the Java that it runs on.
        archived: whether it started from the archive that `prepare` makes.
    """

    session: SparkSession
    start_s: float
    java: Java
    archived: bool


@contextlib.contextmanager
def session(master: str = "local[*]", *, options: Mapping[str, str] | None = None) -> Generator[Spark]:
    """A Spark session for the length of the block.

    Args:
        master: `local[*]`, `local[4]`, `spark://host:7077`, ... Beyond local ones the workers need this distribution
            installed and the store on a file system that they share.
        options: further Spark properties; they win over ours.

    Raises:
        UsageError: the master is not one, or Spark is not installed.
        EngineError: there is no Java, Spark does not start, or this process runs a session already.
    """
    check_master(master)
    check_installed()
    java = find_java()
    archive = archive_path(java)
    archived = archive.exists()
    flags = flags_to_use_archive(java, archive) if archived else []
    with _session(master, java, flags, options or {}, _STOP_S) as (spark, start_s):
        yield Spark(spark, start_s, java, archived)


def made_active(spark: SparkSession) -> None:
    """Make a session that of this thread: PySpark looks for it by thread, and makes another if there is none."""
    java: Any = spark
    java._jvm.SparkSession.setActiveSession(java._jsparkSession)


def prepare() -> str:
    """Make the class archive of this Java and Spark, if there is none yet; one line on what was done.

    Raises:
        EngineError: there is no Java, or Spark does not start.
    """
    if not is_installed():
        return "Spark is not installed: `analyze` and `demo` judge in their own process"
    java = find_java()
    archive = archive_path(java)
    if archive.exists():
        return f"Spark's class archive for Java {java.release} is there"
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".making-", dir=archive.parent))
    except OSError as error:
        return f"no class archive for Spark: {archive.parent} cannot be written ({error.strerror}); it starts slower"
    try:
        flags = flags_to_make_archive(java, aside / archive.name)
        if flags is None:
            return f"no class archive for Spark: Java {java.release} ({java.source}) cannot make one; it starts slower"
        with _session("local[2]", java, flags, {}, _ARCHIVE_S) as (spark, _):
            _exercise(spark, aside)
        if not (aside / archive.name).exists():
            return f"no class archive for Spark: Java {java.release} ({java.source}) wrote none; it starts slower"
        (aside / archive.name).rename(archive)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return f"Spark's class archive for Java {java.release} made ({archive.stat().st_size >> 20} MB)"


def _exercise(spark: SparkSession, folder: Path) -> None:
    """Touch what the pipeline will need: Parquet, partitions, a shuffle, Arrow to Python and back."""
    import pyarrow as pa

    def same(table: pa.Table) -> pa.Table:
        return table

    path = str(folder / "table")
    rows = spark.range(100).selectExpr("id", "id % 3 as run", "cast(id as string) as text")
    rows.write.partitionBy("run").parquet(path)
    table = spark.read.option("basePath", path).schema("id long, text string, run string").parquet(path)
    doubled = table.unionByName(table.where("id > 5")).repartition(2, "run")
    doubled.groupBy("run").applyInArrow(same, doubled.schema).collect()
    shutil.rmtree(path)


def is_installed() -> bool:
    """Whether PySpark is installed: it is an extra of this distribution."""
    return importlib.util.find_spec("pyspark") is not None


def check_installed() -> None:
    """Refuse to judge with Spark where it is not installed.

    Raises:
        UsageError: it is not.
    """
    if not is_installed():
        raise UsageError("Spark is not installed: pip install 'splitbrain[spark]', or judge with --engine inline.")


def check_master(master: str) -> None:
    """Refuse what is no Spark master, before anything is started for it.

    Raises:
        UsageError: it is none.
    """
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master!r} is no Spark master: use local[*], local[4], spark://HOST:PORT, yarn or k8s://..."
        )


@contextlib.contextmanager
def _session(
    master: str, java: Java, flags: Sequence[str], options: Mapping[str, str], stop_s: float
) -> Generator[tuple[SparkSession, float]]:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:  # pyright: ignore[reportPrivateUsage]
        raise EngineError("this process runs a Spark session already: end it first.")
    _sweep()
    try:
        work = Path(tempfile.mkdtemp(prefix=f"{_WORK_PREFIX}{os.getpid()}-"))
    except OSError as error:
        raise _no_room(error) from error
    try:
        started = time.perf_counter()
        try:
            install_shim(java, work / "java")
            (work / "log4j2.properties").write_text(_LOG4J)
        except OSError as error:
            raise _no_room(error) from error
        properties = {**_properties(master, work, flags), **options}
        environment = _environment(master, work)
        if python := options.get(_PYTHON):  # a property of spark-submit, which is not used here
            environment["PYSPARK_PYTHON"] = python
            if _DAEMON not in options:  # another Python may lack what ours loads: its workers say so, one by one
                properties.pop(_DAEMON, None)
        launch = Launch(properties, environment, work / "spark.log", stop_s)
        with without_py4js_log(), launch:
            yield launch.start(), time.perf_counter() - started
    finally:
        with interrupts_put_off():
            shutil.rmtree(work, ignore_errors=True)


def _no_room(error: OSError) -> EngineError:
    folder = tempfile.gettempdir()
    return EngineError(
        f"Spark does not start: it cannot write to {folder} ({error.strerror}): make room there, or set TMPDIR."
    )


# --- settings -------------------------------------------------------------------------------------------------------


def _properties(master: str, work: Path, flags: Sequence[str]) -> dict[str, str]:
    java_options = [
        *FLAGS,
        *flags,
        f"-Dlog4j2.configurationFile={(work / 'log4j2.properties').as_uri()}",
        f"-Djava.io.tmpdir={work}",
        f"-Dderby.system.home={work}",
    ]
    properties = {
        "spark.master": master,
        "spark.app.name": "splitbrain",
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in java_options),
        "spark.driver.memory": _DRIVER_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars.ivy": str(work / "ivy"),
        "spark.sql.warehouse.dir": (work / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Groups are few and costly: partitions are sized by the pipeline, never merged for being small in bytes.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    if is_local(master):
        properties |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(work),
            "spark.hadoop.fs.defaultFS": "file:///",
            _DAEMON: "splitbrain.checkers.spark.daemon",
        }
    return properties


def _environment(master: str, work: Path) -> dict[str, str | None]:
    """Variables for the time of the start; None removes one. Another Spark on this machine has no say in ours."""
    import pyspark

    environment: dict[str, str | None] = {
        "JAVA_HOME": str(work / "java"),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LAUNCHER_OPTS": shlex.join(FLAGS),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": None,
        "PYSPARK_GATEWAY_PORT": None,
        "PYSPARK_GATEWAY_SECRET": None,
        "PYSPARK_PIN_THREAD": None,
        "SPARK_REMOTE": None,
        "SPARK_CONNECT_MODE_ENABLED": None,
        "SPARK_API_MODE": None,
        "JAVA_TOOL_OPTIONS": None,
        "_JAVA_OPTIONS": None,
        "JDK_JAVA_OPTIONS": None,
    }
    if is_local(master):
        environment |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(work / "conf"),
            "SPARK_LOCAL_DIRS": None,
            "SPARK_DIST_CLASSPATH": None,
            "HADOOP_CONF_DIR": None,
            "YARN_CONF_DIR": None,
        }
    elif os.environ.get("PYSPARK_PYTHON"):
        del environment["PYSPARK_PYTHON"]
    return environment


def is_local(master: str) -> bool:
    """Whether the workers of a master are processes of this machine."""
    return master == "local" or master.startswith("local[")


def _sweep() -> None:
    """Remove the folders of sessions whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_WORK_PREFIX}*-*"):
        owner = folder.name.removeprefix(_WORK_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
