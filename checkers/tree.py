"""What ops on trees came to (model `tree`): a run in which some of it never happened proves nothing of that.

    changed      a put that changed something      unchanged  one that found its payload there already
    refused      a write whose condition did not hold, or whose node was not there
    unkept       a put that was refused, because what was to keep its node did not hold
    removed      a node that an op removed         cascaded   one that went because nothing kept it any more
    committed    a transaction that was carried out           aborted    one that was not
    seen         a node in an answer to a read

This checker never finds a violation: `linearizable` judges the answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import Calls, cell, client_calls, shaped
from splitbrain.results.errors import UsageError
from splitbrain.results.reasons import Code, Reason

OUTCOMES: Final = (
    "changed",
    "unchanged",
    "refused",
    "unkept",
    "removed",
    "cascaded",
    "committed",
    "aborted",
    "seen",
)
FLOOR: Final = 2
"""Of each: one may be luck."""

_Changed: TypeAlias = tuple[str, list[tuple[Any, Any, Any, Any, str | None]]]
"""The answer of an op that changed nodes."""

_Put: Final[Any] = Annotated[list[Any], msgspec.Meta(min_length=2)]
"""What is put: a path, a payload, and further conditions."""

_LARGE: Final = 400
"""Ops of a run from which on each outcome is expected: in a shorter one some are rare."""


class TreeOutcomes(OfOneRun):
    """Counts what ops on trees came to; it has no options."""

    name = "tree"
    partition: Partition = "run"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return ("get", "list", "txn", "put", "delete")

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Count what the ops of one run came to.

        Raises:
            UsageError: there is an option.
            HistoryFormatError: an answer has no nodes where it should.
        """
        if options:
            raise UsageError(f"checker tree takes no options, not {', '.join(sorted(options))}.")
        calls = client_calls(history)
        counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        answered = 0
        for f, value, result in _answers(calls):
            answered += 1
            counts.update(_outcomes(f, value, result))
        missing = [outcome for outcome in OUTCOMES if counts[outcome] < FLOOR]
        figures = {"answered": answered, **counts}
        said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        if not missing:
            praise = f"Ops on trees came to all they can: {said}."
            return Verdict(checker=self.name, valid="true", algorithm="counting", sentence=praise, figures=figures)
        sentence = f"Too little of what ops on trees can come to was seen: {said}."
        advice = "Run longer, or with more clients." if answered < _LARGE else "Run with fewer faults."
        reason = Reason(Code.NOT_EXERCISED, sentence, advice)
        return Verdict(
            checker=self.name,
            valid="unknown",
            algorithm="counting",
            sentence=sentence,
            inconclusive=(reason,),
            figures=figures,
        )


def _answers(calls: Calls) -> Iterator[tuple[str, Any, Any]]:
    """Function, value and result of every op that was ok.

    Raises:
        HistoryFormatError: an answer has no nodes where it should.
    """
    ok = calls.ended("ok")
    for invoked, completed in zip(calls.invoke[ok].tolist(), calls.complete[ok].tolist(), strict=True):
        f = cell(calls.table, "f", invoked)
        value, result = (cell(calls.table, "value", row) for row in (invoked, completed))
        if f in ("put", "delete") and isinstance(result, list) and result[:1] == ["ok"]:
            shaped(calls.table, completed, _Changed)
            if f == "put":
                shaped(calls.table, invoked, _Put)
        yield f, value, result


def _outcomes(f: str, value: Any, result: Any) -> Iterator[str]:
    match f, result:
        case "get", [*_]:
            yield "seen"
        case "list", [_, *_]:
            yield "seen"
        case "txn", ["ok", *_]:
            yield "committed"
        case "txn", _:
            yield "aborted"
        case (("put" | "delete"), ["ok", nodes]):
            yield from _of_nodes(value, nodes)
        case "put", ["keep_while_conditions_not_met"]:
            yield "unkept"
        case "put", _:
            yield "refused"
        case _:
            return


def _of_nodes(value: Any, nodes: Any) -> Iterator[str]:
    for _, payload, _, _, reason in nodes:
        if reason is not None:
            yield "removed" if reason == "explicit" else "cascaded"
        else:
            yield "unchanged" if payload == value[1] else "changed"
