"""Making a store smaller without losing anything: no run, no op, no verdict, and nothing has to be judged again.

Two things are done to a run that is over. Tables of older versions are written again with numbers that rise as
differences, which makes a history a third as large. And the page and the plots of a run that passed are removed: they
are most of its room and most of its files, and `splitbrain report` and `splitbrain serve` make them again.

Runs are not packed together. The folder of a run is what is copied, judged, compared and removed; readers (Spark,
DuckDB and Polars among them) find its files by name, and a run that is packed with others could not be removed alone.

A table is written aside, read back and compared, and then takes the place of the old one: a kill in between
leaves the one or the other. Verdicts record digests of the files that they were made from. The record is renewed after
the file; a process that dies between the two leaves a verdict that the next `analyze` makes again.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.results.arrow import read_parquet, read_parquet_head, write_parquet
from splitbrain.results.atomic import alone_in, replace_file
from splitbrain.results.checksums import FILES, renewing
from splitbrain.results.damage import standing_damage
from splitbrain.results.errors import HarnessError
from splitbrain.results.madefrom import MadeFrom, digest, record_of, seal
from splitbrain.results.pruning import size_bytes
from splitbrain.results.report import REPORT
from splitbrain.results.rundir import RunDir

TABLES: Final = ("history.parquet", "telemetry.parquet")
_PASS: Final = "pass"
_ABANDONED_S: Final = 86_400.0
"""A file that was written aside and has not taken its place for a day never will: its writer was killed."""


class Compacted(msgspec.Struct, frozen=True):
    """What was done to a run.

    Attributes:
        path: its folder.
        before_bytes, after_bytes: the room that it takes on the disk.
        encoded: the tables that were written again.
        removed: the files and folders that were removed, relative to it.
    """

    path: str
    before_bytes: int
    after_bytes: int
    encoded: list[str]
    removed: list[str]


def compact(run: RunDir, *, dry_run: bool = False) -> Compacted | None:
    """Make a run smaller; None if it is under way, not judged, or as small as it gets.

    Args:
        run: its folder.
        dry_run: change nothing; tables are measured by writing them elsewhere.

    Raises:
        SplitbrainError: a file of it is damaged or of a newer version; nothing was changed that was not whole.
        HarnessError: a file cannot be written.
    """
    if run.is_running() or os.path.lexists(run.wal_path) or not os.path.lexists(run.history_path):
        return None
    with alone_in(run.path):
        judgement = run.read_verdicts()
        if judgement is None or standing_damage(run.path, judgement.made_from) is not None:
            return None
        encode = [name for name in TABLES if _is_older(run.path / name)]
        remove = [*_abandoned(run.path), *(_pages(run.path) if judgement.outcome == _PASS else ())]
        if not encode and not remove:
            return None
        run.verify(*FILES)  # what is left of a damaged run stays, its page too
        before = size_bytes(run.path)
        if not dry_run:
            try:
                for name in encode:
                    _encode(run, name)
                for name in remove:
                    _remove(run.path / name)
            except OSError as error:
                raise HarnessError(
                    f"{run.path} cannot be made smaller: {error.strerror} ({error.filename})."
                ) from error
        return Compacted(str(run.path), before, size_bytes(run.path), encode, remove)


def _is_older(path: Path) -> bool:
    """Whether a table has a column that rises and is stored as it is."""
    if not os.path.lexists(path):
        return False
    return read_parquet_head(path).plain_rising


def _encode(run: RunDir, name: str) -> None:
    """Write a table again, and renew the record of the verdict that was made from it."""
    path = run.path / name
    table, was = read_parquet(path), digest(path)
    notes: dict[bytes, bytes] = dict(table.schema.metadata or {})  # its format too: an older one stays what it is
    aside = path.with_name(f".{name}.compact-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        write_parquet(table, aside, notes)
        again = read_parquet(aside)
        if not again.equals(table) or dict(again.schema.metadata or {}) != notes:
            raise HarnessError(f"{path} stays: written again it is not the same. Please report this with the file.")
        if digest(path) != was:
            raise HarnessError(f"{path} stays: it was changed meanwhile.")
        with renewing(run.path, name):
            os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    _renew(run, name, was)


def _renew(run: RunDir, name: str, was: str | None) -> None:
    judgement = run.read_verdicts()
    made = None if judgement is None else record_of(judgement)
    if judgement is None or made is None or made.inputs.get(name) != was:
        return  # its verdict was not made from that file, and is to be made again anyway
    inputs = {**made.inputs, name: digest(run.path / name)}
    renewed: MadeFrom = msgspec.structs.replace(made, inputs=inputs, seal=seal(judgement))
    document: Any = msgspec.structs.replace(judgement, made_from=msgspec.to_builtins(renewed))
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    replace_file(run.path / "verdict.json", lambda aside: aside.write_bytes(text + b"\n"))


def _pages(run: Path) -> Sequence[str]:
    return [name for name in (REPORT, "plots") if os.path.lexists(run / name)]


def _abandoned(run: Path) -> Iterator[str]:
    """Files that a killed process wrote aside."""
    latest_s = time.time() - _ABANDONED_S
    for path in run.glob(".*.tmp"):
        if path.is_file() and path.stat().st_mtime < latest_s:
            yield path.name


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
