"""Ops of functions that a checker does not know: how many of which, in words, and whether anything was left to judge.

Several checkers may judge one history, each some functions of it. So ops that one of them leaves out are named, and do
not make its verdict inconclusive; only where it leaves out all of them, it has judged nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.verdict import Verdict
from splitbrain.results.columns import codes, numbers
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

NOT_JUDGED: Final = "not_judged"
"""The figure of a verdict: by function, how many ops were left out."""

_OF_PART: Final = "not judged of this part"
"""The same of a verdict on a part, on its way to that on the run. No checker has a figure of this name."""

_NAMED: Final = 3
_CHARS: Final = 40

_ADVICE: Final = "Choose the checker of this workload, or give the names of its functions as options, where it has any."

Counts: TypeAlias = Mapping[str, int]
"""Numbers of ops by function."""


@runtime_checkable
class OfFunctions(Protocol):
    """A checker of the ops of some functions. One that judges all, refuses others or judges none need not be one."""

    def functions(self, options: Mapping[str, Any], /) -> Collection[str]:
        """The functions of the ops that are judged with these options."""
        ...


def calls_by_function(history: pa.Table) -> dict[str, int]:
    """How many ops of each function clients invoked."""
    f, names = codes(history.column("f"))
    types, kinds = codes(history.column("type"))
    invokes = types == (kinds.index("invoke") if "invoke" in kinds else -1)
    counts = np.bincount(f[invokes & (numbers(history.column("process")) >= 0)], minlength=len(names)).tolist()
    return {str(name): count for name, count in zip(names, counts, strict=True) if count}


def words(others: Counts) -> str:
    """That ops of some functions are not judged, as a sentence."""
    ranked = sorted(others.items(), key=lambda each: (-each[1], each[0]))
    (first, count), *rest = ranked
    said = [f"{counted(count, 'op')} of the function {_named(first)}"]
    said += [f"{count} of {_named(f)}" for f, count in rest[: _NAMED - 1]]
    if more := rest[_NAMED - 1 :]:
        said.append(f"{sum(count for _, count in more)} of {counted(len(more), 'other function')}")
    are = "is" if sum(others.values()) == 1 else "are"
    return f"{', '.join(said[:-1])}{' and ' if said[1:] else ''}{said[-1]} {are} not judged by this checker."


def _named(f: str) -> str:
    return repr(f if len(f) <= _CHARS else f"{f[:_CHARS]}...")


def of_part(checker: Any, options: Mapping[str, Any], verdict: Verdict, history: pa.Table) -> Verdict:
    """A checker's verdict on a part of a history, with what it left out of it: `merged` makes that known."""
    if not isinstance(checker, OfFunctions) or not callable(checker.functions):  # a plug-in may have its own such name
        return verdict
    calls, known = calls_by_function(history), checker.functions(options)
    others = {f: count for f, count in calls.items() if f not in known}
    if not others:
        return verdict
    kept = {"ops": others, "judged": sum(calls.values()) - sum(others.values())}
    return msgspec.structs.replace(verdict, figures={**verdict.figures, _OF_PART: kept})


def plain(parts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts on parts as their checker gave them."""
    return [
        msgspec.structs.replace(part, figures={name: value for name, value in part.figures.items() if name != _OF_PART})
        if _OF_PART in part.figures
        else part
        for part in parts
    ]


def merged(verdict: Verdict, parts: Sequence[Verdict]) -> Verdict:
    """The verdict on a run with what was left out of its parts; inconclusive if nothing else was there."""
    others, judged = Counter[str](), False
    for part in parts:
        kept = cast("dict[str, Any] | None", part.figures.get(_OF_PART))
        others.update({} if kept is None else kept["ops"])
        judged = judged or kept is None or kept["judged"] > 0
    return with_others(verdict, others, nothing_else=not judged) if others else verdict


def with_others(verdict: Verdict, others: Counts, *, nothing_else: bool, advice: str = _ADVICE) -> Verdict:
    """The verdict, which says how many ops are not judged.

    Args:
        verdict: on the others; if it is a violation, its sentence is about that alone.
        others: the ops, at least one.
        nothing_else: whether they make the verdict inconclusive, unless it is a violation.
        advice: what to do about them then.
    """
    figures = {**verdict.figures, NOT_JUDGED: dict(sorted(others.items()))}
    if verdict.valid == "false":
        return msgspec.structs.replace(verdict, figures=figures)
    said = words(others)
    reasons = (Reason(Code.NOT_JUDGED, said, advice), *verdict.inconclusive) if nothing_else else verdict.inconclusive
    sentence = f"{verdict.sentence} {said}".strip()
    return msgspec.structs.replace(verdict, sentence=sentence, inconclusive=reasons, figures=figures)
