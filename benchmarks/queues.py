"""The verdict on queues of up to a million ops: CPU seconds, and how they grow.

    python benchmarks/queues.py [--ops 125000,250000,500000,1000000] [--repeat 3]

Half of the ops are puts and half are takes, on five queues. Sizes take turns, and each figure is the median of its CPU
seconds; the exponent is that of a line through all of them on logarithmic scales.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.queues import TotalQueue
from splitbrain.results.arrow import HISTORY_SCHEMA, to_table
from splitbrain.results.history import Op

SETTLED_NS: Final = 100 * 10**9
"""When the queues are drained: long after the last take."""


def history(puts: int, queues: int = 5, publishers: int = 20) -> pa.Table:
    """As many puts as takes, by publishers and takers in turn, one take in a hundred said to be a repetition."""
    rows = 4 * puts
    at = np.arange(puts)
    process, f, value = np.empty(rows, np.int64), np.empty(rows, object), np.empty(rows, object)
    kind, key = np.empty(rows, object), np.empty(rows, object)
    names = np.array([f"q{number}" for number in range(queues)], object)[at % queues]
    text = at.astype(str).astype(object)
    taken = text.copy()
    taken[::100] = np.array([f'{{"value":{number},"redelivered":true}}' for number in range(0, puts, 100)], object)
    for step, (how, name, who, content) in enumerate(
        [
            ("invoke", "enqueue", at % publishers, text),
            ("ok", "enqueue", at % publishers, text),
            ("invoke", "dequeue", publishers + at % publishers, np.full(puts, None)),
            ("ok", "dequeue", publishers + at % publishers, taken),
        ]
    ):
        process[step::4], f[step::4], value[step::4], kind[step::4], key[step::4] = who, name, content, how, names
    columns: dict[str, Any] = {
        "index": np.arange(rows),
        "time": np.arange(rows) * 1000,
        "process": process,
        "type": list(kind),
        "f": list(f),
        "key": list(key),
        "value": list(value),
        "node": ["n1"] * rows,
    }
    schema: Any = HISTORY_SCHEMA
    arrays: list[Any] = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    ends: list[Op] = []
    for number in range(queues):
        asked = Op(process=0, type="invoke", f="drain", key=f"q{number}", node="n1")
        for op in (asked, asked.complete("ok", [])):
            place = len(ends)
            ends.append(msgspec.structs.replace(op, index=rows + place, time=SETTLED_NS + place))
    return pa.concat_tables([pa.Table.from_arrays(arrays, schema=schema), to_table(ends)])


def main() -> None:
    """Judge each size, `--repeat` times."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("\n\n")[2].partition("\n\n")[0].strip())
    parser.add_argument("--ops", default="125000,250000,500000,1000000", help="sizes, separated by commas")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    sizes = [int(size) for size in given.ops.split(",")]
    tables = {size: history(size // 2) for size in sizes}
    took: dict[int, list[float]] = {size: [] for size in sizes}
    TotalQueue().check(tables[sizes[0]], {})  # what is loaded once is not counted
    for _ in range(given.repeat):
        for size, table in tables.items():
            began = time.process_time()
            verdict = TotalQueue().check(table, {})
            took[size].append(time.process_time() - began)
            assert verdict.valid == "true", verdict
    medians = {size: statistics.median(seconds) for size, seconds in took.items()}
    for size, seconds in medians.items():
        print(f"{size:>9} ops  {seconds:6.2f} CPU s")
    if len(sizes) > 1:
        slope = np.polyfit(np.log(list(medians)), np.log(list(medians.values())), 1)[0]
        print(f"exponent {slope:.2f}")


if __name__ == "__main__":
    main()
