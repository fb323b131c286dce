#!/usr/bin/env python3
"""Run third-party systems under faults, and write docs/findings.md: what was found, in how many runs, by which faults.

usage: tools/findings.py --store DIR --budget MIN [--only SYSTEM[,SYSTEM...]] [--again]      run what is missing
       tools/findings.py --store DIR --write                      write from what is stored, run nothing

The store is what the command goes on from: a run that is there is not made again, one that was cut short counts for
nothing. What docs/findings.json has decided of a cell stays, and is not run again unless `--again` asks for it: so a
store may be left behind. Cells of the matrix (tools/findings_matrix.py) come in its order, each with its runs under
faults and one without. Where a violation was found, its last fault alone is tried once. When the budget of minutes is
used up no further run begins. docs/findings.json keeps what the page shows, and is written after each run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import findings_page
import msgspec
from findings_matrix import CELLS, NO_FAULTS, Cell
from findings_runs import Row, Stored, judged, of_cell, row_is_of, rows, shorter_schedule
from hunts import SPLITBRAIN

DOCS: Final = Path(__file__).parent.parent / "docs"
DATA: Final = DOCS / "findings.json"
PAGE: Final = DOCS / "findings.md"

TRIES: Final = 2
"""How many more runs are made where the harness failed, or runs tested too little."""

_MINUTE_S: Final = 60.0


class Data(msgspec.Struct, kw_only=True):
    """What docs/findings.json holds."""

    format: int = 1
    rows: list[Row]


class Task(msgspec.Struct, frozen=True):
    """A run that is missing.

    Attributes:
        words: options of `splitbrain run`, but for seed and store.
        schedule: lines of its schedule; empty to draw the faults.
    """

    words: list[str]
    schedule: list[list[object]] = []


def missing(stored: Sequence[Stored], cells: Sequence[Cell] = CELLS) -> Iterator[Task]:
    """The runs that a store lacks, in the order of the matrix."""
    for cell in cells:
        for nemesis, wanted in ((cell.nemesis, cell.runs), (NO_FAULTS, 1)):
            own = [each for each in stored if of_cell(each.document, cell, nemesis=nemesis)]
            failed = sum(not each.proves for each in own)
            if failed < TRIES + wanted:
                yield from (Task(cell.words(nemesis)) for _ in range(wanted - (len(own) - failed)))
        if any(of_cell(each.document, cell) for each in stored):
            continue
        own = [each for each in stored if of_cell(each.document, cell, nemesis=cell.nemesis) and each.violations]
        if own and (schedule := shorter_schedule(own[0])) is not None:
            yield Task(cell.words(cell.nemesis), schedule)


def run(task: Task, store: Path, program: Sequence[str] = SPLITBRAIN) -> str:
    """Make a run; the last line that it said."""
    words = [*program, "run", *task.words, "--engine", "inline", "--store", str(store)]
    with tempfile.TemporaryDirectory() as folder:
        if task.schedule:
            file = Path(folder) / "shorter.schedule"
            file.write_text("".join(msgspec.json.encode(line).decode() + "\n" for line in task.schedule))
            words += ["--schedule", str(file)]
            without = words.index("--nemesis")
            del words[without : without + 2]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return f"exit {done.returncode}: {next((line for line in said if line.strip()), '')[:120]}"


def write(found: Sequence[Row]) -> None:
    """Write data and page."""
    data = msgspec.json.encode(Data(rows=list(found)))
    DATA.write_bytes(msgspec.json.format(data, indent=1) + b"\n")
    PAGE.write_text(findings_page.page(found))


def stated() -> list[Row]:
    """What the data says so far."""
    return msgspec.json.decode(DATA.read_bytes(), type=Data).rows if DATA.exists() else []


def together(before: Sequence[Row], now: Sequence[Row], cells: Sequence[Cell]) -> list[Row]:
    """Of each cell what the store says now, unless what was stated before rests on more."""
    found: list[Row] = []
    for cell in cells:
        old = next((row for row in before if row_is_of(row, cell)), None)
        new = next((row for row in now if row_is_of(row, cell)), None)
        rests = [row for row in (new, old) if row is not None]
        if rests:
            found.append(max(rests, key=lambda row: (row.decided, row.runs)))
    return found


def main(words: Sequence[str]) -> None:
    """Make what is missing, as long as the budget lasts; write the page after each run."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("--store", type=Path, required=True, metavar="DIR")
    parser.add_argument("--budget", type=float, default=0.0, metavar="MIN")
    parser.add_argument("--only", default="", metavar="SYSTEM")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args(words)
    only = {name for name in given.only.split(",") if name}
    before = stated()
    decided = [] if given.again else [row for row in before if row.decided]
    cells = [
        cell for cell in CELLS if (not only or cell.system in only) and not any(row_is_of(row, cell) for row in decided)
    ]
    until = time.monotonic() + given.budget * _MINUTE_S
    while not given.write and time.monotonic() < until:
        stored = judged(given.store)
        task = next(missing(stored, cells), None)
        if task is None:
            break
        print(" ".join(task.words), "by a shorter schedule" if task.schedule else "", flush=True)
        said = run(task, given.store)
        print("   ", said, flush=True)
        if len(judged(given.store)) == len(stored):
            raise SystemExit(f"that run left no verdict, and the next one would be the same ({said}): mend it first")
        write(together(before, rows(given.store), CELLS))
    write(together(before, rows(given.store), CELLS))


if __name__ == "__main__":
    main(sys.argv[1:])
