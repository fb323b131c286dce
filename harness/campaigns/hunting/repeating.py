"""Running some tests of a hunt again, in a process with another hash seed: they must be the same to the byte.

Real nodes are processes with hash seeds of their own. All nodes of a simulation share one: state that depends on it
(the order of a set of strings, Python's own hash) is the same on all of them, and no checker sees it.
"""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.hunting.trial import Trial

HASH_SEED: Final = 0
"""Of the processes that hunt."""

OTHER_HASH_SEED: Final = 1
"""Of the process that repeats."""

KIND: Final = "not deterministic"

SHOWN_CHARS: Final = 400
"""The longest part of a line that is shown."""


def compared(trial: Trial, again: Trial) -> Trial:
    """A trial, as a violation if the same test went otherwise when it was run again.

    What was found in it already stays what was found. If the harness could not run it again, that is its error.
    """
    bare = msgspec.structs.replace(trial, record=())
    if trial.outcome in (Outcome.VIOLATION, Outcome.HARNESS_ERROR):
        return bare
    if again.outcome is Outcome.HARNESS_ERROR and not again.record:
        return again
    difference = _difference(trial, again)
    if difference is None:
        return bare
    sentence = (
        f"Not deterministic: in a process with another hash seed (PYTHONHASHSEED={OTHER_HASH_SEED}, not {HASH_SEED}) "
        f"the same test was another. First difference: {difference}"
    )
    return msgspec.structs.replace(
        bare, outcome=Outcome.VIOLATION, kind=KIND, sentences=(sentence,), reason="", difference=difference
    )


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
