"""`splitbrain check`: judge history files."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import click
import msgspec

from splitbrain.harness.cli import counterexample, options, parsing
from splitbrain.results.errors import HistoryFormatError, SplitbrainError, UnknownNameError, UsageError
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.checkers.long_histories import LongHistory
    from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict
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
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--checker",
    "checker_name",
    default="linearizable",
    show_default=True,
    metavar="NAME",
    help="The checker (splitbrain list checkers).",
)
@click.option(
    "--model",
    default="cas-register",
    show_default=True,
    metavar="NAME|MODULE:CLASS",
    help="For linearizable: the model of a correct object (splitbrain list models).",
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
    picture: str | None,
    no_picture: bool,
    as_json: bool,
) -> None:
    """Judge history files: is what clients saw allowed?

    A FILE is a history in one of the formats, the folder of a stored run, or - for standard input. If a file cannot be
    judged, the others still are.

    \b
    Examples:
      splitbrain check store/test=*/run=*/history.parquet
      splitbrain check --model cas-register history.edn
      splitbrain check --format porcupine --model kv c10-ok.txt
      splitbrain check --checker set history.jsonl
      splitbrain check --workload list-append --consistency-model snapshot-isolation history.edn
    """
    from splitbrain.checkers.verdict import CheckerSpec, outcome, worst
    from splitbrain.harness.cli.histories import refuse_missing
    from splitbrain.harness.cli.steps import Steps
    from splitbrain.results.store import plain_verdict

    # Objects imported so far live until the end. The interpreter must not free them at exit: that would take a tenth of
    # the check of a small history. A user's own models are imported later and are not affected.
    gc.freeze()
    if no_picture and picture is not None:
        raise UsageError("--picture and --no-picture exclude each other: remove one of them.")
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
    other = _oracle(oracle, checker_name)
    spec = CheckerSpec(checker_name, settings if checker_name in ("linearizable", *WORKLOADS) else {})
    outcomes: list[Outcome] = []
    rows: list[Mapping[str, Any]] = []
    problems: list[SplitbrainError] = []
    with Steps(len(files)) as steps:
        for file in files:
            try:
                steps.enter(f"reading {file}")
                history = _read(file, format_name, independent, checker_name, whole=other is not None)
                steps.describe(f"judging {file}, {counted(_rows(history), 'row')}")
                verdict = _judged(history, spec, _telemetry(file))
                compared = _compared(other, history, verdict, consistency_model)
            except UnknownNameError:
                raise
            except SplitbrainError as error:
                problems.append(error)
                rows.append({"file": file, "error": str(error)})
                with steps.aside():
                    click.echo(f"splitbrain: {_located(file, error)}", err=True)
                continue
            outcomes.append(outcome([verdict]))
            drawn = pictures.draw(file, history, verdict) if pictures is not None else None
            sizes = {"ops": _ops(history), "rows": _rows(history)}
            rows.append({"file": file, **sizes, **plain_verdict(verdict), "picture": drawn, **compared})
            if not as_json:
                with steps.aside():
                    _print(file, verdict, drawn, asked=pictures is not None)
                    for line in _said(compared):
                        click.echo(f"        {line}")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
    ctx.exit(_exit_code(worst(outcomes), problems))


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
        UsageError: a model or an assumption has an unknown name.
    """
    from splitbrain.checkers.transactions.models import canonical

    names = [each.strip() for each in consistency_model.split(",") if each.strip()]
    for each in names:
        canonical(each)
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


def _oracle(name: str | None, checker_name: str) -> list[str] | None:
    """How to start the oracle, None if none is asked.

    Raises:
        UsageError: it cannot judge what this checker judges, or it is not there.
    """
    if name is None:
        return None
    if checker_name not in JUDGED_BY_ORACLE:
        raise UsageError(
            f"--oracle {name}: it judges transactions of two workloads: add --workload {' or '.join(JUDGED_BY_ORACLE)}."
        )
    from splitbrain.harness.cli.oracle import command_of

    return command_of()


def _compared(oracle: list[str] | None, history: History, verdict: Verdict, models: str) -> dict[str, Any]:
    """What the oracle says of a history, and where the verdict differs; empty without one."""
    if oracle is None:
        return {}
    from splitbrain.harness.cli.oracle import ask, differences

    answer = ask(oracle, cast("pa.Table", history), verdict.checker, models)
    ruled_out: list[str] = list(verdict.evidence.get("not", ()))
    anomalies: list[str] = list(verdict.evidence.get("anomaly_types", verdict.anomalies))
    found = differences(answer, verdict.valid, anomalies, ruled_out)
    return {"oracle": msgspec.to_builtins(answer), "differences": found}


def _said(compared: Mapping[str, Any]) -> list[str]:
    """The comparison in lines."""
    if not compared:
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
    from splitbrain.results.store import RunDir

    return RunDir(Path(file)).telemetry() if Path(file).is_dir() else None
