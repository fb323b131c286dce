"""A store with every kind of damage: each sound run is judged as alone, each bad one named with its cause.

    python -m tests.cli.damaged_store --runs 1000 [--engine inline|spark] [--master local[2]] [--keep FOLDER]
                                      [--standalone]

lays a store of so many runs, every second one damaged, has the command judge it, and compares. With `--standalone` a
cluster of two workers judges it, on this machine's loopback, and one of them is killed with all its processes once
judging has begun. A small store is a test (`tests/cli/test_every_damage.py`), one on a standalone cluster another
(`tests/spark/test_standalone_damage.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.columns import array
from splitbrain.results.madefrom import Basis
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from splitbrain.results.telemetry import table_of
from tests.cli.damage import WITHIN
from tests.spark.support import REGISTER, SET, crashed, register_history, set_history, stored

WALL_NS: Final = 1_790_000_000_000_000_000
COMMAND: Final = "from splitbrain.harness.cli.main import main; main()"
TIME_S, MEMORY_MB = 3, 256
"""The limits: a sound run of this store takes a hundredth of them."""

CHECKERS: Final = """
import os, signal, sys, time
from splitbrain.checkers.verdict import Verdict


class Sound:
    name = "ruinous"
    partition = "run"

    def check(self, history, options):
        self.ruin()
        return Verdict(checker=self.name, valid="true")

    def ruin(self):
        pass

    def merge(self, verdicts, options):
        return list(verdicts)[0]


class Raises(Sound):
    def ruin(self):
        open(os.path.join(os.path.dirname(__file__), f"begun-{os.getpid()}"), "w").close()
        raise ZeroDivisionError("nothing fits")


class Recursive(Sound):
    def ruin(self):
        self.ruin()


class Exits(Sound):
    def ruin(self):
        sys.exit(0)


class EndsItsProcess(Sound):
    def ruin(self):
        os._exit(0)


class IsKilled(Sound):
    def ruin(self):
        os.kill(os.getpid(), signal.SIGKILL)


class IsKilledWhileMerging(Sound):
    def merge(self, verdicts, options):
        os.kill(os.getpid(), signal.SIGKILL)


class Crashes(Sound):
    def ruin(self):
        import ctypes
        ctypes.string_at(1)


class NeverEnds(Sound):
    def ruin(self):
        while True:
            pass


class Waits(Sound):
    def ruin(self):
        time.sleep(10_000)


class EatsMemory(Sound):
    def ruin(self):
        eaten = []
        while True:
            eaten.append(bytes(1 << 20))


class ClosesAllFiles(Sound):
    def ruin(self):
        os.closerange(3, 1000)


class LeavesAChild(Sound):
    def ruin(self):
        if os.fork():
            os._exit(1)
        time.sleep(5)
        os._exit(0)


class AnswersNothing(Sound):
    def check(self, history, options):
        return None
"""
"""The module `ruinous`."""

MODULES: Final = {
    "ruinous": CHECKERS,
    "ruinous_import": "import a_module_that_is_not_there\n",
    "ruinous_exit": "import sys\nsys.exit(0)\n",
    "ruinous_end": "import os\nos._exit(0)\n",
    "ruinous_syntax": "class Checker(:\n",
}


@dataclass(frozen=True)
class Kind:
    """A kind of damage.

    Attributes:
        damage: does it to the folder of a run.
        cause: what the error must say, a pattern.
        verdicts: whether the run has verdicts all the same: of the checkers that are sound.
        harmless: whether it is to be judged as if nothing had been done to it.
    """

    damage: Callable[[Path], None]
    cause: str
    verdicts: bool = False
    harmless: bool = False


# --- files ----------------------------------------------------------------------------------------------------------


def _replaced(name: str, content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        before = (run / name).read_bytes()
        (run / name).unlink()
        (run / name).write_bytes(content(before))

    return damage


def _instead(name: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        make(run / name)

    return damage


def _flipped(content: bytes) -> bytes:
    """A bit of every byte of the pages, none of the footer."""
    footer = int.from_bytes(content[-8:-4], "little") + 8
    return content[:4] + bytes(each ^ 1 for each in content[4:-footer]) + content[-footer:]


def _looped(path: Path) -> None:
    path.symlink_to(path.name)


def _socket(path: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    before = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    try:
        made.bind(path.name)
    finally:
        os.chdir(before)
        made.close()


def _wide(path: Path) -> None:
    """A small file of very many rows: it says so itself, and only memory ends the reading."""
    rows = 60_000_000
    zeros: Any = np.zeros(rows, np.int64)
    pq.write_table(pa.Table.from_pydict({"index": zeros, "time": zeros}), path, compression="zstd")


def _rewritten(change: Callable[[pa.Table], pa.Table], name: str = "history.parquet") -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        table = pq.read_table(run / name, partitioning=None)  # pyright: ignore[reportUnknownVariableType]
        (run / name).unlink()
        pq.write_table(change(table), run / name)

    return damage


def _leapt(column: str) -> Callable[[pa.Table], pa.Table]:
    """The highest bit but one of the first number is set."""

    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        damaged = next(row for row in rows if row[column] is not None)
        damaged[column] |= 1 << 62
        return pa.Table.from_pylist(rows, table.schema)

    return change


def _cells(column: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    """A column has other cells, and each of them could be."""

    def changed(table: pa.Table) -> pa.Table:
        at, found = table.schema.names.index(column), table.column(column)
        cells = array(change(found.to_pylist()), found.type)
        return table.set_column(at, cast("Any", table.schema.field(column)), cells)

    return changed


def _of_a_neighbour(name: str) -> Callable[[Path], None]:
    """A file is that of a run of another test."""

    def damage(run: Path) -> None:
        others = run.parent.parent.glob("test=*/run=*")
        other = next(each for each in sorted(others) if each.parent != run.parent and (each / name).is_file())
        _replaced(name, lambda _: (other / name).read_bytes())(run)

    return damage


def _document(change: Callable[[dict[str, Any]], object], name: str = "test.json") -> Callable[[Path], None]:
    """A JSON file says something else."""

    def damage(run: Path) -> None:
        document = json.loads((run / name).read_bytes())
        change(document)
        (run / name).unlink()
        (run / name).write_text(json.dumps(document))

    return damage


def _changed_verdict(run: Path) -> None:
    """A pass is written over the violation that was found."""
    basis = Basis(inputs={}, checkers=[], code={}, limits={})
    RunDir(run).write_verdicts([], "violation", basis=basis)
    _document(lambda document: document.update(outcome="pass"), "verdict.json")(run)


def _as_of_an_earlier_version(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """The run has no checksums: what its files say shows the damage, or nothing does."""

    def without(run: Path) -> None:
        (run / CHECKSUMS).unlink()
        damage(run)

    return without


def _beside(run: Path) -> None:
    """Files and folders that no run has, one of them with the name of a store's run."""
    for name in ("a\nname", "ü" * 100, "x" * 255, ".history.parquet.1.tmp"):
        (run / name).write_bytes(b"\0")
    os.mkfifo(run / "pipe")
    (run / "linked").symlink_to(run)
    nested = run / "test=inner" / "run=20260101T000000.000Z-1"
    nested.mkdir(parents=True)
    (nested / "test.json").write_bytes(b"{")


def _of_another_run(run: Path) -> None:
    """The nodes of the run are others than those in its telemetry."""
    document = json.loads((run / "test.json").read_bytes())
    (run / "test.json").unlink()
    (run / "test.json").write_text(json.dumps({**document, "telemetry": {"n9": "nodes/n9/telemetry.jsonl"}}))


def _unreadable(run: Path) -> None:
    _replaced("history.parquet", lambda content: content)(run)
    (run / "history.parquet").chmod(0)


def _checkers(*specs: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        known = RunDir(run).read_test()["checkers"]
        others: list[dict[str, Any]] = [{"name": name, "options": {}} for name in specs]
        (run / "test.json").write_bytes((run / "test.json").read_bytes())
        RunDir(run).amend_test(checkers=[known[0], *others, *known[1:]] if specs else [])

    return damage


def _ruinous(name: str, cause: str) -> Kind:
    return Kind(_checkers(f"ruinous:{name}"), f"checker 'ruinous:{name}' (broke while|cannot judge).*{cause}", True)


def _unloaded(module: str, cause: str) -> Kind:
    return Kind(_checkers(f"{module}:Checker"), f"checker '{module}:Checker' (broke while|cannot judge).*{cause}", True)


HISTORY, TEST, TELEMETRY, VERDICT, SUMS = (
    re.escape(name) for name in ("history.parquet", "test.json", "telemetry.parquet", "verdict.json", CHECKSUMS)
)
OTHER: Final = "its checksum is another"
KINDS: Final[Mapping[str, Kind]] = {
    "history cut off": Kind(_replaced("history.parquet", lambda content: content[: len(content) // 2]), HISTORY),
    "history with flipped bits": Kind(_replaced("history.parquet", _flipped), HISTORY),
    "history of a huge footer": Kind(
        _replaced("history.parquet", lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1"), HISTORY
    ),
    "history that is empty": Kind(_replaced("history.parquet", lambda _: b""), HISTORY),
    "history that is gone": Kind(lambda run: (run / "history.parquet").unlink(), f"{HISTORY}.*is gone"),
    "history that is gone from a run of an earlier version": Kind(
        _as_of_an_earlier_version(lambda run: (run / "history.parquet").unlink()), "has no history"
    ),
    "history of another run": Kind(_of_a_neighbour("history.parquet"), f"{HISTORY}.*{OTHER}"),
    "history of one term": Kind(_rewritten(_cells("term", lambda cells: [9] * len(cells))), f"{HISTORY}.*{OTHER}"),
    "history of values in another order": Kind(
        _rewritten(_cells("value", lambda cells: cells[::-1])), f"{HISTORY}.*({OTHER}|damaged)"
    ),
    "history of one process": Kind(
        _rewritten(_cells("process", lambda cells: [0] * len(cells))), f"{HISTORY}.*({OTHER}|note)"
    ),
    "history without its last rows": Kind(
        _rewritten(lambda table: table.slice(0, table.num_rows - 3)), f"{HISTORY}.*{OTHER}"
    ),
    "history without rows": Kind(_rewritten(lambda table: table.slice(0, 0)), f"{HISTORY}.*{OTHER}"),
    "history that was written again": Kind(_rewritten(lambda table: table), f"{HISTORY}.*{OTHER}"),
    "history that links nowhere": Kind(
        _instead("history.parquet", lambda path: path.symlink_to("nowhere")), f"{HISTORY}.*No such file"
    ),
    "history that links to zeros": Kind(
        _instead("history.parquet", lambda path: path.symlink_to("/dev/zero")), f"{HISTORY}.*not a plain file"
    ),
    "history that is a folder": Kind(_instead("history.parquet", Path.mkdir), f"{HISTORY}.*folder"),
    "history that is a pipe": Kind(_instead("history.parquet", os.mkfifo), f"{HISTORY}.*not a plain file"),
    "history that is a socket": Kind(_instead("history.parquet", _socket), f"{HISTORY}.*not a plain file"),
    "history that links to itself": Kind(_instead("history.parquet", _looped), f"{HISTORY}.*symbolic link"),
    "history of millions of zeros": Kind(_instead("history.parquet", _wide), f"{HISTORY}.*memory"),
    "history of other columns": Kind(_rewritten(WITHIN["other columns"]), f"{HISTORY}.*no column"),
    "history of texts for numbers": Kind(_rewritten(WITHIN["processes that are texts"]), f"{HISTORY}.*'process'"),
    "history of duplicate indexes": Kind(_rewritten(WITHIN["duplicate indexes"]), f"{HISTORY}.*index"),
    "history of times that go back": Kind(_rewritten(WITHIN["times that go back"]), f"{HISTORY}.*times go back"),
    "history of a damaged note": Kind(
        _rewritten(WITHIN["a damaged note of the harness"]),
        f"{HISTORY}.*op 0: the harness's note 'recovered' is damaged",
    ),
    "history of a damaged report": Kind(
        _rewritten(WITHIN["a damaged report of a nemesis"]), f"{HISTORY}.*op 0: the report of nemesis op 'kill'"
    ),
    "telemetry of a huge index": Kind(
        _rewritten(_leapt("commit_index"), "telemetry.parquet"), f"{TELEMETRY}.*commit_index is 8 .*{2**62 + 7}"
    ),
    "telemetry of a huge term": Kind(
        _rewritten(_leapt("term"), "telemetry.parquet"), f"{TELEMETRY}.*term is 1 .*{2**62 + 1}"
    ),
    "telemetry of another run": Kind(
        _as_of_an_earlier_version(_of_another_run), f"{TELEMETRY}.*'n1', which test.json does not know"
    ),
    "telemetry of one term": Kind(
        _rewritten(_cells("term", lambda cells: [1] * len(cells)), "telemetry.parquet"), f"{TELEMETRY}.*{OTHER}"
    ),
    "telemetry of one node": Kind(
        _rewritten(_cells("node", lambda cells: ["n2"] * len(cells)), "telemetry.parquet"), f"{TELEMETRY}.*{OTHER}"
    ),
    "telemetry of one time": Kind(
        _rewritten(_cells("time", lambda cells: [0] * len(cells)), "telemetry.parquet"), f"{TELEMETRY}.*{OTHER}"
    ),
    "telemetry without rows": Kind(
        _rewritten(lambda table: table.slice(0, 0), "telemetry.parquet"), f"{TELEMETRY}.*{OTHER}"
    ),
    "telemetry that is gone": Kind(lambda run: (run / "telemetry.parquet").unlink(), f"{TELEMETRY}.*is gone"),
    "telemetry that is a pipe": Kind(_instead("telemetry.parquet", os.mkfifo), f"{TELEMETRY}.*not a plain file"),
    "marks that were not there": Kind(lambda run: _write(run / "marks.json", b'{"a": 1}\n'), "", harmless=True),
    "checksums that are gone": Kind(lambda run: (run / CHECKSUMS).unlink(), "", harmless=True),
    "checksums that are no JSON": Kind(_replaced(CHECKSUMS, lambda _: b"{"), f"{SUMS}.*damaged"),
    "checksums that are empty": Kind(_replaced(CHECKSUMS, lambda _: b""), f"{SUMS}.*damaged"),
    "checksums of a changed digest": Kind(
        _document(lambda document: document["files"].update({"history.parquet": "0" * 32}), CHECKSUMS),
        f"{SUMS}.*its own checksum is another",
    ),
    "checksums of the future": Kind(
        _document(lambda document: document.update(format=99), CHECKSUMS), f"{SUMS}.*format 99"
    ),
    "checksums that are a pipe": Kind(_instead(CHECKSUMS, os.mkfifo), f"{SUMS}.*not a plain file"),
    "a verdict that was changed": Kind(_changed_verdict, f"{VERDICT}.*its seal is another"),
    "a write-ahead file beside the history": Kind(
        lambda run: _write(run / "history.wal", b"SBHIST\r\n\1\0\0\0"), "", harmless=True
    ),
    "what no run has": Kind(_beside, "", harmless=True),
    "history of values that are no JSON": Kind(_rewritten(WITHIN["values that are not JSON"]), f"{HISTORY}.*JSON"),
    "test.json that is gone": Kind(lambda run: (run / "test.json").unlink(), TEST),
    "test.json that is empty": Kind(_replaced("test.json", lambda _: b""), TEST),
    "test.json that is no UTF-8": Kind(_replaced("test.json", lambda _: b'{"format": 1, "test": "\xff\xfe"}'), TEST),
    "test.json of endless brackets": Kind(
        _replaced("test.json", lambda _: b'{"format": 1, "nodes": ' + b"[" * 1_000_000), TEST
    ),
    "test.json of a huge number": Kind(
        _replaced("test.json", lambda content: content.replace(b'"seed"', b'"seed": ' + b"9" * 100_000 + b', "x"', 1)),
        TEST,
    ),
    "test.json of the future": Kind(_replaced("test.json", lambda _: b'{"format": 99}'), f"{TEST}.*format 99"),
    "test.json of another seed": Kind(_document(lambda document: document.update(seed=99)), f"{TEST}.*{OTHER}"),
    "test.json of fewer checkers": Kind(
        _document(lambda document: document.update(checkers=document["checkers"][1:])), f"{TEST}.*{OTHER}"
    ),
    "test.json of another run": Kind(_of_a_neighbour("test.json"), f"{TEST}.*{OTHER}"),
    "test.json that is a pipe": Kind(_instead("test.json", os.mkfifo), f"{TEST}.*not a plain file"),
    "test.json that is a folder": Kind(_instead("test.json", Path.mkdir), f"{TEST}.*folder"),
    "test.json without checkers": Kind(_checkers(), f"{TEST}.*no checker"),
    "telemetry cut off": Kind(_replaced("telemetry.parquet", lambda content: content[:100]), TELEMETRY),
    "telemetry with flipped bits": Kind(_replaced("telemetry.parquet", _flipped), TELEMETRY),
    "telemetry that is a folder": Kind(_instead("telemetry.parquet", Path.mkdir), f"{TELEMETRY}.*folder"),
    "telemetry that links to itself": Kind(_instead("telemetry.parquet", _looped), f"{TELEMETRY}.*symbolic link"),
    "verdict.json that is no JSON": Kind(_instead("verdict.json", lambda path: _write(path, b"{")), VERDICT),
    "verdict.json that is a folder": Kind(_instead("verdict.json", Path.mkdir), VERDICT),
    "a checker that raises": _ruinous("Raises", "ZeroDivisionError: nothing fits"),
    "a checker that calls itself": _ruinous("Recursive", "RecursionError"),
    "a checker that exits": _ruinous("Exits", "SystemExit: 0"),
    "a checker that ends its process": _ruinous("EndsItsProcess", "exit code 0"),
    "a checker that is killed": _ruinous("IsKilled", "SIGKILL"),
    "a checker that is killed while it merges": _ruinous("IsKilledWhileMerging", "SIGKILL"),
    "a checker that crashes": _ruinous("Crashes", "SIGSEGV"),
    "a checker that never ends": _ruinous("NeverEnds", f"limit of {TIME_S} CPU seconds"),
    "a checker that waits for ever": _ruinous("Waits", "used no processor"),
    "a checker that eats memory": _ruinous("EatsMemory", "memory"),
    "a checker that closes all files": _ruinous("ClosesAllFiles", "(ended|closed)"),
    "a checker that leaves a child": _ruinous("LeavesAChild", "exit code 1"),
    "a checker that answers nothing": _ruinous("AnswersNothing", "must return a Verdict"),
    "a checker that is not there": _ruinous("Absent", "cannot be imported"),
    "a checker without a module": _unloaded("ruinous_absent", "No module named"),
    "a checker whose module lacks another": _unloaded("ruinous_import", "a_module_that_is_not_there"),
    "a checker of wrong syntax": _unloaded("ruinous_syntax", "SyntaxError"),
    "a checker whose module exits": _unloaded("ruinous_exit", "SystemExit"),
    "a checker whose module ends the process": _unloaded("ruinous_end", "exit code 0"),
    **({} if os.geteuid() == 0 else {"history that may not be read": Kind(_unreadable, f"{HISTORY}.*denied")}),
}


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


# --- the store ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Laid:
    """A run of the store: its folder, the kind of damage or "", and what its own checkers find in a sound one."""

    path: Path
    kind: str
    expected: list[dict[str, Any]]


def lay(root: Path, runs: int, kinds: Sequence[str]) -> list[Laid]:
    """A store of so many runs: sound ones of five sorts, one of them violated, and after each a damaged one."""
    modules(root.parent / "modules")
    made = root.parent / "templates"
    templates = [_with_telemetry(run) for run in _templates(Store(made))]
    expected = [comparable(_alone(run)) for run in templates]
    first: dict[str, Path] = {}
    found: list[Laid] = []
    for number in range(runs):
        sort, kind = number // 2 % len(templates), kinds[number // 2 % len(kinds)] if number % 2 else ""
        run = root / f"test=t{sort}" / f"run=20260101T000000.{number:03d}Z-{number}"
        if kind in first and "socket" not in kind and "no run has" not in kind:
            shutil.copytree(first[kind], run, symlinks=True, copy_function=_linked)
        else:
            shutil.copytree(templates[sort].path, run)
            if kind:
                KINDS[kind].damage(run)
                first[kind] = run
        found.append(Laid(run, kind, expected[_sort_of(first[kind]) if kind else sort]))
    shutil.rmtree(made)
    return found


def _sort_of(run: Path) -> int:
    return int(run.parent.name.removeprefix("test=t"))


def _linked(source: str, target: str) -> None:
    """The damage of a large file is there once; nothing writes into a file of a store."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def modules(folder: Path) -> None:
    """Write the modules of checkers."""
    folder.mkdir(exist_ok=True)
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)


def _templates(store: Store) -> list[RunDir]:
    safety = CheckerSpec("election-safety")
    killed = crashed(store, "t", 5, set_history(20), (*SET, safety))
    killed.finish_history()
    return [
        stored(store, "t", 1, register_history(1, 3, 30), (*REGISTER, safety)),
        stored(store, "t", 2, register_history(2, 3, 30, stale=[1]), (*REGISTER, safety)),
        stored(store, "t", 3, set_history(40), (*SET, safety)),
        stored(store, "t", 4, set_history(40, lost=[17]), (*SET, safety)),
        killed,
    ]


def _with_telemetry(run: RunDir) -> RunDir:
    lines = [
        {"wall": WALL_NS, "event": "role", "term": 1, "role": "leader", "leader": "n1"},
        {"wall": WALL_NS + 1, "event": "commit", "term": 1, "commit": 7},
        {"wall": WALL_NS + 2, "event": "commit", "term": 1, "commit": 8},
    ]
    raw = [(number, json.dumps(line, separators=(",", ":")).encode()) for number, line in enumerate(lines)]
    run.write_telemetry(table_of({"n1": raw}))
    run.amend_test(began_wall_ns=WALL_NS)
    return run


def _alone(run: RunDir) -> list[Verdict]:
    from splitbrain.checkers.stored import specs_for

    return engine.judge_each(run.history(), specs_for(run), run.telemetry())


def comparable(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Verdicts as verdict.json has them, without what depends on time."""
    from splitbrain.results.judgement import plain_verdict

    return [timeless(msgspec.json.decode(msgspec.json.encode(plain_verdict(each)))) for each in verdicts]


def timeless(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: timeless(value) for key, value in found.items() if "seconds" not in str(key)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [timeless(each) for each in found] if isinstance(found, list) else found  # pyright: ignore[reportUnknownVariableType]


# --- judging it -----------------------------------------------------------------------------------------------------


def analyzed(root: Path, *options: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """What the command answers on the store; `before`: Python that is run before it. Its temporary files lie apart."""
    temporary = root.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(root.parent / "modules"), *(path for path in sys.path if path)]),
    }
    limits = ["--checker-time", str(TIME_S), "--checker-memory", str(MEMORY_MB)]
    words = [sys.executable, "-c", before + COMMAND, "analyze", "--json", "--store", str(root), *limits, *options]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def problems(laid: Sequence[Laid], done: subprocess.CompletedProcess[str]) -> list[str]:
    """Where the answer is not as it must be, in words."""
    try:
        answers = {each["run"]: each for line in done.stdout.splitlines()[:-1] if (each := json.loads(line))}
    except ValueError:
        return [f"no answer, exit code {done.returncode}: {done.stdout[-2000:]} {done.stderr[-4000:]}"]
    found = [f"{each.path} ({each.kind or 'sound'}): {why}" for each in laid if (why := _problem(each, answers))]
    if "Traceback" in done.stderr:
        found.append(f"a traceback: {done.stderr[done.stderr.index('Traceback') :][:2000]}")
    if done.returncode != 1:
        found.append(f"exit code {done.returncode}, and there are violations")
    return found


def _problem(each: Laid, answers: Mapping[str, Any]) -> str | None:
    answer = answers.get(str(each.path))
    if answer is None:
        return "it is not in the answer"
    verdicts = [timeless(verdict) for verdict in answer["verdicts"]]
    if not each.kind or KINDS[each.kind].harmless:
        return None if verdicts == each.expected else f"it was judged as {verdicts}, not {each.expected}"
    said, kind = str(answer["harness_error"]), KINDS[each.kind]
    if not re.search(kind.cause, said, re.DOTALL):
        return f"its error is {said!r}, without {kind.cause!r}"
    if not kind.verdicts:
        right = answer["outcome"] == "harness error" and str(each.path) in said and not verdicts
        return None if right else f"outcome {answer['outcome']}, error {said!r}, {len(verdicts)} verdicts"
    sound = [verdict for verdict in verdicts if not verdict["checker"].startswith("ruinous")]
    outcome = "violation" if any(verdict["valid"] is False for verdict in each.expected) else "harness error"
    right = sound == each.expected and answer["outcome"] == outcome and len(verdicts) == len(sound) + 1
    return None if right else f"outcome {answer['outcome']}, verdicts {verdicts}, of sound checkers {each.expected}"


def on_a_cluster(folder: Path, laid: Sequence[Laid]) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The answer of a cluster that loses a worker, and what is wrong with it."""
    from tests.spark.killed_worker import analyzed_with_a_worker_killed

    sys.path.insert(0, str(folder / "modules"))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    done, log = analyzed_with_a_worker_killed(folder / "store", folder / "daemons")
    found = problems(laid, done)
    if "without Spark" in done.stderr:
        found.append("runs were judged without Spark")
    if "Removing worker" not in log:
        found.append("the master does not know that a worker is gone")
    return done, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--engine", choices=["inline", "spark"], default="inline")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--standalone", action="store_true")
    asked = parser.parse_args()
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="splitbrain-damaged-"))
    folder.mkdir(exist_ok=True)
    laid = lay(folder / "store", asked.runs, list(KINDS))
    if asked.standalone:
        done, found = on_a_cluster(folder, laid)
    else:
        options = ["--engine", "inline"] if asked.engine == "inline" else ["--master", asked.master]
        done = analyzed(folder / "store", *options)
        found = problems(laid, done)
    print("\n".join(found))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = Counter(line["outcome"] for line in lines if line["kind"] == "run")
    print(f"{len(laid)} runs, {len({each.kind for each in laid} - {''})} kinds of damage: {dict(outcomes)}")
    spent = "" if asked.standalone else f"; {used.ru_utime + used.ru_stime:.1f} CPU seconds"
    print(f"{len(found)} problems{spent}; load of the machine {os.getloadavg()[0]:.0f}")
    if asked.keep is None:
        shutil.rmtree(folder)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
