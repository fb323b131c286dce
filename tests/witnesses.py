"""No test passes in which the checkers of transactions found a witness that does not prove what it says.

The checkers verify every witness by functions that share no code with the search (`verify`, `weak.verify`,
`predicates.verify`), leave out those that fail, and say so in the evidence. A test of something else could overlook
that. So what they say is noted wherever this process sees it: where a history is judged here, where a verdict comes
from another process (Spark's workers, the store), and in what a command printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

_UNVERIFIED: Final[list[str]] = []

_UNPROVEN: Final = re.compile(r"could not be verified: (.+)")
"""How the checker of transactions says it in a sentence."""


def noted() -> list[str]:
    """What was wrong with witnesses since this was asked last."""
    found = list(_UNVERIFIED)
    _UNVERIFIED.clear()
    return found


def watch() -> None:
    """Note from now on what is wrong with witnesses, if this process has loaded checkers."""
    if not any(name.startswith("splitbrain.checkers") for name in sys.modules):
        return
    from splitbrain.checkers import engine
    from splitbrain.checkers.transactions import report

    if getattr(watch, "done", False):
        return
    watch.done = True  # pyright: ignore[reportFunctionMemberAccess]
    made, decode = report.Judged.__init__, engine.decode

    def noted(self: report.Judged, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        _UNVERIFIED.extend(self.unverified)

    def decoded(*args: Any) -> Any:
        verdict = decode(*args)
        note(verdict.evidence)
        return verdict

    report.Judged.__init__ = noted
    engine.decode = decoded


def note(answer: Any) -> None:
    """Note what some evidence, or an answer with verdicts, says of witnesses."""
    _UNVERIFIED.extend(_said(answer))


def note_sentences(printed: str) -> None:
    """Note what a command said to a reader; what it prints as JSON is noted where it is decoded."""
    if not printed.startswith(("{", "[")):
        _UNVERIFIED.extend(_UNPROVEN.findall(printed))


def _said(answer: Any) -> Iterator[str]:
    if isinstance(answer, Mapping):
        for name, part in cast("Mapping[str, Any]", answer).items():
            if name == "unverified" and isinstance(part, list):
                yield from map(str, cast("list[Any]", part))
            else:
                yield from _said(part)
    elif isinstance(answer, (list, tuple)):
        for part in cast("list[Any]", answer):
            yield from _said(part)
