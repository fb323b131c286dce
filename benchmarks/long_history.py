"""What a long history of one key costs: whole processes of `splitbrain check` on a Parquet file.

    python benchmarks/long_history.py [--ops 10000000] [--against PYTHON]

The history is one of five clients on a cas-register, in blocks that are alike, each begun by a write; once valid, once
with a read of what nothing wrote at 90 % of it. CPU seconds are user and system time of the process, memory is its
peak. `--against` names the Python of another version's environment, which is measured as well.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.linearizability_histories import NEVER_WRITTEN, Event, Registers, history, lines
from benchmarks.start_up import spent
from splitbrain.results import columns
from splitbrain.results.arrow import HISTORY_SCHEMA, write_parquet
from splitbrain.results.formats import read_table

CLIENTS, VALUES, BLOCK_OPS = 5, 5, 20_000
BAD_AT = 0.9

_schema: Any = HISTORY_SCHEMA


def long_history(ops: int, *, bad: bool, folder: Path) -> Any:
    """Blocks one after the other; each leaves nothing under way, and begins with a write that all can rely on."""
    made = history(Registers(VALUES), clients=CLIENTS, ops=BLOCK_OPS, seed=1)
    first = [Event(0, kind, "write", 0) for kind in ("invoke", "ok")]
    seen = [
        msgspec.structs.replace(event, value=0)
        if event.type == "ok" and event.f == "read" and event.value is None
        else event
        for event in made
    ]
    source = folder / "block.jsonl"
    source.write_bytes(lines([*first, *seen]))
    block = read_table(source)
    table: Any = pa.concat_tables([block] * max(1, ops // BLOCK_OPS))
    row: Any = np.arange(int(table.num_rows))
    table = table.set_column(0, _schema.field("index"), columns.array(row))
    table = table.set_column(1, _schema.field("time"), columns.array(row * 1000))
    return _with_wrong_read(table) if bad else table


def _with_wrong_read(table: Any) -> Any:
    at = int(table.num_rows * BAD_AT)
    while (table.column("type")[at].as_py(), table.column("f")[at].as_py()) != ("ok", "read"):
        at += 1
    value = table.column("value")
    wrong = columns.array([str(NEVER_WRITTEN)], pa.string())
    changed = pa.chunked_array([*value.slice(0, at).chunks, wrong, *value.slice(at + 1).chunks])
    return table.set_column(table.schema.get_field_index("value"), _schema.field("value"), changed)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=10_000_000)
    parser.add_argument("--against", metavar="PYTHON")
    chosen = parser.parse_args()
    pythons = {"this": sys.executable, **({"other": chosen.against} if chosen.against else {})}
    print("| ops | history | version | CPU s | MiB |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.parquet"
        for bad in (False, True):
            write_parquet(long_history(chosen.ops, bad=bad, folder=Path(folder)), file)
            for version, python in pythons.items():
                cpu_s, mib = spent(python, [str(file)])
                print(
                    f"| {chosen.ops:,} | {'bad' if bad else 'ok'} | {version} | {cpu_s:.1f} | {mib:.0f} |", flush=True
                )


if __name__ == "__main__":
    main()
