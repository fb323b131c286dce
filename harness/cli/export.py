"""`splitbrain export`: a history as text that other tools read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from splitbrain.harness.cli import completing, options, parsing
from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.harness.cli.steps import Steps
    from splitbrain.results.formats.rows import Independent


@click.command("export", cls=parsing.Command)
@click.argument(
    "file",
    metavar="RUN|FILE",
    shell_complete=completing.run,
)
@click.option(
    "--format",
    "target",
    type=click.Choice(["edn", "jsonl"]),
    default="edn",
    show_default=True,
    help="edn is for Jepsen, Knossos and Elle; jsonl has every field of a splitbrain history.",
)
@click.option(
    "-o",
    "--output",
    default=None,
    metavar="FILE",
    help="The file to write.  [default: standard output]",
    shell_complete=completing.file,
)
@options.source_format
@options.independent
def command(file: str, target: str, output: str | None, format_name: str | None, independent: Independent) -> None:
    """Write a history for other tools, one op per line.

    RUN is the folder of a stored run or its address, FILE a history in one of the formats. The output
    can be read back as the same history, for example by splitbrain check.

    \b
    Examples:
      splitbrain export store/test=*/run=* -o history.edn
      splitbrain export --format jsonl etcd_004.log | head
    """
    from splitbrain.harness.cli.histories import read_history_of, refuse_missing
    from splitbrain.harness.cli.steps import Steps
    from splitbrain.results.targets import check_target

    refuse_missing([file], format_name, independent, "--from")
    target_file = None if output is None else check_target("--output", output, of=file)
    with Steps(2) as steps:
        steps.enter(f"reading {file}")
        history = read_history_of(file, format_name, independent)
        steps.enter(f"writing {output or 'to standard output'}")
        if target_file is None:
            _write(history, target, sys.stdout, steps)
            sys.stdout.flush()
        else:
            _write_file(history, target, target_file, steps)


def _write(history: pa.Table, target: str, file: TextIO, steps: Steps) -> None:
    from splitbrain.results.formats.export import pieces

    for written, text in pieces(history, target):
        file.write(text)
        steps.describe(f"writing, {written} of {history.num_rows} rows")


def _write_file(history: pa.Table, target: str, path: Path, steps: Steps) -> None:
    """Write the whole file or none: half a history could be taken for a whole one."""

    def fill(aside: Path) -> None:
        with aside.open("w", encoding="utf-8") as file:
            _write(history, target, file, steps)

    try:
        replace_file(path, fill)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}.") from error
