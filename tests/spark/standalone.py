"""A standalone Spark cluster on this machine's loopback: a master and workers, as on a cluster of one's own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

import pyspark

from splitbrain.checkers.spark.java import find_java, install_shim

LOOPBACK: Final = "127.0.0.1"
_START_S: Final = 180.0
_STOP_S: Final = 30.0
_LOG4J: Final = """rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c{1}: %m%n
"""


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int, *, bare: bool = False) -> Generator[str]:
    """A master and so many workers of one core each; gives the master's URL, and ends every process of theirs.

    All they write goes into `folder`. `bare`: their processes are not told where this process finds its packages.
    """
    install_shim(find_java(), folder / "java")
    (folder / "log4j2.properties").write_text(_LOG4J)
    (folder / "tmp").mkdir()
    with contextlib.ExitStack() as stack:
        log = folder / "master.log"
        master = stack.enter_context(_daemon(folder, log, ["master.Master"], bare=bare))
        url = _said(master, log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}")]
            worker = stack.enter_context(_daemon(folder, log, ["worker.Worker", *limits], url, bare=bare))
            _said(worker, log, r"Successfully registered with master (\S+)")
        yield url


@contextlib.contextmanager
def _daemon(
    folder: Path, log: Path, command: Sequence[str], *arguments: str, bare: bool
) -> Generator[subprocess.Popen[bytes]]:
    """A process of Spark's own, in a process group that ends with the block, executors included."""
    home = Path(pyspark.__file__).parent
    name, *options = command
    listen = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
    environment = {
        **os.environ,
        "JAVA_HOME": str(folder / "java"),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()} "
        f"-Djava.io.tmpdir={folder / 'tmp'} -XX:-UsePerfData",
        "PYTHONPATH": "" if bare else os.pathsep.join(path for path in sys.path if path),
    }
    words = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *listen, *options, *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, start_new_session=True
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """What a process says of itself once it is up."""
    ends_s = time.monotonic() + _START_S
    while time.monotonic() < ends_s and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} does not say {pattern!r}: {log.read_text(errors='replace')[-2000:]}")
