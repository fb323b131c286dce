"""Java and PySpark, from the start to the end: an interrupt at any moment is no more than an interrupt.

The handler of SIGINT that was there stays there. No interrupt is raised within PySpark while it starts or stops: py4j
would log a traceback, and PySpark would leave Java behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from splitbrain.results.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S: Final = 0.05


class Launch:
    """Starts Java and a PySpark session in it; on exit from the context, both are ended.

    PySpark starts in a thread of its own: there it sets no handler, and no interrupt is raised.
    """

    def __init__(
        self, properties: Mapping[str, str], environment: Mapping[str, str | None], log: Path, stop_s: float
    ) -> None:
        """What to start.

        Args:
            properties: of Spark.
            environment: variables for the time of the start; None removes one.
            log: the file that Java writes to.
            stop_s: how long Java may take to end before it is killed, in seconds.
        """
        self._properties = properties
        self._environment = environment
        self._log = log
        self._stop_s = stop_s
        self._start: Future[SparkSession] | None = None
        self._gateway: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._message = ""

    def __enter__(self) -> Launch:
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what runs of it."""
        with interrupts_put_off(self._kill), _java_may_be_dead():
            self._cut_short()
            self._end_pyspark()
            self._end_java()

    def start(self) -> SparkSession:
        """The session, as soon as it runs.

        Raises:
            EngineError: Spark does not start.
        """
        try:
            return self._started()
        except Exception as error:
            said = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
            why = next((line for line in said if "rror" in line or "xception" in line), self._message)
            raise EngineError(f"Spark does not start: {why}{_hint()}") from error

    def _started(self) -> SparkSession:
        with (
            _environ(self._environment),
            self._log.open("wb") as out,
            ThreadPoolExecutor(1, thread_name_prefix="spark-start") as pool,
        ):
            try:
                with interrupts_put_off():
                    self._start = pool.submit(self._run, out)
                spark = self._start.result()
                self._make_active(spark)
            except Exception as error:
                self._message = _message(error)
                raise
            finally:
                with interrupts_put_off():
                    self._cut_short()
            return spark

    def _run(self, out: IO[bytes]) -> SparkSession:
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        conf = SparkConf(loadDefaults=False).setAll(list(self._properties.items()))
        with self._process_noted():
            self._gateway = java_gateway.launch_gateway(conf, {"stdout": out, "stderr": out, "start_new_session": True})
        return SparkSession(SparkContext(conf=conf, gateway=self._gateway))

    @contextlib.contextmanager
    def _process_noted(self) -> Generator[None]:
        """Note the Java process as soon as it begins: PySpark returns it only when Java has answered."""
        from pyspark import java_gateway

        popen: Any = java_gateway.Popen  # pyright: ignore[reportPrivateImportUsage]

        def noted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
            process: subprocess.Popen[bytes] = popen(*arguments, **options)
            self._process = process
            return process

        setattr(java_gateway, "Popen", noted)  # noqa: B010
        try:
            yield
        finally:
            setattr(java_gateway, "Popen", popen)  # noqa: B010

    def _make_active(self, spark: SparkSession) -> None:
        """Make a session that of this thread: PySpark looks for it by thread, and makes another if there is none."""
        java: Any = spark
        with interrupts_put_off(self._kill):
            java._jvm.SparkSession.setActiveSession(java._jsparkSession)

    def _cut_short(self) -> None:
        """Kill Java, now or as soon as there is one, until a start that goes on has failed of it."""
        while self._start is not None and not self._start.done():
            self._kill()
            wait([self._start], _LOOK_S)

    def _end_pyspark(self) -> None:
        """Stop the session, or what there is of one, and let PySpark start another one in this process later."""
        if self._start is None:
            return
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        failure = self._start.exception()
        if failure is None:
            with contextlib.suppress(Exception):  # Java that died must not hide what the block raised
                self._start.result().stop()
        for _ in range(2):  # with Java dead the first call fails, and the second ends what is Python's
            context = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
            with contextlib.suppress(Exception):
                if context is not None:
                    context.stop()
        SparkContext._gateway = SparkContext._jvm = None  # pyright: ignore[reportPrivateUsage]
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # pyright: ignore[reportPrivateUsage]
        if self._gateway is not None:
            with contextlib.suppress(Exception):
                self._gateway.shutdown()
        if failure is not None:
            _drop_frames(failure)

    def _end_java(self) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(self._stop_s)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    def _kill(self) -> None:
        """Kill Java and what it started; once the process is waited for, its id may be another's."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _message(error: BaseException) -> str:
    """The informative line of an error; one from Java asks the Java process for it, which must be alive still."""
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
    """Let go of the sockets and pipes that PySpark's launcher forgot to close after a failed start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        traceback.clear_frames(error.__traceback__)


@contextlib.contextmanager
def interrupts_put_off(hurry: Callable[[], None] | None = None) -> Generator[None]:
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
def without_py4js_log() -> Generator[None]:
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
