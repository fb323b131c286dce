"""`splitbrain check`: judge history files."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import click
import msgspec

from splitbrain.harness.cli import completing, counterexample, options, parsing
from splitbrain.results.errors import (
    DamagedRunError,
    HarnessError,
    HistoryFormatError,
    SplitbrainError,
    UnknownNameError,
    UsageError,
)
from splitbrain.results.quantities import counted
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.checkers.isolation.confined import Confined, Say
    from splitbrain.checkers.isolation.errors import Carried
    from splitbrain.checkers.long_histories import LongHistory
    from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict
    from splitbrain.harness.cli.steps import Steps
    from splitbrain.results.formats.rows import Independent
    from splitbrain.results.summarized import SummarizedHistory

    History: TypeAlias = pa.Table | LongHistory | SummarizedHistory


WORKLOADS: Final = ("list-append", "rw-register", "closed-predicate")
"""Checkers of transactions, which have the names of their workloads."""

JUDGED_BY_ORACLE: Final = ("list-append", "rw-register")
"""Workloads that elle-cli judges too."""

ASSUMPTIONS: Final = ("sequential-keys", "linearizable-keys", "wfr-keys")

MEMORY_MAX_MB: Final = 1 << 30
"""A petabyte: more than any machine has."""


@click.command("check", cls=parsing.Command)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    shell_complete=completing.run,
)
@click.option(
    "--checker",
    "checker_name",
    default="linearizable",
    show_default=True,
    metavar="NAME",
    help="The checker (splitbrain list checkers).",
    shell_complete=completing.one(completing.parts("checkers")),
)
@click.option(
    "--model",
    default="cas-register",
    show_default=True,
    metavar="NAME|MODULE:CLASS",
    help="For linearizable: the model of a correct object (splitbrain list models).",
    shell_complete=completing.one(completing.parts("models")),
)
@click.option(
    "--workload",
    type=click.Choice(WORKLOADS),
    default=None,
    help="For transactions: what they do; names the checker.",
)
@click.option(
    "--consistency-model",
    default="strict-serializable",
    show_default=True,
    metavar="NAME,...",
    help="For transactions: the consistency models that the history should satisfy.",
    shell_complete=completing.several(completing.parts("consistency models")),
)
@click.option(
    "--assume",
    default=None,
    metavar="NAME,...",
    help="For rw-register: what else orders versions: sequential-keys, linearizable-keys, wfr-keys.",
)
@options.history_format
@options.independent
@click.option(
    "--time-limit",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For linearizable: the limit of CPU seconds for each key; a key that is not decided by then is unknown.",
)
@click.option(
    "--memory-limit",
    type=int,
    default=1024,
    show_default=True,
    metavar="MB",
    help="For linearizable: the memory limit for each key; a key that needs more is unknown.",
)
@click.option(
    "--witness-time",
    type=float,
    default=None,
    metavar="SECONDS",
    help="For linearizable: CPU seconds to minimize the evidence of a violation, within the limit.  "
    "[default: as many as the verdict took; at least 0.5, at most 2]",
)
@click.option(
    "--oracle",
    type=click.Choice(["elle-cli"]),
    default=None,
    help="With --workload: let elle-cli judge the history, too, and show where it differs. SPLITBRAIN_ELLE_CLI names "
    "its jar.",
)
@options.limits
@counterexample.option
@click.option("--no-picture", is_flag=True, help="No picture, as without --picture; for scripts.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    checker_name: str,
    model: str,
    workload: str | None,
    consistency_model: str,
    assume: str | None,
    format_name: str | None,
    independent: Independent,
    time_limit: float,
    memory_limit: int,
    witness_time: float | None,
    oracle: str | None,
    checker_time: float | None,
    checker_memory: int | None,
    picture: str | None,
    no_picture: bool,
    as_json: bool,
) -> None:
    """Judge history files: is what clients saw allowed?

    A FILE is a history in one of the formats, the folder of a stored run or its address, or - for standard input. If a
    file cannot be judged, or its checker breaks or needs more than its limits, the others still are judged.

    \b
    Examples:
      splitbrain check store/test=*/run=*/history.parquet
      splitbrain check --model cas-register history.edn
      splitbrain check --format porcupine --model kv c10-ok.txt
      splitbrain check --checker set history.jsonl
      splitbrain check --workload list-append --consistency-model snapshot-isolation history.edn
    """
    from splitbrain.checkers.isolation.confined import Confined
    from splitbrain.checkers.verdict import CheckerSpec, worst
    from splitbrain.harness.cli.histories import refuse_missing
    from splitbrain.harness.cli.steps import Steps

    # Objects imported so far live until the end. The interpreter must not free them at exit: that would take a tenth of
    # the check of a small history. A user's own models are imported later and are not affected.
    gc.freeze()
    if no_picture and picture is not None:
        raise UsageError("--picture and --no-picture exclude each other: remove one of them.")
    limits = options.limits_of(checker_time, checker_memory)
    refuse_missing(files, format_name, independent)
    checker_name = _checker(ctx, checker_name, workload)
    _refuse_settings(ctx, checker_name)
    pictures = None if picture is None else counterexample.Pictures(picture, files)
    settings: dict[str, Any] = {
        "model": model,
        "time_limit_s": time_limit,
        "memory_limit_mb": memory_limit,
        "witness_time_s": witness_time,
    }
    if checker_name in WORKLOADS:
        settings = _isolation(consistency_model, assume)
    other, missing = _oracle(oracle, checker_name)
    spec = CheckerSpec(checker_name, settings if checker_name in ("linearizable", *WORKLOADS) else {})
    asked = _Asked(spec, format_name, independent, other, consistency_model, pictures)
    outcomes: list[Outcome] = []
    rows: list[Mapping[str, Any]] = []
    problems: list[SplitbrainError] = []
    with Steps(len(files)) as steps, Confined(asked.answer, limits) as by:
        for file in files:
            try:
                found = _answered(by, file, spec.name, steps)
            except UnknownNameError:
                raise
            except SplitbrainError as error:
                problems.append(error)
                rows.append({"file": file, "error": str(error)})
                with steps.aside():
                    click.echo(f"splitbrain: {_located(file, error)}", err=True)
                continue
            outcomes.append(found.outcome)
            rows.append(found.row)
            if not as_json:
                with steps.aside():
                    _print(file, found.verdict, found.row["picture"], asked=pictures is not None)
                    for line in _said(found.row):
                        click.echo(f"        {line}")
            problems += _unanswered(found.row)
    if as_json:
        click.echo(msgspec.json.format(encoded(rows)).decode())
    if missing is not None:
        problems.append(missing)
        click.echo(f"splitbrain: {missing}", err=True)
    ctx.exit(_exit_code(worst(outcomes), problems))


class _Answer(msgspec.Struct, frozen=True):
    """What is to be said of a file: its verdict, and its row of the JSON answer."""

    verdict: Verdict
    row: dict[str, Any]

    @property
    def outcome(self) -> Outcome:
        from splitbrain.checkers.engine import judged_outcome

        return judged_outcome([self.verdict])[0]


class _Known(msgspec.Struct, frozen=True):
    """The verdict on a file, and its sizes, before a picture is drawn or another checker asked."""

    verdict: bytes
    sizes: dict[str, int]


@dataclass(frozen=True)
class _Asked:
    """What is asked of every file. Files are read and judged in a process of their own, which may die of it."""

    spec: CheckerSpec
    format_name: str | None
    independent: Independent
    oracle: list[str] | None
    models: str
    pictures: counterexample.Pictures | None

    def answer(self, file: str, say: Say) -> dict[str, Any] | Carried:
        """What the row of a file says besides its verdict; or the error that keeps it from one."""
        from splitbrain.checkers import engine
        from splitbrain.checkers.isolation.errors import Carried

        try:
            say.step(f"reading {file}")
            whole = self.oracle is not None
            history = _read(file, self.format_name, self.independent, self.spec.name, whole=whole)
            telemetry = _telemetry(file)
            say.step(f"{_JUDGING} {file}, {counted(_rows(history), 'row')}")
            verdict = _judged(history, self.spec, telemetry)
            say.found(_Known(engine.encode(verdict), {"ops": _ops(history), "rows": _rows(history)}))
            say.step(f"comparing the verdict on {file}")
            compared = _compared(self.oracle, history, verdict, self.models)
            say.step(f"drawing {file}")
            drawn = self.pictures.draw(file, history, verdict) if self.pictures is not None else None
        except SplitbrainError as error:
            return Carried.of(error)
        return {"picture": drawn, **compared}


_JUDGING: Final = "judging"
_UNANSWERED: Final = "oracle_problem"


def _answered(by: Confined[str, Any], file: str, checker_name: str, steps: Steps) -> _Answer:
    """What is to be said of a file.

    Raises:
        SplitbrainError: it cannot be judged.
    """
    from splitbrain.checkers import engine
    from splitbrain.checkers.isolation.confined import Stopped
    from splitbrain.checkers.isolation.errors import Carried
    from splitbrain.results.judgement import plain_verdict

    known: list[_Known] = []
    begun: list[str] = []

    def stepped(step: str) -> None:
        steps.describe(step) if begun else steps.enter(step)
        begun.append(step)

    ended = by.do(file, known.append, stepped)
    verdict = engine.decode(known[0].verdict) if known else None
    more: dict[str, Any] = {"picture": None}
    if isinstance(ended, Stopped):
        if verdict is None and not ended.step.startswith(_JUDGING):
            raise DamagedRunError(f"{file}: the process that was {ended.step} {ended.why}.")
        verdict = engine.stopped(checker_name, ended.why, ended.details, verdict)
    elif isinstance(ended.answer, Carried):
        raise ended.answer.error()
    else:
        more = ended.answer
    assert verdict is not None
    sizes = known[0].sizes if known else {}
    return _Answer(verdict, {"file": file, **sizes, **plain_verdict(verdict), **more})


def _checker(ctx: click.Context, checker_name: str, workload: str | None) -> str:
    """The checker, which a workload of transactions names too.

    Raises:
        UsageError: both are given, and differ.
    """
    if workload is None or workload == checker_name:
        return checker_name
    if options.given(ctx, "checker_name"):
        raise UsageError(f"--checker {checker_name} and --workload {workload} exclude each other: remove one of them.")
    return workload


def _isolation(consistency_model: str, assume: str | None) -> dict[str, Any]:
    """The options of a checker of transactions.

    Raises:
        UsageError: a model or an assumption has an unknown name, or transactions cannot be judged by the models.
    """
    from splitbrain.checkers.transactions.models import refuse_untestable

    names = [each.strip() for each in consistency_model.split(",") if each.strip()]
    refuse_untestable(names)
    assumed = [each.strip() for each in (assume or "").split(",") if each.strip()]
    for each in assumed:
        if each not in ASSUMPTIONS:
            raise UnknownNameError("assumption", each, ASSUMPTIONS)
    return {"consistency_models": names, **{each.replace("-", "_"): True for each in assumed}}


def _refuse_settings(ctx: click.Context, checker: str) -> None:
    """Refuse settings of the checker "linearizable" for another checker, and settings that no check can run with.

    Raises:
        UsageError: there is such a setting.
    """
    for each in ("consistency_model", "assume"):
        if options.given(ctx, each) and checker not in WORKLOADS:
            raise UsageError(
                f"{options.written(each)} {ctx.params[each]}: it is for transactions: "
                f"add --workload {' or '.join(WORKLOADS)}."
            )
    if options.given(ctx, "assume") and checker != "rw-register":
        raise UsageError(f"--assume {ctx.params['assume']}: it is for rw-register, not {checker}: remove it.")
    settings = [each for each in ("model", "time_limit", "memory_limit", "witness_time") if options.given(ctx, each)]
    if options.given(ctx, "picture") and checker not in ("linearizable", *WORKLOADS):
        raise UsageError(
            f"--picture {ctx.params['picture']}: it is for the checker linearizable and for transactions, "
            f"not {checker}: remove it."
        )
    for name in settings:
        if checker != "linearizable":
            raise UsageError(
                f"{options.written(name)} {ctx.params[name]}: it is for the checker linearizable, not {checker}: "
                "remove it."
            )
    if not settings:
        return
    from splitbrain.harness.contract.test import TIME_MAX_S, check_number

    time_limit, memory_limit, witness_time = (
        ctx.params[each] for each in ("time_limit", "memory_limit", "witness_time")
    )
    check_number("--time-limit", time_limit, TIME_MAX_S)
    check_number("--memory-limit", memory_limit, MEMORY_MAX_MB)
    if witness_time:
        check_number("--witness-time", witness_time, TIME_MAX_S)
        if witness_time > time_limit:
            raise UsageError(
                f"--witness-time {witness_time:g} must not be above --time-limit {time_limit:g}: reduce it, "
                "or raise --time-limit."
            )


def _oracle(name: str | None, checker_name: str) -> tuple[list[str] | None, UsageError | None]:
    """How to start the oracle, and what keeps it from being started; both None if none is asked.

    Files are judged without it, too.

    Raises:
        UsageError: it cannot judge what this checker judges.
    """
    if name is None:
        return None, None
    if checker_name not in JUDGED_BY_ORACLE:
        raise UsageError(
            f"--oracle {name}: it judges transactions of two workloads: add --workload {' or '.join(JUDGED_BY_ORACLE)}."
        )
    from splitbrain.harness.cli.oracle import command_of

    try:
        return command_of(), None
    except UsageError as error:
        return None, error


def _compared(oracle: list[str] | None, history: History, verdict: Verdict, models: str) -> dict[str, Any]:
    """What the oracle says of a history, and where the verdict differs, or why it says nothing; empty without one."""
    if oracle is None:
        return {}
    from splitbrain.harness.cli.oracle import ask, differences

    try:
        answer = ask(oracle, cast("pa.Table", history), verdict.checker, models)
    except HarnessError as error:
        return {_UNANSWERED: str(error)}
    ruled_out: list[str] = list(verdict.evidence.get("not", ()))
    anomalies: list[str] = list(verdict.evidence.get("anomaly_types", verdict.anomalies))
    found = differences(answer, verdict.valid, anomalies, ruled_out)
    return {"oracle": msgspec.to_builtins(answer), "differences": found}


def _unanswered(compared: Mapping[str, Any]) -> list[SplitbrainError]:
    """Why the oracle said nothing of a file, also on standard error; empty if it did, or was not asked."""
    if _UNANSWERED not in compared:
        return []
    error = HarnessError(f"{compared['file']}: {compared[_UNANSWERED]}")
    click.echo(f"splitbrain: {error}", err=True)
    return [error]


def _said(compared: Mapping[str, Any]) -> list[str]:
    """The comparison in lines."""
    if "differences" not in compared:
        return []
    return [f"elle-cli differs: {each}" for each in compared["differences"]] or ["elle-cli says the same"]


def _exit_code(found: Outcome, problems: Sequence[SplitbrainError]) -> int:
    """A violation has precedence; then a file that could not be judged."""
    from splitbrain.checkers.verdict import Outcome

    if problems and found is not Outcome.VIOLATION:
        return max(problem.exit_code for problem in problems)
    return found.exit_code


def _located(file: str, error: SplitbrainError) -> str:
    text = str(error)
    return text if file in text else f"{file}: {text}"


def _print(file: str, verdict: Verdict, picture: str | None, *, asked: bool) -> None:
    words = {"true": "valid", "false": "INVALID", "unknown": "unknown"}
    algorithm = f", {verdict.algorithm}" if verdict.algorithm else ""
    click.echo(f"{words[verdict.valid]:8}{file}  ({verdict.seconds:.3f} s{algorithm})")
    if verdict.sentence and verdict.valid != "true":
        click.echo(f"        {verdict.sentence}")
    if verdict.valid == "true":
        for reason in verdict.inconclusive:
            click.echo(f"        inconclusive: {reason.sentence}")
    if picture is not None:
        click.echo(f"        picture: {picture}")
    elif not asked and counterexample.is_drawable(verdict):
        click.echo("        to draw it: add --picture PATH")


def _read(file: str, format_name: str | None, independent: Independent, checker_name: str, *, whole: bool) -> History:
    """The history of a file; only as much of it as the checker needs, unless the whole table is asked for."""
    from splitbrain.harness.cli.histories import read_history_of, read_long_history_of, read_summarized_of
    from splitbrain.results.arrow import client_ops

    if checker_name == "linearizable":
        long = read_long_history_of(file, format_name, independent)
        if long is not None:
            return long
    if checker_name == "list-append" and not whole:
        summarized = read_summarized_of(file, format_name, independent)
        if summarized is not None:
            return summarized
    history = read_history_of(file, format_name, independent)
    if history.num_rows == 0 or (checker_name == "linearizable" and client_ops(history) == 0):
        raise HistoryFormatError(file, "has no client operation: there is nothing to judge.")
    return history


def _judged(history: History, spec: CheckerSpec, telemetry: pa.Table | None) -> Verdict:
    from splitbrain.checkers.engine import judge, judge_long
    from splitbrain.checkers.long_histories import LongHistory

    if isinstance(history, LongHistory):
        return judge_long(history, spec)
    [verdict] = judge(history, [spec], telemetry)
    return verdict


def _rows(history: History) -> int:
    from splitbrain.checkers.long_histories import LongHistory
    from splitbrain.results.summarized import SummarizedHistory

    if isinstance(history, SummarizedHistory):
        return history.frame.num_rows
    return history.file_rows if isinstance(history, LongHistory) else history.num_rows


def _ops(history: History) -> int:
    """How many ops clients invoked."""
    from splitbrain.checkers.long_histories import LongHistory
    from splitbrain.results.arrow import client_ops
    from splitbrain.results.summarized import SummarizedHistory

    if isinstance(history, SummarizedHistory):
        return client_ops(history.frame)
    return len(history.calls.invoked) if isinstance(history, LongHistory) else client_ops(history)


def _telemetry(file: str) -> pa.Table | None:
    """The nodes' telemetry, if the file is the folder of a stored run."""
    from splitbrain.harness.cli.afar import named
    from splitbrain.harness.cli.histories import path_of
    from splitbrain.results.rundir import RunDir

    path = Path(path_of(file))
    with named(file):
        return RunDir(path).telemetry() if path.is_dir() else None
