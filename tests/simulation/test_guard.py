"""The guard: whatever the real world could answer differently next time raises, and says who asked."""

from __future__ import annotations

import _thread
import asyncio
import datetime
import gc
import io
import linecache
import logging
import os
import pathlib
import queue
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date as a_date
from datetime import datetime as a_datetime
from os import urandom
from pathlib import Path
from random import randint, shuffle
from threading import Thread
from time import monotonic, monotonic_ns, perf_counter
from time import time as now
from types import ModuleType
from typing import Any, NoReturn
from uuid import uuid4

import pytest

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation import guard
from splitbrain.harness.simulation.guard import forbidden, outside
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.results.errors import SimulationError

HERE = "tests/simulation/test_guard.py"
POOL = ThreadPoolExecutor(1)
RNG = random.Random(5)
NOTHING: Any = None

FORBIDDEN: dict[str, Callable[[], object]] = {
    "time.time": lambda: time.time(),
    "time.time by name": lambda: now(),
    "time.time_ns": lambda: time.time_ns(),
    "time.monotonic": lambda: time.monotonic(),
    "time.monotonic by name": lambda: monotonic(),
    "time.monotonic_ns by name": lambda: monotonic_ns(),
    "time.perf_counter by name": lambda: perf_counter(),
    "time.perf_counter_ns": lambda: time.perf_counter_ns(),
    "time.process_time": lambda: time.process_time(),
    "time.thread_time": lambda: time.thread_time(),
    "time.clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "time.localtime": lambda: time.localtime(),
    "time.strftime": lambda: time.strftime("%Y"),
    "time.sleep": lambda: time.sleep(0),
    "datetime.datetime.now": lambda: datetime.datetime.now(datetime.timezone.utc),  # noqa: UP017
    "datetime.datetime.now by name": lambda: a_datetime.now(tz=None),  # noqa: DTZ005
    "datetime.datetime.utcnow": lambda: a_datetime.utcnow(),  # noqa: DTZ003 # pyright: ignore[reportDeprecated]
    "datetime.datetime.today": lambda: datetime.datetime.today(),  # noqa: DTZ002
    "datetime.date.today": lambda: datetime.date.today(),  # noqa: DTZ011
    "datetime.date.today by name": lambda: a_date.today(),  # noqa: DTZ011
    "random.random": lambda: random.random(),
    "random.randint by name": lambda: randint(1, 2),
    "random.shuffle by name": lambda: shuffle([1]),
    "random.choice": lambda: random.choice([1]),
    "random.getrandbits": lambda: random.getrandbits(3),
    "random.seed": lambda: random.seed(1),
    "random.Random without a seed": lambda: random.Random(),
    "random.Random.seed without a seed": lambda: RNG.seed(),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "uuid.uuid4 by name": lambda: uuid4(),
    "os.urandom": lambda: os.urandom(1),
    "os.urandom by name": lambda: urandom(1),
    "os.getrandom": lambda: os.getrandom(1),
    "secrets.token_hex": lambda: secrets.token_hex(),
    "secrets.choice": lambda: secrets.choice([1]),
    "threading.Thread.start": lambda: Thread(target=print).start(),
    "_thread.start_new_thread": lambda: _thread.start_new_thread(int, ()),
    "concurrent.futures.ThreadPoolExecutor.submit": lambda: POOL.submit(int),
    "open of '/dev/null'": lambda: open("/dev/null"),  # noqa: SIM115
    "open of '/dev/null' by io": lambda: io.open("/dev/null"),  # noqa: SIM115, UP020
    "open of '/dev/null' by os": lambda: os.open("/dev/null", os.O_RDONLY),
    "open of '/dev/null' by pathlib": lambda: Path("/dev/null").read_bytes(),
    "os.listdir": lambda: os.listdir("/"),
    "os.scandir": lambda: os.scandir("/"),
    "os.mkdir": lambda: pathlib.Path("/nowhere/at/all").mkdir(),
    "os.remove": lambda: os.remove("/nowhere/at/all"),
    "os.stat": lambda: os.path.exists("/"),
    "socket": lambda: socket.socket(),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("127.0.0.1", 1),
    "socket.gethostname": lambda: socket.gethostname(),
    "subprocess.Popen": lambda: subprocess.run(["true"], check=False),
    "os.system": lambda: os.system("true"),  # pyright: ignore[reportDeprecated]
    "os.fork": lambda: os.fork() or os._exit(0),
    "os.posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "os.kill": lambda: os.kill(os.getpid(), 0),
    "asyncio.all_tasks": lambda: asyncio.all_tasks(),
    "asyncio.wait": lambda: asyncio.wait([NOTHING]),
    "asyncio.wait_for": lambda: asyncio.wait_for(NOTHING, 1),
    "asyncio.as_completed": lambda: asyncio.as_completed([NOTHING]),
    "asyncio.to_thread": lambda: asyncio.to_thread(print),
    "asyncio.TaskGroup": lambda: asyncio.TaskGroup(),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_a_forbidden_call_names_itself_and_the_line_that_made_it(case: str) -> None:
    call = FORBIDDEN[case]
    with forbidden() as guard, pytest.raises(SimulationError) as caught:
        call()
    named = case.partition(" by ")[0]
    assert str(caught.value).startswith(
        f"{named} was called inside a simulation, at {HERE}:{call.__code__.co_firstlineno}. "
    )
    assert guard.offence is caught.value


def test_everything_is_as_before_afterwards(tmp_path: Path) -> None:
    methods = [random.Random.__init__, random.Random.seed, Thread.start, asyncio.TaskGroup.__init__]
    for _ in range(2):
        with forbidden():
            assert monotonic is time.monotonic
            assert type(monotonic) is not type(len)
        assert [monotonic, now, urandom, uuid4] == [time.monotonic, time.time, os.urandom, uuid.uuid4]
        assert [a_datetime, a_date] == [datetime.datetime, datetime.date]
        assert type(monotonic) is type(urandom) is type(len)
        assert type(a_datetime) is type(a_date) is type
    assert methods == [random.Random.__init__, random.Random.seed, Thread.start, asyncio.TaskGroup.__init__]
    (tmp_path / "file").write_text("x")
    assert os.listdir(tmp_path) == ["file"]
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)
    socket.socket().close()
    done: list[int] = []
    thread = Thread(target=done.append, args=(1,))
    thread.start()
    thread.join()
    assert done == [1]
    assert type(a_datetime.now(tz=datetime.UTC)) is datetime.datetime
    assert asyncio.run(asyncio.wait_for(asyncio.sleep(0, "slept"), 10)) == "slept"


def test_what_is_the_same_everywhere_is_allowed() -> None:
    with forbidden() as guard:
        assert random.Random(5).random() == random.Random(5).random()
        assert time.gmtime(0).tm_year == 1970
        assert a_datetime(2020, 1, 2, tzinfo=datetime.UTC).isoformat() == "2020-01-02T00:00:00+00:00"
        assert isinstance(datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), datetime.date)
        assert a_datetime.fromtimestamp(0, datetime.UTC) - a_datetime(1970, 1, 1, tzinfo=datetime.UTC) == (
            datetime.timedelta()
        )
        assert a_date.fromisoformat("2020-01-02") == a_date(2020, 1, 2)
        assert str(uuid.UUID(int=1)).endswith("1")
    assert guard.offence is None


def test_the_first_offence_is_kept_though_it_is_caught() -> None:
    with forbidden() as guard:
        assert guard.offence is None
        for call in (time.time, time.monotonic):
            with pytest.raises(SimulationError):
                call()
    assert guard.offence is not None
    assert str(guard.offence).startswith("time.time was called")


def test_what_a_simulated_loop_refuses_is_an_offence_too() -> None:
    async def main() -> str:
        try:
            await asyncio.open_connection("localhost", 1)
        except Exception:
            return "no connection"
        return "connected"

    with forbidden() as guard:
        assert SimLoop(Rng(1)).run(main()) == "no connection"
    assert guard.offence is not None
    assert "create_connection was called" in str(guard.offence)


def test_outside_lifts_the_ban_and_can_be_nested() -> None:
    with forbidden() as guard:
        with outside():
            with outside():
                assert time.time() > 0
            assert monotonic() > 0
            assert os.path.exists("/")
            assert a_datetime.now(tz=datetime.UTC).year > 2020
            assert random.Random().random() < 1
        assert guard.offence is None
        with pytest.raises(SimulationError):
            time.time()
    with outside():
        assert time.time() > 0


def test_one_guard_inside_another_ends_with_its_own_block() -> None:
    with forbidden() as outer:
        with forbidden() as inner, pytest.raises(SimulationError):
            time.time()
        assert outer.offence is None
        assert inner.offence is not None
        with pytest.raises(SimulationError):
            time.time()
    assert outer.offence is not None


def test_an_error_inside_ends_the_ban_too() -> None:
    with pytest.raises(KeyError), forbidden():
        raise KeyError
    assert time.time() > 0


def test_other_threads_are_free_and_may_be_guarded_at_other_times() -> None:
    entered, left = threading.Event(), threading.Event()
    seen: list[object] = []

    def other() -> None:
        entered.wait()
        with open("/dev/null") as file:
            seen.extend([time.time() > 0, random.random() < 1, file.read(), random.Random().random() < 1])
        with forbidden() as guard:
            left.set()
            try:
                time.time()
            except SimulationError:
                seen.append(guard.offence is not None)

    thread = threading.Thread(target=other)
    thread.start()
    with forbidden() as guard:
        entered.set()
        left.wait()  # an event needs no clock
    thread.join()
    assert seen == [True, True, "", True, True]
    assert guard.offence is None
    assert time.time() > 0


def test_python_may_import_log_and_print_tracebacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "imported_inside.py").write_text(
        "from time import monotonic\nimport time\nSTARTED = time.time()\n"
        "class Clock:\n    read = time.monotonic\n"
        "def ask(): return monotonic()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    linecache.clearcache()
    with forbidden() as guard:
        module = __import__("imported_inside")
        caplog.set_level(logging.INFO)
        logging.getLogger("inside").info("said")
        try:
            raise KeyError("shown")
        except KeyError:
            assert 'raise KeyError("shown")' in traceback.format_exc()
        assert guard.offence is None
        with pytest.raises(SimulationError, match=r"imported_inside\.py:6"):
            module.ask()
    assert caplog.records[0].created > 0
    assert module.monotonic is time.monotonic
    assert module.ask() > 0
    assert module.Clock().read() > 0
    del sys.modules["imported_inside"]


def test_a_module_that_was_imported_since_the_last_time_is_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forbidden():
        pass
    (tmp_path / "imported_between.py").write_text("from time import monotonic\ndef ask(): return monotonic()\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("imported_between")
    with forbidden(), pytest.raises(SimulationError, match="monotonic"):
        module.ask()
    assert module.ask() > 0
    del sys.modules["imported_between"]


class _CompiledLibrary:
    """What cffi puts among the modules: it takes itself for one, and has no globals."""

    __slots__ = ()

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - as cffi does
        return ModuleType


def test_a_compiled_library_that_passes_for_a_module_keeps_nobody_from_being_guarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "compiled_library", _CompiledLibrary())  # pyright: ignore[reportArgumentType]
    with forbidden(), pytest.raises(SimulationError, match=r"time\.monotonic"):
        time.monotonic()


def test_a_module_in_the_place_of_another_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "replaced", ModuleType("replaced"))
    with forbidden():
        pass
    module = ModuleType("replaced")
    vars(module)["ask"] = time.monotonic
    monkeypatch.setitem(sys.modules, "replaced", module)
    with forbidden(), pytest.raises(SimulationError, match=r"time\.monotonic"):
        vars(module)["ask"]()
    assert vars(module)["ask"]() > 0


def test_a_guard_that_could_not_be_put_up_is_put_up_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(wanted: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setitem(sys.modules, "imported_since", ModuleType("imported_since"))
    with monkeypatch.context() as patched:
        patched.setattr(guard, "_imports_of", fails)
        with pytest.raises(MemoryError), forbidden():
            pass
    with forbidden(), pytest.raises(SimulationError, match=r"time\.monotonic"):
        time.monotonic()


def test_a_call_by_a_library_names_the_line_that_called_the_library_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "a_library.py").write_text("import tempfile\n\ndef work():\n    return tempfile.mkstemp()\n")
    monkeypatch.syspath_prepend(library)
    module = __import__("a_library")
    tempfile.gettempdir()
    with forbidden(), pytest.raises(SimulationError) as caught:
        module.work()
    assert f" at a_library.py:4 (called from {HERE}:" in str(caught.value)
    del sys.modules["a_library"]


def test_whoever_watches_garbage_collection_may_look_at_the_clock() -> None:
    """Test tools measure how long collections take, whenever one happens to run."""
    looked: list[float] = []

    def watch(phase: str, info: dict[str, int]) -> None:
        looked.append(time.perf_counter())

    gc.callbacks.append(watch)
    try:
        with forbidden() as guard:
            gc.collect()
    finally:
        gc.callbacks.remove(watch)
    assert len(looked) >= 2
    assert guard.offence is None


def test_an_object_from_before_may_be_finalized_inside() -> None:
    class Pool:
        """As that of urllib3, whose finalizer empties a queue."""

    idle: queue.Queue[int] = queue.Queue()
    idle.put(1)
    pools = [Pool()]
    weakref.finalize(pools[0], lambda: idle.get(block=False))
    with forbidden() as guard:
        pools.clear()
    assert idle.empty()
    assert guard.offence is None
