"""What it costs to check small histories: whole processes of `splitbrain check`, from start to exit.

    python benchmarks/start_up.py [--repeat 5] [--against PYTHON] [FILE...]

The rows are one history of 1,000 ops of five clients on a cas-register, valid and with one wrong read; and, if files
are given, all of them in one process. CPU seconds are user and system time of the process, memory is its peak; each is
the median of the repeats. `--against` names the Python of another version's environment, which is measured in turn
with this one. Kernels are compiled beforehand: see `splitbrain prepare`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.linearizability_histories import Registers, history, lines, never_written
from splitbrain.results.arrow import write_parquet
from splitbrain.results.formats import read_table

COMMAND = "from splitbrain.harness.cli.main import main; main()"
CLIENTS, OPS, VALUES = 5, 1000, 5


def spent(python: str, files: Sequence[str]) -> tuple[float, float]:
    """CPU seconds and peak memory in MiB of one check of the files."""
    command = [python, "-P", "-c", COMMAND, "check", "--no-picture", *files]
    # As a user's second run: with the byte code that the first one wrote.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 2):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--against", metavar="PYTHON")
    parser.add_argument("files", nargs="*", metavar="FILE")
    chosen = parser.parse_args()
    pythons = [sys.executable, *([chosen.against] if chosen.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        made = history(Registers(VALUES), clients=CLIENTS, ops=OPS, seed=1)
        rows = {f"{OPS:,} ops": made, f"{OPS:,} ops, one wrong": never_written(made)}
        files: dict[str, list[str]] = {}
        for name, events in rows.items():
            source, file = Path(folder) / f"{len(files)}.jsonl", Path(folder) / f"{len(files)}.parquet"
            source.write_bytes(lines(events))
            write_parquet(read_table(source), file)
            files[name] = [str(file)]
        if chosen.files:
            files[f"{len(chosen.files)} files"] = [os.path.abspath(file) for file in chosen.files]
        print("| history | version | CPU s | MiB |\n| --- | --- | --- | --- |")
        for name, given in files.items():
            for python in pythons:
                spent(python, given)
            runs = [[spent(python, given) for python in pythons] for _ in range(chosen.repeat)]
            for number, version in enumerate(("this", "other")[: len(pythons)]):
                cpu_s = statistics.median(run[number][0] for run in runs)
                mib = statistics.median(run[number][1] for run in runs)
                print(f"| {name} | {version} | {cpu_s:.2f} | {mib:.0f} |", flush=True)


if __name__ == "__main__":
    main()
