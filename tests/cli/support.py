"""Running the command line as its users do, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tests import witnesses

SPLITBRAIN = ["-c", "from splitbrain.harness.cli.main import main; main()"]
ROOT = Path(__file__).resolve().parents[2]

OWN = """
from splitbrain.checkers.verdict import Verdict


class Mine:
    name = "mine"
    partition = "run"

    def check(self, history, options):
        return Verdict(checker="mine", valid="true", sentence="FIRST")

    def merge(self, verdicts, options):
        return next(iter(verdicts))
"""
"""The module of a checker of one's own."""


def splitbrain(*arguments: str, cwd: Path | None = None, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    done = subprocess.run(
        [sys.executable, *SPLITBRAIN, *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    witnesses.note_sentences(done.stdout)
    return done


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """Start the command."""
    return subprocess.Popen(
        [sys.executable, *SPLITBRAIN, *arguments],
        cwd=cwd,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def environment(**extra: str) -> Mapping[str, str]:
    """This process's variables, with the project importable from anywhere."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """What a command with --json answered."""
    try:
        said = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise AssertionError(f"exit {done.returncode}, no JSON: {done.stdout!r} {done.stderr!r}") from error
    witnesses.note(said)
    return said


def analyzed(stdout: str) -> list[Any]:
    """The runs in what `analyze --json` printed: a line each, and a last line of sums."""
    *runs, sums = [json.loads(line) for line in stdout.splitlines()]
    witnesses.note(runs)
    assert [each["kind"] for each in runs] == ["run"] * len(runs)
    assert (sums["kind"], sums["runs"]) == ("sums", len(runs))
    return runs


def only_run(store: Path) -> Path:
    """The folder of the store's only run."""
    [run] = store.glob("test=*/run=*")
    return run


def wait_for_ops(store: Path, *, at_least_bytes: int = 4096, timeout_s: float = 120.0) -> None:
    """Wait until a run under way has flushed some history."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if any(wal.stat().st_size >= at_least_bytes for wal in store.glob("test=*/run=*/history.wal")):
            return
        time.sleep(0.1)
    raise AssertionError("the run recorded nothing")


def processes_of(store: Path) -> list[str]:
    """Command lines of all live processes that mention the store: nodes, agents, proxies."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(store) in command and state != "Z" and int(folder.name) != os.getpid():
            found.append(command)
    return found


def kill(process: subprocess.Popen[str]) -> None:
    """End the command with SIGKILL: it cannot clean up after itself."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def lines(text: str) -> Sequence[str]:
    """Lines that are not empty."""
    return [line for line in text.splitlines() if line.strip()]


def judged(done: subprocess.CompletedProcess[str], outcome: str, exit_code: int) -> Any:
    """The answer of a run that came out as it should; what was said about it if it did not."""
    found = answer(done)
    said = [verdict["sentence"] for verdict in found["verdicts"] if verdict["valid"] is not True]
    said += [f"{reason['code']}: {reason['sentence']}" for reason in found["reasons"]]
    assert (found["outcome"], done.returncode) == (outcome, exit_code), [found["harness_error"], *said]
    return found


def comes_out(
    outcome: Literal["pass", "violation"],
    run: Callable[[Path], subprocess.CompletedProcess[str]],
    folder: Path,
    *,
    shows: Callable[[Any, Path], bool] | None = None,
    tries: int = 4,
) -> tuple[Any, Path]:
    """The answer of a run on real nodes that came out as it should, and its store.

    A machine that is busy may leave too little done for a verdict, and a bug no moment to strike. Then the run is done
    again, in another store below the folder. What is wrong, a violation where none may be, is never done again.

    Args:
        outcome: how it should come out.
        run: does it once, in a store.
        folder: where the stores are made.
        shows: whether a run that came out so, by its answer and its store, shows what is looked for. A violation may
            be of another kind: a standby that lags is found by a stale read before any failover loses a write.
        tries: how often at most. The caller asserts what the last one shows.
    """
    again = {"pass": {"inconclusive"}, "violation": {"inconclusive", "pass"}}[outcome]
    for number in range(tries):
        store = folder / f"store{number}"
        store.mkdir()
        done = run(store)
        found = answer(done)
        shown = found["outcome"] != outcome or shows is None or shows(found, store)
        if number + 1 == tries or (found["outcome"] not in again and shown):
            return judged(done, outcome, {"pass": 0, "violation": 1}[outcome]), store
    raise ValueError("tries: 1 or more")
