"""A request to end at any moment: one line and an exit code that names the signal, no traceback, and no data lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns import interrupts
from splitbrain.harness.cli import main as command
from splitbrain.results.errors import RunNotBegunError
from splitbrain.results.store import Store
from tests.cli.support import environment
from tests.results.test_compacting import facts, laid

ASKED = [
    (signal.SIGINT, 130, "splitbrain: interrupted\n"),
    (signal.SIGTERM, 143, "splitbrain: interrupted by SIGTERM\n"),
    (signal.SIGHUP, 129, "splitbrain: interrupted by SIGHUP\n"),
]


@pytest.fixture(autouse=True)
def heard() -> Generator[None]:
    """Signals are not ignored here, also where the tests run in the background of a script or under nohup."""
    numbers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ended(monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> Any:
    """The exit code of a command that does this."""

    def main(*_: Any, **__: Any) -> None:
        does()

    monkeypatch.setattr(command.splitbrain, "main", main)
    with pytest.raises(SystemExit) as over:
        command.main(["list"])
    return over.value.code


@pytest.mark.parametrize(("number", "code", "said"), ASKED)
def test_a_command_that_hears_no_signal_by_itself_ends_in_order_at_each(
    number: signal.Signals, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cleaned: list[int] = []

    def does() -> None:
        try:
            signal.raise_signal(number)
        finally:
            cleaned.append(number)

    before = [signal.getsignal(each) for each, _, _ in ASKED]
    assert ended(monkeypatch, does) == code
    assert capfd.readouterr().err == said
    assert cleaned == [number]
    assert [signal.getsignal(each) for each, _, _ in ASKED] == before


@pytest.mark.parametrize(("number", "code"), [(number, code) for number, code, _ in ASKED])
def test_an_event_loop_ends_its_task_in_order_at_each(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[type[BaseException]] = []

    async def waits() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, number)
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            seen.append(type(error))
            raise

    assert ended(monkeypatch, lambda: asyncio.run(waits())) == code
    assert seen == [asyncio.CancelledError]


@pytest.mark.parametrize(("number", "code"), [(number, code) for number, code, _ in ASKED])
def test_a_run_that_was_ended_before_it_began_ends_by_the_signal(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def begins() -> None:
        with interrupts.on_interrupt(lambda: None):
            signal.raise_signal(number)
        raise RunNotBegunError("nothing was tested.")

    assert ended(monkeypatch, begins) == code
    assert capfd.readouterr().err == "splitbrain: nothing was tested.\n"


@pytest.mark.parametrize("number", [each for each, _, _ in ASKED])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(number, signal.SIG_IGN)
    assert ended(monkeypatch, lambda: signal.raise_signal(number)) == 0


_IMPORTING = """
import signal, sys
from splitbrain.harness.cli import start

class Asks:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(int(sys.argv[2]))

sys.meta_path.insert(0, Asks())
sys.argv[3:] = ["list", "workloads"]
sys.argv[1:3] = []
start.main()
"""


@pytest.mark.parametrize(("number", "code", "said"), ASKED)
@pytest.mark.parametrize("module", ["click", "splitbrain.harness.cli.listing"])
def test_a_signal_while_modules_are_imported_is_no_traceback(
    module: str, number: signal.Signals, code: int, said: str
) -> None:
    program = _IMPORTING.replace("sys.argv[2]", str(int(number))).replace("sys.argv[1]", repr(module), 1)
    program = program.replace('sys.argv[3:] = ["list", "workloads"]\nsys.argv[1:3] = []', 'sys.argv[1:] = ["list"]')
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.lstrip("\n")) == (code, said)


_OVER = """
import atexit, os, signal, sys
from splitbrain.harness.cli import start
atexit.register(os.kill, os.getpid(), signal.SIGTERM)
sys.argv[1:] = ["list", "models"]
start.main()
"""


def test_a_signal_once_the_command_is_over_does_not_change_its_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OVER], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "register" in done.stdout


# --- what rewrites a store --------------------------------------------------------------------------------------------


def _store(root: Path) -> dict[str, Any]:
    for seed in range(2):
        laid(root, seed)
    return _content(root)


def _code(*words: str) -> Any:
    with pytest.raises(SystemExit) as over:
        command.main(list(words))
    return over.value.code


def _content(root: Path) -> dict[str, Any]:
    """What each run of a store says: its history, its test and its verdicts."""
    return {run.name: facts(run) for run in Store(root).folders()}


REWRITING = {
    "compact": ["compact"],
    "manifest": ["manifest"],
    "prune": ["prune", "--keep", "1"],
}


@pytest.mark.parametrize("name", list(REWRITING))
def test_a_command_that_is_ended_where_it_gives_a_file_its_name_loses_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At each rename and removal in turn, before it and after it; the same command goes on from there then."""
    first = tmp_path / "laid"
    content = _store(first)
    names = ("replace", "rename", "rmdir", "unlink")
    places, code = 0, None
    for place in range(1, 1000, 3):
        root = tmp_path / f"store{place}"
        shutil.copytree(first, root)
        words = [*REWRITING[name], "--store", str(root)]
        if name == "prune":  # pages refer to other runs
            for page in root.rglob("report.html"):
                page.unlink()
        left = [place]
        with monkeypatch.context() as within:
            for each in names:
                within.setattr(os, each, _ending(getattr(os, each), left))
            code = _code(*words)
        said = capfd.readouterr().err
        if left[0] >= 0:
            break
        places += 1
        assert code == 143, said
        assert "Traceback" not in said
        assert [str(path) for path in root.rglob(".*") if "removing" not in path.name] == []
        assert _code(*words) == 0
        after = _content(root)
        assert after == ({run: content[run] for run in after} if name == "prune" else content)
        assert len(after) == (1 if name == "prune" else 2)
        assert [str(path) for path in root.rglob(".*")] == []
    assert code == 0
    assert places >= 2, "no file was given its name"


def _ending(does: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """The function with a SIGTERM before it, or behind it, once so many of these places were passed."""

    def ask() -> None:
        left[0] -= 1
        if left[0] == -1:
            signal.raise_signal(signal.SIGTERM)

    def asked(*arguments: Any, **named: Any) -> Any:
        ask()
        result = does(*arguments, **named)
        ask()
        return result

    return asked
