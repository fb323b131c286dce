"""What the check of a small history loads: nothing that takes longer than the check."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from splitbrain.results.arrow import to_table, write_parquet
from splitbrain.results.formats.export import pieces
from splitbrain.results.history import Op

HEAVY = (
    *("numba", "llvmlite", "pandas", "pyspark", "scipy", "networkx", "jinja2", "rich", "docker", "paramiko"),
    *("asyncio", "concurrent.futures", "importlib.metadata", "numpy.ma", "numpy.random", "subprocess"),
)
"""What no check of a small history needs. `importlib.metadata` brings the e-mail package."""

CHECK = f"""
import sys
from splitbrain.checkers.isolation import confined
from splitbrain.harness.cli.main import main
if sys.argv.pop(1) == "here":  # so that sys.modules has what the process that judges has
    say = confined.Say(lambda message: hear(getattr(message, "value", None)), confined.DEFAULT)
    def do(self, task, found, stepped):
        global hear
        hear = lambda value: value is None or found(value)
        return confined.Done(self._work(task, say))
    confined.Confined.do = do
try:
    main(["check", "--no-picture", *sys.argv[1:]])
except SystemExit as ended:
    print("exit", ended.code)
print("loaded", sorted({set(HEAVY)!r} & set(sys.modules)))
print("functions of Arrow", "pyarrow.compute" in sys.modules)
"""


def history(ops: int, *, stale: bool) -> list[Op]:
    """Writes and reads by turns; at the end perhaps a read of what was long overwritten."""
    found: list[Op] = []
    for number in range(ops):
        written = number // 2 % 7
        wrong = stale and number >= ops - 2
        f, value = ("read", written + wrong) if number % 2 else ("write", written)
        call = Op(process=number % 3, type="invoke", f=f, value=None if f == "read" else value)
        found += [call, call.complete("ok", value)]
    return [msgspec.structs.replace(op, index=index, time=index) for index, op in enumerate(found)]


def loaded(*arguments: str, where: str = "here") -> list[str]:
    """What a check prints and has loaded: all that it does in one process, or in two as usual."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK, where, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    assert "exit" in done.stdout
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize("name", ["parquet", "jsonl", "edn"])
def test_the_check_of_a_small_history_loads_no_compiler_and_no_data_frames(
    name: str, stale: bool, tmp_path: Path
) -> None:
    table = to_table(history(1000, stale=stale))
    file = tmp_path / f"history.{name}"
    if name == "parquet":
        write_parquet(table, file)
    else:
        file.write_text("".join(text for _, text in pieces(table, name)))
    told = loaded(str(file))
    assert f"exit {int(stale)}" in told
    assert "loaded []" in told
    if name == "parquet":
        assert told[-1] == "functions of Arrow False"
    apart = loaded(str(file), where="apart")
    assert "loaded []" in apart
    assert f"exit {int(stale)}" in apart


def console_log(*, stale: bool) -> str:
    """A cas-register as etcd's tests by Jepsen log it."""
    said = {"invoke": "nil", "ok": "{}"}
    lines: list[str] = []
    for op in history(200, stale=stale):
        value = said[op.type].format(op.value) if op.f == "read" else op.value
        lines.append(f"INFO  jepsen.util - {op.process}\t:{op.type}\t:{op.f}\t{value}\n")
    return "".join(lines)


def key_value_log(*, stale: bool) -> str:
    """Five keys of a store, each put and got by turns."""
    said = {("write", "invoke"): ":put", ("write", "ok"): ":put", ("read", "invoke"): ":get", ("read", "ok"): ":get"}
    return "".join(
        f'{{:process {5 * op.process + key}, :type :{op.type}, :f {said[op.f, op.type]}, :key "{key}", '
        f":value {'nil' if op.value is None else chr(34) + str(op.value) + chr(34)}}}\n"
        for op in history(200, stale=stale)
        for key in range(5)
    )


def compact(*, stale: bool) -> str:
    """A cas-register, a call or a return a line."""
    lines: list[str] = []
    for op in history(200, stale=stale):
        number = op.index // 2
        f, value = ("read", "write").index(op.f), -1 if op.value is None else op.value
        called = f"c {number} {op.process} {f} {value} -1\n"
        lines.append(called if op.type == "invoke" else f"r {number} ok {value}\n")
    return "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize(
    ("model", "text"),
    [("cas-register", console_log), ("kv", key_value_log), ("cas-register", compact), ("register", compact)],
)
def test_nor_do_the_logs_of_others_wrong_or_not(
    model: str, text: Callable[..., str], stale: bool, tmp_path: Path
) -> None:
    file = tmp_path / "history.log"
    file.write_text(text(stale=stale))
    told = loaded("--model", model, str(file))
    assert f"exit {int(stale)}" in told
    assert "loaded []" in told


@pytest.mark.skipif("SPLITBRAIN_CORPORA" not in os.environ, reason="SPLITBRAIN_CORPORA names no folder of histories")
def test_nor_do_published_violations_of_one_register() -> None:
    logs = Path(os.environ["SPLITBRAIN_CORPORA"]) / "porcupine-etcd"
    told = loaded(*map(str, sorted(logs.rglob("*.log"))[:8]))
    assert "exit 1" in told
    assert "loaded []" in told


@pytest.mark.slow
def test_a_simulated_run_and_its_page_load_no_data_frames(tmp_path: Path) -> None:
    program = """
import sys
from splitbrain.harness.cli.main import main
try:
    main(["run", "--backend", "sim", "--time-limit", "2", "--seed", "3"])
except SystemExit as ended:
    print("exit", ended.code)
print("loaded", sorted({"pandas", "pyspark"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert "report.html" in done.stdout
    assert "loaded []" in done.stdout
