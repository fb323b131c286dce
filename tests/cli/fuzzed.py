"""Damage of any kind to a copy of a run, drawn from a seed: bytes, cells, files, names and what stands beside them.

    python -m tests.cli.fuzzed --first 0 --count 1000

judges a simulated run after each damage, and prints where it is neither named nor judged as the run was. A sample is a
test (`tests/cli/test_fuzzed_runs.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from splitbrain.checkers.isolation.judging import Judge, judge
from splitbrain.checkers.isolation.limits import Limits
from splitbrain.harness.campaigns import many
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.columns import array
from splitbrain.results.rundir import RunDir

RUN: Final = ("run", "--backend", "sim", "--nemesis", "kill", "-n", "3", "--rate", "10", "--time-limit", "4")
LIMITS: Final = Limits(cpu_s=20.0, memory_mb=1024)
JUDGED_FROM: Final = ("test.json", "history.parquet", "telemetry.parquet")
DOCUMENTS: Final = ("test.json", "verdict.json", CHECKSUMS, "marks.json", "plan.json", "figures.json")
FILES: Final = (*JUDGED_FROM, "verdict.json", CHECKSUMS, "marks.json", "plan.json", "figures.json", "splitbrain.log")
TABLES: Final = ("history.parquet", "telemetry.parquet")


class Damaging:
    """A damage: `run` is the copy, `other` another sound run, of another test; `draw` decides where.

    Attributes:
        what: what was done, in words.
    """

    def __init__(self, run: Path, other: Path, draw: random.Random) -> None:
        self.run = run
        self.other = other
        self.draw = draw
        self.what = ""

    def do(self) -> str:
        """Damage the copy; what was done."""
        how = self.draw.choice(sorted(WAYS))
        return f"{how}: {WAYS[how](self)}"

    def file(self, names: tuple[str, ...] = FILES) -> Path:
        """One of these files that is there."""
        return self.run / self.draw.choice([name for name in names if (self.run / name).is_file()])

    def bytes_of(self, change: Callable[[bytearray], None]) -> str:
        """Change the bytes of a file."""
        path = self.file()
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)
        return path.name

    def place(self, content: bytearray) -> int:
        """A position in a file: the beginning and the end, where headers and footers are, as often as all else."""
        last = max(0, len(content) - 1)
        edge = min(64, last)
        places = (self.draw.randint(0, edge), last - self.draw.randint(0, edge), self.draw.randint(0, last))
        return self.draw.choice(places)

    def in_place_of(self, make: Callable[[Path], object]) -> str:
        """Something else has the name of a file."""
        path = self.file()
        path.unlink()
        make(path)
        return path.name

    def in_table(self, change: Callable[[pa.Table], pa.Table]) -> str:
        """A table holds other rows; as a file it is whole."""
        path = self.file(TABLES)
        table = pq.read_table(path, partitioning=None)  # pyright: ignore[reportUnknownVariableType]
        pq.write_table(change(table), path)
        return path.name

    def in_document(self, value: str) -> str:
        """A JSON file has this text as the value of one of its keys."""
        path = self.file(DOCUMENTS)
        document: dict[str, Any] = json.loads(path.read_bytes())
        key: str = self.draw.choice(sorted(document))
        texts = {**{name: json.dumps(document[name]) for name in document}, key: value}
        path.write_text("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}")
        return f"{path.name}, {key} is {value[:30]}"


# --- bytes ----------------------------------------------------------------------------------------------------------


def _flip(to: Damaging) -> str:
    def change(content: bytearray) -> None:
        for _ in range(to.draw.choice((1, 1, 3, 40))):
            if content:
                content[to.place(content)] ^= 1 << to.draw.randrange(8)

    return to.bytes_of(change)


def _zero(to: Damaging) -> str:
    def change(content: bytearray) -> None:
        begin = to.place(content)
        length = len(content[begin : begin + to.draw.choice((8, 512, 4096))])
        content[begin : begin + length] = bytes(length)

    return to.bytes_of(change)


def _cut(to: Damaging) -> str:
    def change(content: bytearray) -> None:
        del content[to.place(content) :]

    return to.bytes_of(change)


def _without_a_block(to: Damaging) -> str:
    def change(content: bytearray) -> None:
        begin = to.place(content)
        del content[begin : begin + to.draw.choice((1, 64, 512))]

    return to.bytes_of(change)


def _inserted(to: Damaging) -> str:
    def change(content: bytearray) -> None:
        begin = to.place(content)
        content[begin:begin] = to.draw.choice((b"\0", b"\xff\xfe", b"{", b"\n", b"PAR1", b"9" * 400))

    return to.bytes_of(change)


def _doubled(to: Damaging) -> str:
    return to.bytes_of(lambda content: content.extend(bytes(content)))


# --- JSON -----------------------------------------------------------------------------------------------------------

_TEXTS: Final = (
    *("null", "[]", "{}", "0", "-1", "1e999", "NaN", "Infinity", "9" * 5000, '"\\ud800"', '"\\u0000"', "1.5", "true"),
    *('"x"', "[" * 100_000, "[" * 300 + "]" * 300, '{"a": ' * 300 + "0" + "}" * 300, '"' + "y" * 100_000 + '"'),
)


def _other_value(to: Damaging) -> str:
    return to.in_document(to.draw.choice(_TEXTS))


def _other_format(to: Damaging) -> str:
    path = to.file(DOCUMENTS[:3])
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "format": to.draw.choice((0, -1, 2, 99, "1", None, 1.0))}))
    return path.name


def _verdict_of_a_pass(to: Damaging) -> str:
    path = to.run / "verdict.json"
    document = json.loads(path.read_bytes())
    document["outcome"] = "violation" if document["outcome"] == "pass" else "pass"
    for each in document["verdicts"]:
        each["valid"] = document["outcome"] == "pass"
    path.write_text(json.dumps(document))
    return path.name


# --- tables ---------------------------------------------------------------------------------------------------------


def _cells(change: Callable[[random.Random, list[Any]], list[Any]]) -> Callable[[Damaging], str]:
    """A way that changes the cells of one column."""

    def way(to: Damaging) -> str:
        column = ""

        def changed(table: pa.Table) -> pa.Table:
            nonlocal column
            column = to.draw.choice(table.schema.names)
            at, found = table.schema.names.index(column), table.column(column)
            cells = array(change(to.draw, found.to_pylist()), found.type)
            return table.set_column(at, cast("Any", table.schema.field(column).with_nullable(True)), cells)

        return f"{to.in_table(changed)}, {column}"

    return way


def _swapped(draw: random.Random, cells: list[Any]) -> list[Any]:
    one, two = draw.randrange(len(cells)), draw.randrange(len(cells))
    cells[one], cells[two] = cells[two], cells[one]
    return cells


def _shuffled(draw: random.Random, cells: list[Any]) -> list[Any]:
    draw.shuffle(cells)
    return cells


def _nulled(draw: random.Random, cells: list[Any]) -> list[Any]:
    cells[draw.randrange(len(cells))] = None
    return cells


def _constant(draw: random.Random, cells: list[Any]) -> list[Any]:
    return [draw.choice(cells)] * len(cells)


def _negated(_: random.Random, cells: list[Any]) -> list[Any]:
    return [-cell if isinstance(cell, int) else cell for cell in cells]


def _rows(change: Callable[[random.Random, list[int]], list[int]]) -> Callable[[Damaging], str]:
    """A way that takes other rows of a table."""

    def way(to: Damaging) -> str:
        def changed(table: pa.Table) -> pa.Table:
            chosen: Any = change(to.draw, list(range(table.num_rows)))
            return table.take(pa.array(chosen, pa.int64()))

        return to.in_table(changed)

    return way


def _without_rows(draw: random.Random, rows: list[int]) -> list[int]:
    begin = draw.randrange(len(rows))
    return rows[:begin] + rows[begin + draw.choice((1, 2, 20)) :]


def _repeated_rows(draw: random.Random, rows: list[int]) -> list[int]:
    begin = draw.randrange(len(rows))
    return rows[: begin + 2] + rows[begin:]


def _no_rows(_: random.Random, __: list[int]) -> list[int]:
    return []


def _no_groups(to: Damaging) -> str:
    path = to.file(TABLES)
    schema: Any = pq.read_schema(path)  # pyright: ignore[reportUnknownMemberType]
    pq.ParquetWriter(path, schema).close()
    return path.name


def _other_columns(to: Damaging) -> str:
    def changed(table: pa.Table) -> pa.Table:
        name = to.draw.choice(table.schema.names)
        kind: Any = to.draw.choice(("drop", "text", "twice", "rename"))
        at = table.schema.names.index(name)
        if kind == "drop":
            return table.drop_columns([name])
        if kind == "text":
            return table.set_column(at, name, pa.array([str(cell) for cell in table.column(name).to_pylist()]))
        if kind == "rename":
            return table.rename_columns([f"{each}2" if each == name else each for each in table.schema.names])
        return table.append_column(name, table.column(name))

    return to.in_table(changed)


def _other_notes(to: Damaging) -> str:
    key = to.draw.choice((b"splitbrain.format", b"splitbrain.recovered", b"splitbrain.damaged", b"x"))
    value = to.draw.choice((b"99", b"x", b"-1", b"", b"\xff"))
    return to.in_table(lambda table: table.replace_schema_metadata({**(table.schema.metadata or {}), key: value}))


# --- files ----------------------------------------------------------------------------------------------------------


def _of_the_other(to: Damaging) -> str:
    path = to.file()
    if (to.other / path.name).is_file():
        shutil.copyfile(to.other / path.name, path)
    return path.name


def _of_each_other(to: Damaging) -> str:
    one, two = to.file(), to.file()
    if one == two:
        return "nothing"
    shutil.copyfile(one, to.run / "aside")
    shutil.copyfile(two, one)
    shutil.copyfile(to.run / "aside", two)
    return f"{one.name} and {two.name}"


def _unlinked(to: Damaging) -> str:
    path = to.file()
    path.unlink()
    return path.name


def _special(to: Damaging) -> str:
    makes: Mapping[str, Callable[[Path], object]] = {
        "folder": Path.mkdir,
        "pipe": os.mkfifo,
        "loop": lambda path: path.symlink_to(path.name),
        "dangling": lambda path: path.symlink_to("nowhere"),
        "zeros": lambda path: path.symlink_to("/dev/zero"),
        "null": lambda path: path.symlink_to("/dev/null"),
        "parent": lambda path: path.symlink_to(".."),
        "empty": Path.touch,
        "hole": _hole,
    }
    what = to.draw.choice(sorted(makes))
    return f"{what} for {to.in_place_of(makes[what])}"


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 33)


def _extra(to: Damaging) -> str:
    name = to.draw.choice(
        ("a\nb", "ü" * 60, "x" * 255, "history.wal", ".history.parquet.tmp", "test.json.bak", "deep", "test=a", "core")
    )
    path = to.run / name
    if name == "deep":
        (path / "/".join("d" * 200)).mkdir(parents=True)
    elif name == "test=a":
        shutil.copytree(to.other, path / to.other.name)
    else:
        path.write_bytes(to.draw.choice((b"", b"\0" * 100, b"SBHIST\r\n\1\0\0\0")))
    return repr(name[:20])


def _extra_pipe(to: Damaging) -> str:
    name = to.draw.choice(("history.wal", "controller.lock", "pipe", "nodes/pipe", "report.html", "figures.json"))
    path = to.run / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return name


WAYS: Final[Mapping[str, Callable[[Damaging], str]]] = {
    "bits flipped": _flip,
    "zeroed": _zero,
    "cut off": _cut,
    "a block is gone": _without_a_block,
    "bytes inserted": _inserted,
    "doubled": _doubled,
    "another value": _other_value,
    "another format": _other_format,
    "another verdict": _verdict_of_a_pass,
    "cells swapped": _cells(_swapped),
    "cells shuffled": _cells(_shuffled),
    "a cell is null": _cells(_nulled),
    "a constant column": _cells(_constant),
    "numbers negated": _cells(_negated),
    "rows gone": _rows(_without_rows),
    "rows repeated": _rows(_repeated_rows),
    "no rows": _rows(_no_rows),
    "no row groups": _no_groups,
    "other columns": _other_columns,
    "other notes": _other_notes,
    "a file of another run": _of_the_other,
    "two files swapped": _of_each_other,
    "a file is gone": _unlinked,
    "something else than a file": _special,
    "an extra file": _extra,
    "an extra pipe": _extra_pipe,
}


# --- judging --------------------------------------------------------------------------------------------------------


class Target:
    """A judged run, copies of which are damaged and judged again by one process."""

    def __init__(self, root: Path, by: Judge) -> None:
        self.run = recorded(root, "register", 5)
        self.other = recorded(root, "set", 6)
        self._by = by
        self._copy = root / "copies" / self.run.parent.name / self.run.name
        self._copy.parent.mkdir(parents=True)
        self.expected = self.judged(self.run)

    def judged(self, path: Path) -> tuple[Any, str]:
        """The verdicts of a run, or None and why there are none."""
        warned: list[str] = []
        done = many.judge_one(self._by, RunDir(path), warned.append)
        said = " ".join([done.said, *warned])
        if done.damaged:
            return None, said
        found = RunDir(path).read_verdicts()
        assert found is not None
        return [found.outcome, [(each["checker"], each["valid"], each["sentence"]) for each in found.verdicts]], said

    def problem(self, seed: int) -> tuple[str, str, str | None]:
        """What was done by this seed, what was said of it, and what is wrong with that, None if nothing is."""
        remove(self._copy)
        shutil.copytree(self.run, self._copy)
        what = Damaging(self._copy, self.other, random.Random(seed)).do()
        found, said = self.judged(self._copy)
        if found is None:
            right = str(self._copy) in said and "Traceback" not in said and "\n" not in said
            return what, said, None if right else f"it is not named well: {said}"
        return what, "", None if found == self.expected[0] else f"judged as {found}, not {self.expected[0]}"


def recorded(root: Path, workload: str, seed: int) -> Path:
    """A simulated run in a store of its own, judged."""
    store = root / workload
    done = CliRunner().invoke(splitbrain, [*RUN, "--workload", workload, "--seed", str(seed), "--store", str(store)])
    [run] = store.glob("test=*/run=*")
    assert (run / "verdict.json").is_file(), done.output
    return run


def remove(folder: Path) -> None:
    """Remove a copy, also one of deep folders."""
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    asked = parser.parse_args()
    wrong, named = 0, Counter[bool]()
    with tempfile.TemporaryDirectory(prefix="splitbrain-fuzzed-") as folder, judge(LIMITS) as by:
        target = Target(Path(folder), by)
        for seed in range(asked.first, asked.first + asked.count):
            what, said, problem = target.problem(seed)
            named[bool(said)] += 1
            if problem is not None:
                wrong += 1
                print(f"{seed}: {what}: {problem}", flush=True)
    print(f"{asked.count} damages: {named[True]} named, {named[False]} judged as before, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
