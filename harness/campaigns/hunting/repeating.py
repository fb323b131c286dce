"""Running some tests of a hunt again, in a process with another hash seed: they must be the same to the byte.

Real nodes are processes with hash seeds of their own. All nodes of a simulation share one: state that depends on it
(the order of a set of strings, Python's own hash) is the same on all of them, and no checker sees it.
"""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.hunting.trial import Trial, broken

HASH_SEED: Final = 0
"""Of the processes that hunt."""

OTHER_HASH_SEED: Final = 1
"""Of the process that repeats."""

KIND: Final = "not deterministic"

SHOWN_CHARS: Final = 400
"""The longest part of a line that is shown."""


NOT_COMPARED: Final = (Outcome.VIOLATION, Outcome.HARNESS_ERROR)
"""What was found in a test stays what was found, however it goes when it is run again."""


def bare(trial: Trial) -> Trial:
    """A trial without its record, which is large, and needed only to compare it."""
    return msgspec.structs.replace(trial, record=())


def compared(trial: Trial, again: Trial) -> Trial:
    """A trial, as a violation if the same test went otherwise when it was run again.

    What was found in it already stays what was found. If the harness could not run it again, that is its error.
    """
    if trial.outcome in NOT_COMPARED:
        return bare(trial)
    if again.outcome is Outcome.HARNESS_ERROR and not again.record:
        return again
    difference = _difference(trial, again)
    if difference is None:
        return _judged_alike(trial, again)
    sentence = (
        f"Not deterministic: in a process with another hash seed (PYTHONHASHSEED={OTHER_HASH_SEED}, not {HASH_SEED}) "
        f"the same test was another. First difference: {difference}"
    )
    return msgspec.structs.replace(
        bare(trial), outcome=Outcome.VIOLATION, kind=KIND, sentences=(sentence,), reason="", difference=difference
    )


def _judged_alike(trial: Trial, again: Trial) -> Trial:
    """A trial whose repetition went the same; an error of the harness if only that one was found guilty, or failed.

    The system did the same both times, so that what differs is the checkers' doing. One that had no time to end is no
    difference: how much it gets done depends on the machine.
    """
    if again.outcome not in NOT_COMPARED:
        return bare(trial)
    found = again.kind or again.harness_error or again.outcome.value
    problem = (
        f"seed {trial.options.seed}: the same history was judged otherwise in a process with another hash seed "
        f"(PYTHONHASHSEED={OTHER_HASH_SEED}, not {HASH_SEED}): {trial.outcome.value}, and there {found}."
    )
    return broken(trial.options, problem, cpu_s=trial.cpu_s, repeatable=False)


def _difference(trial: Trial, again: Trial) -> str | None:
    """The first difference: of what is recorded, else of the marks, else of the randomness that was used."""
    for one, other in itertools.zip_longest(trial.record, again.record):
        if one != other:
            return f"{_shown(one)}, and there {_shown(other)}"
    for mark in sorted({*trial.marks, *again.marks}):
        one, other = trial.marks.get(mark, 0), again.marks.get(mark, 0)
        if one != other:
            return f"the mark {mark!r} was reached {one} times, and there {other} times"
    if trial.fingerprint != again.fingerprint:
        return "the randomness that was used"
    return None


def _shown(line: bytes | None) -> str:
    return "nothing more" if line is None else line.decode(errors="replace")[:SHOWN_CHARS]
