"""Damage to the files of stored runs, drawn from a seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from splitbrain.results.arrow import HISTORY_SCHEMA, array
from splitbrain.results.history import HARNESS, NEMESIS

FILES: Final = ("history.parquet", "telemetry.parquet", "test.json", "verdict.json")


def damaged(draw: random.Random, run: Path) -> str:
    """Damage a file of a run; what was done, for who reads a failure."""
    present = [name for name in (*FILES, "history.wal") if (run / name).exists()]
    file = run / draw.choice(present)
    kinds = [*BYTES, *(WITHIN if file.name == "history.parquet" else {})]
    kind = draw.choice(kinds)
    if kind in BYTES:
        BYTES[kind](draw, file)
    else:
        table = pq.read_table(file, partitioning=None)  # pyright: ignore[reportUnknownVariableType]
        pq.write_table(WITHIN[kind](table), file)
    return f"{file.name}: {kind}"


def _truncate(draw: random.Random, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content))])


def _flip(draw: random.Random, file: Path) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(draw.choice((1, 1, 4, 40))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def _zero(draw: random.Random, file: Path) -> None:
    content = bytearray(file.read_bytes())
    at = draw.randrange(len(content))
    gap = min(len(content) - at, draw.randrange(1, 200))
    content[at : at + gap] = bytes(gap)
    file.write_bytes(content)


def _folder(_: random.Random, file: Path) -> None:
    file.unlink()
    file.mkdir()


def _link(_: random.Random, file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def _all_gone(_: random.Random, file: Path) -> None:
    folder = file.parent
    shutil.rmtree(folder)
    folder.mkdir()


def _other(draw: random.Random, file: Path) -> None:
    file.write_bytes(draw.choice((b"", b"[]", b"null", b'{"format": 99}', b'{"checkers": 5}', draw.randbytes(300))))


BYTES: Final[dict[str, Callable[[random.Random, Path], None]]] = {
    "cut off": _truncate,
    "bits flipped": _flip,
    "a stretch of zeros": _zero,
    "something else": _other,
    "a folder": _folder,
    "a link to nowhere": _link,
    "the whole folder is empty": _all_gone,
}


def _with(name: str, values: Callable[[int], Any]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, values(table.num_rows))

    return change


def _column(kind: Any, value: Callable[[int], Any]) -> Callable[[int], Any]:
    return lambda rows: array([value(row) for row in range(rows)], kind)


def _without(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.drop_columns([name])


def _noted(process: int, kind: str, f: str, value: str) -> Callable[[pa.Table], pa.Table]:
    """An op of the harness or the nemesis in place of the first."""

    def change(table: pa.Table) -> pa.Table:
        said = {"process": process, "type": kind, "f": f, "value": value}
        first: list[dict[str, Any]] = [{**table.slice(0, 1).to_pylist()[0], **said}]
        return pa.concat_tables([pa.Table.from_pylist(first, table.schema), table.slice(1)])

    return change


WITHIN: Final[dict[str, Callable[[pa.Table], pa.Table]]] = {
    "duplicate indexes": _with("index", _column(pa.int64(), lambda row: row // 2)),
    "huge indexes": _with("index", _column(pa.int64(), lambda row: 2**62 + row)),
    "negative indexes": _with("index", _column(pa.int64(), lambda row: -row)),
    "times that are no numbers": _with("time", _column(pa.float64(), lambda _: float("nan"))),
    "times of another age": _with("time", _column(pa.int64(), lambda row: 2**63 - 1 - row)),
    "times that go back": _with("time", _column(pa.int64(), lambda row: -row)),
    "unknown types": _with("type", _column(pa.string(), lambda _: "maybe")),
    "values that are not JSON": _with("value", _column(pa.string(), lambda _: "{nothing")),
    "processes that are texts": _with("process", _column(pa.string(), lambda row: f"p{row}")),
    "a damaged note of the harness": _noted(HARNESS, "info", "recovered", '{"seconds": "soon"}'),
    "a damaged report of a nemesis": _noted(NEMESIS, "ok", "kill", '{"fault": "kill", "down": 1}'),
    "nulls": _with("f", _column(pa.string(), lambda _: None)),
    **{f"no column {name}": _without(name) for name in HISTORY_SCHEMA.names if name != "due"},
    "other columns": lambda table: pa.table({"a": [1, 2]}),
}
