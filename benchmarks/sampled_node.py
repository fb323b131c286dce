"""A node that writes down where its CPU time goes: `python -m benchmarks.sampled_node FILE ...`.

The rest of the command line is that of `python -m splitbrain.cluster`. A timer of the process's CPU time takes a sample
of the stack every few milliseconds (the kernel's tick), which costs next to nothing: unlike under a tracing profiler,
small functions look no larger than they are. When the node stops, FILE gets what was counted, as JSON (`Samples`).

A sample belongs to the innermost function of the cluster on the stack, so that what that calls of Python's library, of
C and of the kernel is its own. What the event loop does by itself is "asyncio", the calls that look for events
included. The thread that syncs is not seen: its little CPU time counts for what the loop does meanwhile.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from splitbrain import cluster
from splitbrain.cluster.__main__ import main

INTERVAL_S: Final = 0.001
LOOP: Final = "asyncio"

_FOLDER: Final = str(Path(cluster.__path__[0]).resolve())


class Samples(msgspec.Struct):
    """How many samples fell on each function of the cluster, by `module:function`."""

    functions: dict[str, int]


class Sampler:
    """Counts from `start` on."""

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Take samples from now on; in the main thread."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)

    def stop(self) -> Samples:
        """What was counted."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        named: Counter[str] = Counter()
        for (file, function), count in self._found.items():
            named[_name(file, function)] += count
        return Samples(dict(named.most_common()))

    def _sample(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            file = frame.f_code.co_filename
            if "/cluster/" in file and not file.endswith("__main__.py"):
                self._found[file, frame.f_code.co_qualname] += 1
                return
            frame = frame.f_back
        self._found[LOOP, ""] += 1


def _name(file: str, function: str) -> str:
    if file == LOOP:
        return LOOP
    module = Path(file).resolve().relative_to(_FOLDER).with_suffix("")
    return f"{module}:{function}"


def run(arguments: list[str]) -> int:
    """Run one node; its exit code."""
    file, *rest = arguments
    sampler = Sampler()
    sampler.start()
    try:
        return main(rest)
    finally:
        Path(file).write_bytes(msgspec.json.encode(sampler.stop()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run(sys.argv[1:]))
    print("cluster_throughput.py --profile starts this.")
