"""Weaker models of runs that are too large to be judged by one worker: each is opened once more, by a worker.

Linearizability is judged key by key; what is asked here needs all keys together, of a history that is small enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.isolation.confined import Done
from splitbrain.checkers.isolation.judging import called, lasting
from splitbrain.checkers.isolation.limits import Limits
from splitbrain.checkers.registry import checker
from splitbrain.checkers.spark.jobs import collect
from splitbrain.checkers.stored import Ready, Unjudged
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.checkers.weaker import ROWS_MAX, too_large
from splitbrain.results.rundir import RunDir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS: Final = "number int, verdict string"
_SCHEMA: Final = pa.schema({"number": pa.int32(), "verdict": pa.string()})


class _Question(msgspec.Struct, frozen=True):
    """A violated run: its folder, the checker with its options, and the verdict as JSON."""

    path: str
    spec: CheckerSpec
    verdict: bytes


def with_weaker_models(
    spark: SparkSession, runs: Sequence[Ready], judged: Sequence[list[Verdict] | Unjudged], limits: Limits
) -> list[list[Verdict] | Unjudged]:
    """The verdicts on runs; those that one is not linearizable with what is known of weaker models.

    Raises:
        EngineError: Spark failed.
    """
    answers = [each if isinstance(each, Unjudged) else list(each) for each in judged]
    places: list[tuple[int, int]] = []
    questions: list[bytes] = []
    for place, (run, verdicts) in enumerate(zip(runs, answers, strict=True)):
        if isinstance(verdicts, Unjudged):
            continue
        for position, (spec, verdict) in enumerate(zip(run.specs, verdicts, strict=True)):
            if verdict.valid != "false" or not engine.is_linearizability(checker(spec.name)):
                continue
            if run.rows > ROWS_MAX:
                verdicts[position] = too_large(verdict)
                continue
            places.append((place, position))
            path = str(run.run.path.absolute())
            questions.append(msgspec.json.encode(_Question(path, spec, engine.encode(verdict))))
    if not questions:
        return answers
    tasks = min(len(questions), spark.sparkContext.defaultParallelism)
    asked = spark.range(0, len(questions), 1, tasks).mapInArrow(partial(_answer, questions, limits), _ROWS)
    rows: list[Any] = collect(asked, len(questions))
    for row in rows:
        place, position = places[int(row["number"])]
        found = answers[place]
        assert not isinstance(found, Unjudged)
        found[position] = engine.decode(row["verdict"])
    return answers


# --- on the workers -------------------------------------------------------------------------------------------------


def _answer(questions: list[bytes], limits: Limits, batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of `_ROWS` on the questions whose numbers arrive."""
    for batch in batches:
        numbers: list[int] = batch.column(0).to_pylist()
        for number in numbers:
            ended = called(lasting(limits), "asking for weaker models", _found, questions[number])
            if isinstance(ended, Done):
                found = ended.answer
            else:
                asked = msgspec.json.decode(questions[number], type=_Question)
                known = engine.decode(asked.verdict)
                found = engine.encode(engine.stopped(known.checker, ended.why, ended.details, known))
            yield from pa.table({"number": [number], "verdict": [found.decode()]}, _SCHEMA).to_batches()


def _found(question: bytes) -> bytes:
    """The verdict with what is known of weaker models."""
    asked = msgspec.json.decode(question, type=_Question)
    verdict, each = engine.decode(asked.verdict), checker(asked.spec.name)
    history = engine.in_order(RunDir(Path(asked.path)).history())
    return engine.encode(engine.with_weaker_models(verdict, each, asked.spec, history))
