"""Judging that is interrupted loses nothing: the recording is kept, and the error has the command that judges it."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from splitbrain.harness.campaigns import interrupts
from splitbrain.results.errors import JudgingStoppedError, RunEndedError


def command_for(run: Path) -> str:
    """The command that judges a stored run again."""
    return f"splitbrain analyze {shlex.quote(str(run))}"


@contextmanager
def advising_on_interrupt(command: str) -> Generator[None]:
    """A context for judging: an interrupt, a SIGTERM or a MemoryError becomes an error that ends with the command.

    Raises:
        JudgingStoppedError: judging was interrupted.
    """
    try:
        with interrupts.terminated_as_interrupted():
            yield
    except KeyboardInterrupt as error:
        stopped = JudgingStoppedError(f"interrupted while judging; what was recorded is kept. {_advice(command)}")
        stopped.exit_code = interrupts.exit_code()
        raise stopped from error
    except MemoryError as error:
        raise JudgingStoppedError(
            f"memory ran out while judging; what was recorded is kept. {_advice(command)}, with more memory"
        ) from error


def with_advice(error: RunEndedError, run: Path) -> RunEndedError:
    """The error of a run that was ended at once, with the command that judges what it recorded."""
    ended = RunEndedError(f"{error} {_advice(command_for(run))}")
    ended.exit_code = interrupts.exit_code()
    return ended


def _advice(command: str) -> str:
    return f"To judge it:  {command}"
