"""The machine of quorum queues: commands per CPU second, and memory, as the number of ready messages grows.

    python benchmarks/queue_machine.py [--largest 1000000] [--commands 20000] [--rounds 5]

The machine alone, in this process, without consensus, log, network and disk. A queue has 10^3 to 10^6 ready messages;
then a message is enqueued, one is delivered, and one is settled, by one publisher and one consumer with credit for 64:
so two commands come to one message that goes through the queue (an enqueue; a settle, which delivers the next one).
Each figure is the median of so many rounds of so many commands, in CPU time. The exponent of a power law is fitted to
the time of a command by least squares; 0 is constant. A snapshot is written and read once at each size; memory is what
the resident set grew by while the queue was filled.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from splitbrain.cluster.queues import ConsumerId, Process, QueueConfig, QuorumQueue
from splitbrain.cluster.queues.commands import Attach, Enqueue, Prefetch, Settle

PUBLISHER: Final = Process("publisher", "n1")
CONSUMER: Final = ConsumerId("consumer", Process("consumer", "n2"))
BODY: Final = b"x" * 100
PREFETCH: Final = 64


def filled(size: int) -> QuorumQueue:
    """A queue with so many ready messages."""
    queue = QuorumQueue(QueueConfig())
    for number in range(1, size + 1):
        queue.apply(number, 0, Enqueue(PUBLISHER, number, BODY))
    return queue


def resident_bytes() -> int:
    """The resident set of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def measured(queue: QuorumQueue, size: int, commands: int, rounds: int) -> tuple[float, float]:
    """Seconds of CPU time of an enqueue, and of a settle that delivers."""
    index, seq, settled = size + 1, size + 1, 0
    queue.apply(index, 0, Attach(CONSUMER, "auto", Prefetch(PREFETCH)))
    key = index
    enqueues, settles = list[float](), list[float]()
    for _ in range(rounds):
        to_enqueue = [Enqueue(PUBLISHER, seq + each, BODY) for each in range(commands)]
        begun = time.process_time()
        for command in to_enqueue:
            index += 1
            queue.apply(index, 0, command)
        enqueues.append((time.process_time() - begun) / commands)
        seq += commands
        to_settle = [Settle(key, (settled + each,)) for each in range(commands)]
        begun = time.process_time()
        for command in to_settle:
            index += 1
            queue.apply(index, 0, command)
        settles.append((time.process_time() - begun) / commands)
        settled += commands
    assert len(queue.state.ready) == size - PREFETCH, "as many came as went"
    return statistics.median(enqueues), statistics.median(settles)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Of the power law that fits best."""
    xs, ys = [math.log(size) for size in sizes], [math.log(each) for each in seconds]
    x, y = statistics.mean(xs), statistics.mean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    sizes = [size for size in (10**power for power in range(3, 10)) if size <= arguments.largest]
    enqueues, settles = list[float](), list[float]()
    print("ready messages   enqueue/s   settle and deliver/s   memory per message   snapshot: write, read, size")
    for size in sizes:
        gc.collect()
        before = resident_bytes()
        queue = filled(size)
        grown = (resident_bytes() - before) / size
        enqueue, settle = measured(queue, size, min(arguments.commands, 20 * size), arguments.rounds)
        begun = time.process_time()
        dumped = queue.dump()
        written = time.process_time()
        loaded = QuorumQueue.load(dumped)
        read = time.process_time()
        assert loaded.state.total == queue.state.total
        enqueues.append(enqueue)
        settles.append(settle)
        snapshot = f"{written - begun:.2f} s, {read - written:.2f} s, {len(dumped) / 2**20:.1f} MiB"
        print(
            f"{size:>14,}   {1 / enqueue:>9,.0f}   {1 / settle:>20,.0f}   {grown:>14,.0f} B     {snapshot}", flush=True
        )
        del queue, loaded, dumped
    if len(sizes) > 1:
        print(f"exponents: {exponent(sizes, enqueues):+.3f} (enqueue), {exponent(sizes, settles):+.3f} (settle)")


if __name__ == "__main__":
    main()
