"""`splitbrain check`: judge history files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harness.cli import counterexample, options
from results.errors import HistoryFormatError, SplitbrainError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from checkers.verdict import Verdict


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--checker",
    "checker_name",
    default="linearizable",
    show_default=True,
    metavar="NAME",
    help="Who judges (splitbrain list checkers).",
)
@click.option(
    "--model",
    default="cas-register",
    show_default=True,
    metavar="NAME|MODULE:CLASS",
    help="For linearizable: what a correct object does (splitbrain list models).",
)
@click.option(
    "--format",
    "format_name",
    default=None,
    metavar="NAME",
    help="parquet, jsonl, porcupine or compact.  [default: recognised]",
)
@click.option(
    "--time-limit",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For each file's partitions; what is not decided by then is unknown.",
)
@counterexample.options
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    checker_name: str,
    model: str,
    format_name: str | None,
    time_limit: float,
    picture: str | None,
    no_picture: bool,
    as_json: bool,
) -> None:
    """Judge history files: is what clients saw allowed?

    A FILE is a history in one of the formats, or the folder of a stored run.

    \b
    Examples:
      splitbrain check store/test=*/run=*/history.parquet
      splitbrain check --format porcupine --model cas-register etcd_000.log
      splitbrain check --checker set history.jsonl
    """
    from checkers.engine import judge
    from checkers.verdict import CheckerSpec, Outcome, outcome, worst
    from results.store import plain_verdict

    pictures = None if no_picture else counterexample.Pictures(picture, files)
    settings = {"model": model, "time_limit_s": time_limit} if checker_name == "linearizable" else {}
    spec = CheckerSpec(checker_name, settings)
    outcomes: list[Outcome] = []
    rows: list[Mapping[str, Any]] = []
    histories = [(file, _read(file, format_name)) for file in files]
    for file, history in histories:
        if history.num_rows == 0:
            raise HistoryFormatError(file, "holds no operation: there is nothing to judge.")
    for file, history in histories:
        [verdict] = judge(history, [spec], _telemetry(file))
        outcomes.append(outcome([verdict]))
        drawn = pictures.draw(file, history, verdict) if pictures is not None else None
        rows.append({"file": file, "ops": history.num_rows, **plain_verdict(verdict), "picture": drawn})
        if not as_json:
            _print(file, verdict, drawn)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
    ctx.exit(worst(outcomes).exit_code)


def _print(file: str, verdict: Verdict, picture: str | None) -> None:
    words = {"true": "valid", "false": "INVALID", "unknown": "unknown"}
    algorithm = f", {verdict.algorithm}" if verdict.algorithm else ""
    click.echo(f"{words[verdict.valid]:8}{file}  ({verdict.seconds:.3f} s{algorithm})")
    if verdict.sentence and verdict.valid != "true":
        click.echo(f"        {verdict.sentence}")
    if picture is not None:
        click.echo(f"        picture: {picture}")


def _read(file: str, format_name: str | None) -> pa.Table:
    from results import arrow, formats
    from results.store import RunDir

    path = Path(file)
    if path.is_dir():
        return RunDir(path).history()
    if not path.exists():
        raise UsageError(f"{file}: there is no such file.")
    name = format_name or _recognise(path)
    if name == "parquet":
        return arrow.conform(arrow.read_parquet(path), file)
    return arrow.to_table(formats.read_history(path, name))


def _telemetry(file: str) -> pa.Table | None:
    """What the nodes told, where the file is the folder of a stored run."""
    from results.store import RunDir

    return RunDir(Path(file)).telemetry() if Path(file).is_dir() else None


def _recognise(path: Path) -> str:
    """The format of a history file, by its first bytes.

    Raises:
        HistoryFormatError: it looks like none of those that splitbrain reads.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096).lstrip()
    except OSError as error:
        raise SplitbrainError(f"{path}: cannot be read: {error.strerror}.") from error
    for start, name in (
        (b"PAR1", "parquet"),
        (b'{"', "jsonl"),
        (b"{:", "porcupine"),
        (b"INFO", "porcupine"),
        (b"c ", "compact"),
    ):
        if head.startswith(start):
            return name
    raise HistoryFormatError(
        str(path), "not recognised as a history. Say which --format it is in: parquet, jsonl, porcupine or compact."
    )
