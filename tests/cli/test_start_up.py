"""What the check of a small history loads: nothing that takes longer than the check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from results.arrow import to_table, write_parquet
from results.formats.export import pieces
from results.history import Op

HEAVY = ("numba", "llvmlite", "pandas", "pyspark", "scipy", "networkx", "jinja2", "rich", "docker", "paramiko")

CHECK = f"""
import sys
from harness.cli.main import main
try:
    main(["check", "--no-picture", *sys.argv[1:]])
except SystemExit as ended:
    print("exit", ended.code)
print("loaded", sorted({set(HEAVY)!r} & set(sys.modules)))
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


def loaded(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CHECK, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    assert "exit" in done.stdout
    return done.stdout.splitlines()


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
    assert told[-1] == "loaded []"
