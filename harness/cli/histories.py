"""The history that an argument of a command names: a file in one of the formats, or the folder of a stored run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from splitbrain.harness.cli import afar
from splitbrain.harness.cli.parsing import refuse_twice
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.checkers.long_histories import LongHistory
    from splitbrain.results.formats.rows import Independent
    from splitbrain.results.summarized import SummarizedHistory


PARQUET_BYTES = b"PAR1"


def refuse_missing(
    files: Sequence[str], format_name: str | None, independent: Independent, option: str = "--format"
) -> None:
    """Refuse missing files and files given twice, before any is read; and options on the format of a stored run, which
    records its own. Runs behind an address are copied.

    Raises:
        UsageError: there is such a file or option.
        RemoteStoreError: a store cannot be read.
    """
    refuse_twice("FILE", files)
    afar.fetch_for(click.get_current_context(), files)
    for file in files:
        if not Path(path_of(file)).exists():
            raise UsageError(f"{file}: there is no such file.")
        if not Path(path_of(file)).is_dir():
            continue
        if format_name is not None:
            raise UsageError(f"{file}: {option} {format_name} is for files, and this is a folder: remove it.")
        if independent != "auto":
            raise UsageError(
                f"{file}: --independent {independent}: a stored run stores keys apart from values: remove it."
            )


def read_history_of(file: str, format_name: str | None, independent: Independent) -> pa.Table:
    """The history. Fields of the file that a history cannot hold are listed on standard error.

    Raises:
        UsageError: there is no such file, or it cannot be read.
        HistoryFormatError: the file does not follow its format.
    """
    from splitbrain.results.formats import read_table
    from splitbrain.results.rundir import RunDir

    path = Path(path_of(file))
    if path.is_dir():
        with afar.named(file):
            return RunDir(path).history()
    table: pa.Table = read_table(path, format_name, independent=independent)
    from splitbrain.results.formats.rows import IGNORED_KEY

    ignored = (table.schema.metadata or {}).get(IGNORED_KEY)
    if ignored is not None:
        click.echo(f"note: {file}: fields that were not read: {ignored.decode()}", err=True)
    return table


def read_long_history_of(file: str, format_name: str | None, independent: Independent) -> LongHistory | None:
    """The history, if it is a Parquet file that can be read in pieces; else None.

    Raises:
        HistoryFormatError: it is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    path = Path(file)
    if not _is_parquet(path, format_name, independent):
        return None
    from splitbrain.checkers.long_histories import read_long_history

    return read_long_history(path)


def read_summarized_of(file: str, format_name: str | None, independent: Independent) -> SummarizedHistory | None:
    """The history without its micro-operations, if it is a stored one with summaries of lists; else None.

    Raises:
        HistoryFormatError: it is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    from splitbrain.results.rundir import RunDir
    from splitbrain.results.summarized import summarized

    path = Path(path_of(file))
    if path.is_dir():
        with afar.named(file):
            run = RunDir(path)
            run.read_test()
            found = summarized(run.history_path) if run.history_path.is_file() else None
            if found is not None:
                run.verify(run.history_path.name)
            return found
    return summarized(path) if _is_parquet(path, format_name, independent) else None


def _is_parquet(path: Path, format_name: str | None, independent: Independent) -> bool:
    if format_name not in (None, "parquet") or independent == "yes" or not path.is_file():
        return False
    try:
        with path.open("rb") as opened:
            return opened.read(len(PARQUET_BYTES)) == PARQUET_BYTES
    except OSError:
        return False  # reading it as a table then raises an error that says what is wrong


def path_of(file: str) -> str:
    """Where to read what an argument names: standard input, the copy of a run behind an address, or the file itself."""
    return "/dev/stdin" if file == "-" else afar.path_of(file)
