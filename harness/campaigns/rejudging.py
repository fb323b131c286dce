"""Judging that is interrupted loses nothing: the recording is kept, and the error has the command that judges it."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from splitbrain.harness.campaigns import interrupts
from splitbrain.results.errors import JudgingInterruptedError, JudgingStoppedError, RunEndedError


def command_for(run: Path) -> str:
    """The command that judges a stored run again."""
    return f"splitbrain analyze {shlex.quote(str(run))}"


@contextmanager
def advising_on_interrupt(command: str) -> Generator[None]:
    """A context for judging: an interrupt, a SIGTERM or a MemoryError becomes an error that ends with the command.

    Raises:
        JudgingInterruptedError: judging was interrupted.
        JudgingStoppedError: it had too little memory.
    """
    try:
        with interrupts.terminated_as_interrupted():
            yield
    except KeyboardInterrupt as error:
        raise JudgingInterruptedError(
            f"interrupted while judging; what was recorded is kept. {_advice(command)}"
        ) from error
    except MemoryError as error:
        raise JudgingStoppedError(
            f"memory ran out while judging; what was recorded is kept. {_advice(command)}, with more memory"
        ) from error


def with_advice(error: RunEndedError, run: Path) -> RunEndedError:
    """The error of a run that was ended at once, with the command that judges what it recorded."""
    return RunEndedError(f"{error} {_advice(command_for(run))}")


def _advice(command: str) -> str:
    return f"To judge it:  {command}"
