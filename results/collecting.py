"""From the raw telemetry that the nodes of a run left to its telemetry.parquet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.results import telemetry
from splitbrain.results.arrow import read_parquet_head, write_parquet
from splitbrain.results.checksums import read_checksums
from splitbrain.results.clocks import clocks_in
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.madefrom import digest
from splitbrain.results.rundir import RunDir


class _Sources(msgspec.Struct, frozen=True):
    """What test.json says of the raw telemetry, and of when the test began."""

    telemetry: dict[str, str] | None = None
    start_wall_ns: int | None = None
    began_wall_ns: int | None = None
    began_mono_ns: int | None = None


def collect_telemetry(
    run: RunDir, document: Mapping[str, Any] | None = None, history: Callable[[], pa.Table] | None = None
) -> bool:
    """Bring the nodes' raw telemetry into one table; whether there was any for which that was not done yet.

    Args:
        run: the run's folder.
        document: its test.json, where that was read already.
        history: gives its history, where that was read already.

    Raises:
        SplitbrainError: the run, or a raw file, cannot be read.
    """
    there = os.path.lexists(run.telemetry_path)
    if there and read_parquet_head(run.telemetry_path).rows:
        return False
    collected = (read_checksums(run.path) or {}).get(run.telemetry_path.name)
    if there and collected is not None:
        return False  # who reads it finds whether it is what was collected
    sources = _sources(run.read_test() if document is None else document, run.path / "test.json")
    paths = {node: _place(run, node, relative) for node, relative in (sources.telemetry or {}).items()}
    began_ns = sources.began_wall_ns or sources.start_wall_ns
    if not paths or began_ns is None:
        return False
    if there and not any(path.exists() for path in paths.values()):
        return False
    ahead_ns = clocks_in((history or run.history)()).ahead_ns()
    start = telemetry.Start(wall_ns=began_ns, mono_ns=sources.began_mono_ns, ahead_ns=ahead_ns)
    table = telemetry.collect(paths, start).table
    if collected is None:
        run.write_telemetry(table)
        return True
    write_parquet(table, run.telemetry_path)
    if digest(run.telemetry_path) != collected:
        run.telemetry_path.unlink()  # it is gone, and the nodes' files, or the version of Arrow, are others
    return True


def _sources(document: Mapping[str, Any], path: Path) -> _Sources:
    try:
        return msgspec.convert(document, _Sources)
    except msgspec.ValidationError as error:
        raise HistoryFormatError(str(path), f"damaged: {error}") from error


def _place(run: RunDir, node: str, relative: str) -> Path:
    return telemetry.lies(run.path / relative, run.path / "nodes" / node)
