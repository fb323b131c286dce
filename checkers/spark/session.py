"""A Spark session that starts fast, is silent, listens on loopback only, and leaves nothing behind.

A session belongs to the `with` block that started it. The Java process is in a session of its own, so that Ctrl-C on
the terminal reaches Python alone and the history can still be judged; it ends when the block ends, and when this
process dies by whatever cause, as it watches its standard input.

The handler of SIGINT that was there stays there. No interrupt is raised within PySpark while a session starts or stops:
py4j would log a traceback, and PySpark would leave Java behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from checkers.spark.java import (
    FLAGS,
    Java,
    archive_path,
    find_java,
    flags_to_make_archive,
    flags_to_use_archive,
    install_shim,
)
from results.errors import EngineError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER: Final = re.compile(r"local(\[(\*|[1-9]\d*)(, *[1-9]\d*)?\])?|spark://.+|yarn|k8s://.+")
_STOP_S: Final = 20.0
_LOOK_S: Final = 0.05
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
        UsageError: the master is not one.
        EngineError: there is no Java, Spark does not start, or this process runs a session already.
    """
    check_master(master)
    java = find_java()
    archive = archive_path(java)
    archived = archive.exists()
    flags = flags_to_use_archive(java, archive) if archived else []
    with _session(master, java, flags, options or {}, _STOP_S) as (spark, start_s):
        yield Spark(spark, start_s, java, archived)


def prepare() -> str:
    """Make the class archive of this Java and Spark, if there is none yet; one line on what was done.

    Raises:
        EngineError: there is no Java, or Spark does not start.
    """
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


def check_master(master: str) -> None:
    """Refuse what is no Spark master, before anything is started for it.

    Raises:
        UsageError: it is none.
    """
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master!r} is no Spark master: use local[*], local[4], spark://HOST:PORT, yarn or k8s://..."
        )


# --- start and stop -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _session(
    master: str, java: Java, flags: Sequence[str], options: Mapping[str, str], stop_s: float
) -> Generator[tuple[SparkSession, float]]:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:  # pyright: ignore[reportPrivateUsage]
        raise EngineError("this process runs a Spark session already: end it first.")
    _sweep()
    work = Path(tempfile.mkdtemp(prefix=f"{_WORK_PREFIX}{os.getpid()}-"))
    try:
        started = time.perf_counter()
        install_shim(java, work / "java")
        (work / "log4j2.properties").write_text(_LOG4J)
        properties = {**_properties(master, work, flags), **options}
        with _without_py4js_log():
            spark, process = _start(properties, _environment(master, work), work)
            try:
                yield spark, time.perf_counter() - started
            finally:
                _stop(spark, process, stop_s)
    finally:
        with _interrupts_put_off():
            shutil.rmtree(work, ignore_errors=True)


class _Launch:
    """The start of a session, for a thread of its own: there PySpark sets no handler, and no interrupt is raised."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from pyspark import SparkConf

        self.gateway: Any = None
        self.process: subprocess.Popen[bytes] | None = None
        self._conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))

    def run(self, out: IO[bytes]) -> tuple[SparkSession, subprocess.Popen[bytes]]:
        from pyspark import SparkContext, java_gateway
        from pyspark.sql import SparkSession

        conf = self._conf
        with self._process_noted():
            self.gateway = java_gateway.launch_gateway(conf, {"stdout": out, "stderr": out, "start_new_session": True})
        return SparkSession(SparkContext(conf=conf, gateway=self.gateway)), self.gateway.proc

    def cut_short(self, start: Future[Any]) -> None:
        """Kill Java, now or as soon as there is one, until the start has failed of it."""
        while not start.done():
            _kill(self.process)
            wait([start], _LOOK_S)

    @contextlib.contextmanager
    def _process_noted(self) -> Generator[None]:
        """Note the Java process as soon as it begins: PySpark returns it only when Java has answered."""
        from pyspark import java_gateway

        popen: Any = java_gateway.Popen  # pyright: ignore[reportPrivateImportUsage]

        def noted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
            process: subprocess.Popen[bytes] = popen(*arguments, **options)
            self.process = process
            return process

        setattr(java_gateway, "Popen", noted)  # noqa: B010
        try:
            yield
        finally:
            setattr(java_gateway, "Popen", popen)  # noqa: B010


def _start(
    properties: Mapping[str, str], environment: Mapping[str, str | None], work: Path
) -> tuple[SparkSession, subprocess.Popen[bytes]]:
    log = work / "spark.log"
    launch = _Launch(properties)
    with _environ(environment), log.open("wb") as out, ThreadPoolExecutor(1, thread_name_prefix="spark-start") as pool:
        start = pool.submit(launch.run, out)
        try:
            spark, process = start.result()
            _make_active(spark, process)
            return spark, process
        except BaseException as error:
            with _interrupts_put_off(), _java_may_be_dead():
                message = _message(error) if start.done() else ""
                launch.cut_short(start)
                _give_up(launch, start)
            if not isinstance(error, Exception):
                raise
            said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
            why = next((line for line in said if "rror" in line or "xception" in line), message)
            raise EngineError(f"Spark does not start: {why}{_hint()}") from error


def _make_active(spark: SparkSession, process: subprocess.Popen[bytes]) -> None:
    """Make a session that of this thread: PySpark looks for it by thread, and makes another one if there is none."""
    java: Any = spark
    with _interrupts_put_off(lambda: _kill(process)):
        java._jvm.SparkSession.setActiveSession(java._jsparkSession)


def _give_up(launch: _Launch, start: Future[tuple[SparkSession, subprocess.Popen[bytes]]]) -> None:
    """End what a start has left that failed or was interrupted, be it when it had just succeeded."""
    failure = start.exception()
    if failure is None:
        _stop(*start.result(), _STOP_S)
        return
    _forget(launch.gateway, launch.process, _STOP_S)
    _drop_frames(failure)


def _message(error: BaseException) -> str:
    """The telling line of an error; one from Java asks the Java process for it, which must be alive still."""
    try:
        lines = [line.strip(" :\t") for line in str(error).splitlines()]
    except Exception:
        return type(error).__name__
    java = [line for line in lines if re.match(r"[\w.$]+(Error|Exception)\b", line)]
    return (java or [line for line in lines if line] or [type(error).__name__])[0]


def _hint() -> str:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return (
            f". (User id {os.getuid()} has no name on this machine, and Spark needs one: give it an entry in "
            f"/etc/passwd, or use --engine inline.)"
        )
    return ""


def _drop_frames(error: BaseException) -> None:
    """Let go of the process that PySpark's launcher forgot to clean up after a failed start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        traceback.clear_frames(error.__traceback__)


def _stop(spark: SparkSession, process: subprocess.Popen[bytes], wait_s: float) -> None:
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    with _interrupts_put_off(lambda: _kill(process)), _java_may_be_dead():
        with contextlib.suppress(Exception):  # a JVM that died must not hide what the block raised
            spark.stop()
        _forget(gateway, process, wait_s)


def _forget(gateway: Any, process: subprocess.Popen[bytes] | None, wait_s: float) -> None:
    """End the Java process for good, and let PySpark start another one in this process later."""
    from pyspark import SparkContext

    SparkContext._gateway = None  # pyright: ignore[reportPrivateUsage]
    SparkContext._jvm = None  # pyright: ignore[reportPrivateUsage]
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    if process is None:
        return
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    """Kill Java and what it started; once the process is waited for, its id may be another's."""
    if process is not None and process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _interrupts_put_off(hurry: Callable[[], None] | None = None) -> Generator[None]:
    """Put an interrupt off until the context is over; drop it if a KeyboardInterrupt is being raised already.

    Args:
        hurry: called at every interrupt, to end sooner what is done in the context.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler in {signal.SIG_IGN, None}:
        yield
        return
    seen = False

    def note(_: int, __: object) -> None:
        nonlocal seen
        seen = True
        if hurry is not None:
            hurry()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if seen and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _java_may_be_dead() -> Generator[None]:
    """Silence PySpark's warning that it cannot stop Java: we killed it, or an error already says that it died."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@contextlib.contextmanager
def _without_py4js_log() -> Generator[None]:
    """On Ctrl-C py4j logs the traceback of the KeyboardInterrupt before it raises it: the raising is enough.

    It logs by its own loggers, and in places by the root logger.
    """

    def not_py4js(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    root.addFilter(not_py4js)
    own.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeFilter(not_py4js)


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
    if _is_local(master):
        properties |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(work),
            "spark.hadoop.fs.defaultFS": "file:///",
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
    if _is_local(master):
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


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


@contextlib.contextmanager
def _environ(changes: Mapping[str, str | None]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _set_environ(changes)
    try:
        yield
    finally:
        _set_environ(before)


def _set_environ(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _sweep() -> None:
    """Remove the folders of sessions whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_WORK_PREFIX}*-*"):
        owner = folder.name.removeprefix(_WORK_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
