"""Reads that saw writes: a run whose reads only ever found the initial state proves nothing of its writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from splitbrain.checkers.coverage.calls import Asked
from splitbrain.checkers.coverage.options import Options
from splitbrain.results.calls import Bools
from splitbrain.results.reasons import Code, Reason

_NOTHING: Final = (None, "null", "[]", "{}")
"""What a read answers where nothing was ever written, whatever the model."""

_BLANK: Final = ("false", "0", "0.0", '""')
"""What it may answer as well, unless a client wrote it."""

SEEN_MIN: Final = 3
"""So many reads must have seen a write; fewer where there are few reads: one of `ONE_OF`."""

ONE_OF: Final = 4

_ADVICE: Final = "Give it a longer --time-limit, so that reads come after writes, or more writes."


def of_reads(asked: Asked, wanted: Options, fs: Sequence[str]) -> Iterator[Reason]:
    """Functions that read, and of which too few ops, or none after all faults, saw what a client had written."""
    reads = [f for f in fs if wanted.is_read(f)]
    if not reads or len(reads) == len(fs):
        return  # nothing is written, as far as these functions tell
    written = _written(asked, reads)
    for f in reads:
        of_f = asked.are(f) & asked.ok
        answers = asked.told(of_f)
        seen, least = _seen(answers, answers, written), floor(len(answers))
        if answers and seen < least:
            yield Reason(
                Code.READS_SAW_NOTHING,
                f"{seen or 'none'} of {len(answers)} ok ops of {f!r} saw what a client wrote, at least {least} must.",
                _ADVICE,
            )
            continue
        last = asked.told(of_f & asked.final)
        if last and not _seen(last, answers, written):
            yield Reason(
                Code.READS_SAW_NOTHING,
                f"none of {len(last)} ok ops of {f!r} after all faults saw what a client wrote.",
                _ADVICE,
            )


def floor(reads: int) -> int:
    """Of so many ok reads, how many must have seen a write."""
    return min(SEEN_MIN, -(-reads // ONE_OF))


def _seen(answers: Sequence[str | None], every: Sequence[str | None], written: frozenset[str]) -> int:
    """How many of the answers are there because of a write.

    A single answer that never changes in all that reads told, and that no client wrote, is an initial state.
    """
    telling = [answer for answer in answers if answer not in _NOTHING and (answer not in _BLANK or answer in written)]
    one = telling[0] if telling else None
    if one is not None and len(set(every)) == 1 and not _holds_more(one) and one not in written:
        return 0
    return len(telling)


def _holds_more(answer: str) -> bool:
    """Whether a JSON text is a list or an object: something that writes add to."""
    return answer[:1] in ("[", "{")


def _written(asked: Asked, reads: Sequence[str]) -> frozenset[str]:
    """The values that ops which do not read were given, and those in their lists, as JSON text."""
    chosen: Bools = ~asked.are(reads[0])
    for f in reads[1:]:
        chosen &= ~asked.are(f)
    found: set[str] = set()
    for value in asked.given(chosen):
        if value is None:
            continue
        found.add(value)
        if value.startswith("["):
            listed = cast("list[Any]", msgspec.json.decode(value))
            found.update(msgspec.json.encode(each).decode() for each in listed)
    return frozenset(found)
