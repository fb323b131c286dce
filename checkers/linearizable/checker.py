"""The checker "linearizable": per key, ops take effect one at a time, each between its call and its return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import models
from splitbrain.checkers.kernels import cpu_s
from splitbrain.checkers.linearizable.judging import ANOMALY, Judging
from splitbrain.checkers.linearizable.limits import Clock
from splitbrain.checkers.linearizable.options import NAME, read_options
from splitbrain.checkers.long_histories import LongHistory
from splitbrain.checkers.models import Model
from splitbrain.checkers.turns import Task, judge_in_turns
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

KEYS_SHOWN: Final = 100

_NOTHING_OK: Final = Reason(
    Code.NOTHING_OK, "No op was acknowledged: no client saw anything that could have been wrong."
)

_NOTHING_SAID: Final = Reason(
    Code.NOT_EXERCISED,
    "No acknowledged op could have been wrong: none says what it found, as a read does.",
    "Let clients read what they write.",
)


class Linearizable:
    """Linearizability (Herlihy and Wing 1990), key by key (it is local), against a sequential model."""

    name = NAME
    partition: Partition = "key"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one key, or of a history without keys.

        Raises:
            UsageError: an option is wrong, the model does not know an op, or a model of one's own failed.
            HistoryFormatError: completions do not fit invocations.
        """
        task = self.begin(history, options)
        return judge_in_turns([task], _raised)[0]

    def begin(self, history: pa.Table | LongHistory, options: Mapping[str, Any], clock: Clock = cpu_s) -> Judging:
        """The judging of the ops of one key, in turns with those of others.

        Raises:
            UsageError: an option is wrong.
        """
        chosen = read_options(options)
        return Judging(history, models.model(chosen.model), chosen, clock)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """Violated if any key is, with the sentence of the key that failed first; else unknown if any key is.

        Raises:
            UsageError: an option is wrong.
        """
        model = read_options(options).model
        parts = list(verdicts)
        failing = sorted((part for part in parts if part.valid == "false"), key=_failed_at)
        unknown = [part for part in parts if part.valid == "unknown"]
        figures = _sum(parts)
        seconds = sum(part.seconds for part in parts)
        if failing:
            least = "At least " if unknown else ""
            several = len(failing) > 1 or unknown
            are = "are" if len(failing) > 1 else "is"
            more = f" {least}{len(failing)} of {len(parts)} keys {are} not linearizable." if several else ""
            if unknown:
                more += f" {len(unknown)} {'was' if len(unknown) == 1 else 'were'} not judged to the end."
            return Verdict(
                checker=self.name,
                valid="false",
                algorithm=_algorithms(failing),
                anomalies=(ANOMALY,),
                seconds=seconds,
                sentence=failing[0].sentence + more,
                figures=figures,
                evidence={
                    **failing[0].evidence,
                    "failing_keys": [part.key for part in failing[:KEYS_SHOWN]],
                    "failing_keys_count": len(failing),
                    "undecided_keys": [part.key for part in unknown[:KEYS_SHOWN]],
                    "undecided_keys_count": len(unknown),
                },
            )
        if unknown:
            more = f" {len(unknown)} of {len(parts)} keys are undecided." if len(unknown) > 1 else ""
            sentence = unknown[0].sentence + more
            first = unknown[0].inconclusive[0]
            return Verdict(
                checker=self.name,
                valid="unknown",
                inconclusive=(Reason(first.code, sentence, first.advice),),
                algorithm=_algorithms(unknown),
                seconds=seconds,
                figures=figures,
                sentence=sentence,
                evidence={
                    **unknown[0].evidence,
                    "undecided_keys": [part.key for part in unknown[:KEYS_SHOWN]],
                    "undecided_keys_count": len(unknown),
                },
            )
        keys = f"{len(parts)} {'key' if len(parts) == 1 else 'keys'}"
        return Verdict(
            checker=self.name,
            valid="true",
            algorithm=_algorithms(parts),
            seconds=seconds,
            figures=figures,
            sentence=f"Linearizable as a {model}: {keys}, {counted(figures['ops'], 'op')}.",
            inconclusive=_untested(parts, figures),
        )


def check_ops(ops: Sequence[Op], model: Model | str, **options: Any) -> Verdict:
    """Judge a history, key by key.

    Args:
        ops: the history; ops of negative processes are left out.
        model: the model, or its name.
        options: as `Options`, without the model.

    Raises:
        UsageError, HistoryFormatError: as `Linearizable.check`, and no other key is violated.
    """
    instance = models.model(model) if isinstance(model, str) else model
    chosen = read_options({**options, "model": instance.name})
    by_key: dict[str | None, list[Op]] = {}
    for index, op in enumerate(ops):
        if op.process >= 0:
            by_key.setdefault(op.key, []).append(op if op.index >= 0 else msgspec.structs.replace(op, index=index))
    tasks = [Judging(to_table(of_key), instance, chosen, cpu_s) for of_key in by_key.values()]
    wrong: list[UsageError] = []

    def broke(task: Task, error: Exception) -> Verdict:
        if not isinstance(error, UsageError):
            raise error
        wrong.append(error)
        return Verdict(checker=NAME, valid="unknown", key=task.key, sentence=f"Not judged: {error}")

    verdicts = judge_in_turns(tasks, broke, memory_bytes=chosen.memory_limit_mb << 20)
    if len(verdicts) == 1 and not wrong:
        return verdicts[0]
    merged = Linearizable().merge(verdicts, {**options, "model": instance.name})
    if wrong and merged.valid != "false":
        raise wrong[0]
    beside = "".join(f" Not judged: {error}" for error in wrong[:1])
    return msgspec.structs.replace(merged, sentence=f"{merged.sentence}{beside}")


def _raised(_: Task, error: Exception) -> Verdict:
    raise error


def _untested(parts: Iterable[Verdict], figures: Mapping[str, Any]) -> tuple[Reason, ...]:
    """Why keys of which none is violated prove nothing; nothing if they do."""
    if figures["judged"] <= figures["crashed"]:
        return (_NOTHING_OK,)
    return () if any(part.figures.get("exercised", 1) for part in parts) else (_NOTHING_SAID,)


def _algorithms(parts: Iterable[Verdict]) -> str:
    """Who judged, over all keys."""
    return ", ".join(sorted({part.algorithm for part in parts if part.algorithm}))


def _sum(parts: Sequence[Verdict]) -> dict[str, Any]:
    """Figures of a run from those of its keys."""
    figures: dict[str, Any] = {"keys": len(parts)}
    for name in ("ops", "judged", "crashed", "expanded"):
        figures[name] = sum(part.figures.get(name, 0) for part in parts)
    for name in ("frontier_max", "concurrency_max"):
        figures[name] = max((part.figures.get(name, 0) for part in parts), default=0)
    return figures


def _failed_at(verdict: Verdict) -> int:
    return verdict.evidence["prefix"]["last_index"]
