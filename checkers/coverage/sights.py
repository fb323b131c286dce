"""Reads that saw writes: if all reads found the initial state, the run proves nothing about its writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from splitbrain.checkers.coverage.calls import ClientOps
from splitbrain.checkers.coverage.options import Options
from splitbrain.results.calls import Bools
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

_NOTHING: Final = (None, "null", "[]", "{}")
"""Values of reads where nothing was ever written, in every model."""

_BLANK: Final = ("false", "0", "0.0", '""')
"""Values that may be initial states as well, unless a client wrote them."""

SEEN_MIN: Final = 3
"""The least number of reads that must have seen a write; if there are few reads, one in `ONE_OF`."""

ONE_OF: Final = 4

_ADVICE: Final = "Give it a longer --time-limit, so that reads come after writes, or more writes."


def of_reads(ops: ClientOps, wanted: Options, fs: Sequence[str]) -> Iterator[Reason]:
    """A reason for each read function of which too few ops, or none after all faults, saw a client's write."""
    reads = [f for f in fs if wanted.is_read(f)]
    if not reads or len(reads) == len(fs):
        return  # none of these functions writes
    written = _written(ops, reads)
    for f in reads:
        of_f = ops.are(f) & ops.ok
        answers = ops.answered_values(of_f)
        seen, least = _seen(answers, answers, written), floor(len(answers))
        if answers and seen < least:
            yield Reason(
                Code.READS_SAW_NOTHING,
                f"{seen or 'none'} of {counted(len(answers), 'ok op')} of {f!r} saw a client's write; at least "
                f"{least} must.",
                _ADVICE,
            )
            continue
        last = ops.answered_values(of_f & ops.final)
        if last and not _seen(last, answers, written):
            yield Reason(
                Code.READS_SAW_NOTHING,
                f"none of {counted(len(last), 'ok op')} of {f!r} after all faults saw a client's write.",
                _ADVICE,
            )


def floor(reads: int) -> int:
    """How many of these ok reads must have seen a write."""
    return min(SEEN_MIN, -(-reads // ONE_OF))


def _seen(answers: Sequence[str | None], every: Sequence[str | None], written: frozenset[str]) -> int:
    """How many of the answers show a write.

    If all reads return one value, and no client wrote it, it is an initial state.
    """
    shown = [answer for answer in answers if answer not in _NOTHING and (answer not in _BLANK or answer in written)]
    one = shown[0] if shown else None
    if one is not None and len(set(every)) == 1 and not _holds_more(one) and one not in written:
        return 0
    return len(shown)


def _holds_more(answer: str) -> bool:
    """Whether a JSON text is a list or an object: something that writes add to."""
    return answer[:1] in ("[", "{")


def _written(ops: ClientOps, reads: Sequence[str]) -> frozenset[str]:
    """The values of ops that do not read, and the items of lists among them, as JSON text."""
    chosen: Bools = ~ops.are(reads[0])
    for f in reads[1:]:
        chosen &= ~ops.are(f)
    found: set[str] = set()
    for value in ops.given(chosen):
        if value is None:
            continue
        found.add(value)
        if value.startswith("["):
            listed = cast("list[Any]", msgspec.json.decode(value))
            found.update(msgspec.json.encode(each).decode() for each in listed)
    return frozenset(found)
