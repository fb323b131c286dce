"""Asked to end, a command ends what it started: by Ctrl-C, by SIGTERM, by a terminal that is closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator

import pytest

from splitbrain.harness.campaigns.interrupts import Interrupts, on_interrupt
from tests.cli.support import environment

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Generator[None]:
    """Handlers as a shell's foreground job has them, and as they were at the end."""
    before = {number: signal.getsignal(number) for number in ASKING}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ASKING)
def test_whoever_asks_for_an_end_is_heard(number: signal.Signals) -> None:
    asked: list[int] = []
    before = signal.getsignal(number)
    with on_interrupt(lambda: asked.append(1)):
        signal.raise_signal(number)
        assert asked == [1]
    if number != signal.SIGHUP:
        assert signal.getsignal(number) is before


def test_a_terminal_that_is_gone_counts_once_however_often_it_says_so() -> None:
    """A shell tells its jobs, and the kernel tells them again when the shell has ended: nobody has asked twice."""
    interrupts = Interrupts()
    with interrupts.heard():
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
        assert interrupts.seen
    signal.raise_signal(signal.SIGHUP)


def test_a_hang_up_that_did_not_come_leaves_everything_as_it_was() -> None:
    with on_interrupt(lambda: None):
        assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_with_nohup_a_terminal_that_is_gone_is_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asked: list[int] = []
    with on_interrupt(lambda: asked.append(1)):
        signal.raise_signal(signal.SIGHUP)
    assert asked == []
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_what_is_printed_for_a_terminal_that_is_gone_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, ours = os.openpty()
    living, other = os.openpty()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        os.dup2(ours, 1)
        os.dup2(other, 2)
        with on_interrupt(lambda: None):
            os.close(terminal)
            with pytest.raises(OSError, match="Input/output error"):
                os.write(1, b"lost")
            signal.raise_signal(signal.SIGHUP)
            os.write(1, b"lost")
            os.write(2, b"seen")
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
    assert os.read(living, 100) == b"seen", "a terminal that is still there is printed to"
    for descriptor in (ours, living, other):
        os.close(descriptor)


def test_who_asks_for_an_end_is_answered_once_and_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    interrupts = Interrupts()
    with interrupts.heard("it ends soon"):
        signal.raise_signal(signal.SIGINT)
        assert capfd.readouterr().err == "it ends soon\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == ""


_TWICE = """
import os, signal, sys
from splitbrain.harness.cli import main as command

def interrupted(*_, **__):
    raise KeyboardInterrupt

def write_line(text):
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    print(text, file=sys.stderr)

command.splitbrain.main = interrupted
command.interrupts.write_line = write_line
command.main(["list"])
"""


def test_a_ctrl_c_that_follows_at_once_does_not_make_an_exit_code_a_death_by_signal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TWICE], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "splitbrain: interrupted\n")


def test_a_terminal_that_is_gone_stays_gone_after_contexts_within_each_other() -> None:
    with on_interrupt(lambda: None):
        with on_interrupt(lambda: None):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
