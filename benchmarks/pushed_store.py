"""`splitbrain push` and `analyze` of a store behind an address, beside the same store on this disk.

    python benchmarks/pushed_store.py [--runs 100] [--different 12] [--to URL] [--seconds 5] [--rate 40] [--jobs N]
                                      [--json]

The store has runs of the nightly matrix of `analyze_scale.py`, copies of `--different` simulated ones. Without `--to`
they are pushed to a service of the benchmark's own on loopback (moto, which is written in Python, answers one request
at a time, and shares the processors: what it uses is not counted, but waited for).

Each pass is one command, in a process of its own: CPU seconds are those of it and of its children. Analyses
write the pages of runs that did not pass, here and there; pages are counted, and their cost is in that of the analysis.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import msgspec
from pyarrow import fs

from benchmarks.analyze_again import copied
from benchmarks.analyze_scale import COMMAND, fill
from splitbrain.results.remote.runs import RemoteStore

BUCKET: Final = "runs"
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "benchmark",
    "AWS_SECRET_ACCESS_KEY": "benchmark",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_HOME: Final = Path(__file__).resolve().parent.parent
_UP_WITHIN_S: Final = 60.0


class Pass(msgspec.Struct, frozen=True):
    """One command: what it did, its last line, pages that are there then, and what it took."""

    what: str
    said: str
    pages: int
    seconds: float
    cpu_s: float


@contextlib.contextmanager
def service() -> Generator[str]:
    """The address of a store on loopback, empty."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until_s = time.monotonic() + _UP_WITHIN_S
        while time.monotonic() < until_s:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        endpoint = f"http://127.0.0.1:{port}"
        fs.S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True).create_dir(BUCKET)
        yield f"s3://{BUCKET}/night?endpoint_override={endpoint}"
    finally:
        server.terminate()
        server.wait()


def timed(what: str, *arguments: str, pages: str) -> Pass:
    """Run the command; `pages` is the store whose pages are counted afterwards."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=_HOME,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, used = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{what}: exit {done.returncode}\n{done.stderr}")
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    found = Pass(what, done.stdout.strip().splitlines()[-1], _pages(pages), round(seconds, 2), round(cpu_s, 2))
    print(found, file=sys.stderr)
    return found


def _pages(store: str) -> int:
    if "://" not in store:
        return len(list(Path(store).glob("test=*/run=*/report.html")))
    return sum(each.path.endswith("/report.html") for each in RemoteStore(store).objects.listed("", deep=True))


def measure(root: Path, address: str) -> list[Pass]:
    """All passes."""
    here, there = ("--engine", "inline", "--store", str(root)), ("--engine", "inline", "--store", address)
    return [
        timed("push", "push", "--store", str(root), "--to", address, pages=address),
        timed("push again", "push", "--store", str(root), "--to", address, pages=address),
        timed("analyze, pushed", "analyze", *there, pages=address),
        timed("analyze, pushed, nothing changed", "analyze", *there, pages=address),
        timed("analyze, local", "analyze", *here, pages=str(root)),
        timed("analyze, local, nothing changed", "analyze", *here, pages=str(root)),
    ]


def main() -> None:
    """Make the store, measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="size of the store")
    parser.add_argument("--different", type=int, default=12, help="number of runs that are simulated")
    parser.add_argument("--to", help="the address of an empty store  [default: moto on loopback]")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long faults and load of a run last")
    parser.add_argument("--rate", type=float, default=40.0, help="ops a second of a run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that make runs")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.to is None:
        os.environ.update(CREDENTIALS)
    with (
        tempfile.TemporaryDirectory(prefix="splitbrain-pushed-") as folder,
        contextlib.nullcontext(chosen.to) if chosen.to else service() as address,
    ):
        different = fill(Path(folder) / "different", chosen.different, chosen.jobs, chosen.seconds, chosen.rate)
        root = Path(folder) / "store"
        copied(different, root, chosen.runs)
        passes = measure(root, address)
    machine = f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}"
    if chosen.json:
        json.dump({"machine": machine, "passes": msgspec.to_builtins(passes)}, sys.stdout, indent=2)
        print()
        return
    print(f"{machine}; load of the machine {os.getloadavg()[0]:.1f} at the end; {chosen.runs} runs")
    print("| command | it says | pages there | seconds | CPU seconds |")
    print("| --- | --- | ---: | ---: | ---: |")
    for each in passes:
        print(f"| {each.what} | {each.said} | {each.pages} | {each.seconds:.2f} | {each.cpu_s:.2f} |")


if __name__ == "__main__":
    main()
