"""Replicas that apply the same log have the same state and say the same, also in processes with other hash seeds."""

from __future__ import annotations

import os
import random
import subprocess
import sys

from splitbrain.cluster.queues import Process, QueueCommand, QueueConfig, QuorumQueue
from splitbrain.cluster.queues.commands import (
    Attach,
    AttachDeadLetterWorker,
    Cancel,
    Credit,
    Credited,
    Discard,
    Enqueue,
    Expire,
    Mode,
    Modify,
    NodeUp,
    Prefetch,
    ProcessDown,
    PurgeNodes,
    Return,
    Settle,
    SettleDeadLetters,
    UpdateConfig,
)
from tests.cluster.queues.machine import consumer

COMMANDS = 3000


def some_log(seed: int) -> list[QueueCommand]:
    """Commands as many processes on four nodes might send them."""
    rng = random.Random(seed)
    processes = [Process(name, node) for name in ("p", "q", "c") for node in ("n1", "n2", "n3", "n4")]
    seqs = dict.fromkeys(processes, 0)
    keys = list[int]()
    log = list[QueueCommand]()
    for index in range(1, COMMANDS + 1):
        publisher, tag, node = rng.choice(processes), rng.choice("abcdef"), rng.choice(("n1", "n2", "n3", "n4"))
        seqs[publisher] += 1
        ids = tuple(rng.randrange(12) for _ in range(3))
        key = rng.choice(keys) if keys else 1
        mode: Mode = Prefetch(rng.randrange(1, 9)) if rng.random() < 0.7 else Credited(0)
        made: list[QueueCommand] = [
            Enqueue(publisher, seqs[publisher], b"x" * rng.randrange(9), rng.choice((None, 50)), rng.randrange(9)),
            Attach(consumer(tag, node), rng.choice(("auto", "once")), mode, rng.randrange(3)),
            Settle(key, ids),
            rng.choice((Return(key, ids), Discard(key, ids), Modify(key, ids, True, False, {tag: index, "a": 1}))),
            Credit(key, rng.randrange(9), rng.randrange(9), rng.random() < 0.2),
            rng.choice(
                (ProcessDown(publisher, True), ProcessDown(publisher, False), NodeUp(node), PurgeNodes((node,)))
            ),
            rng.choice((Cancel(consumer(tag, node)), Expire(), AttachDeadLetterWorker(publisher, 2))),
            rng.choice((SettleDeadLetters(ids), UpdateConfig(some_config(rng)))),
        ]
        command = rng.choices(made, weights=(12, 4, 6, 4, 2, 1, 1, 1))[0]
        if isinstance(command, Attach):
            keys.append(index)
        log.append(command)
        if not isinstance(command, Enqueue):
            seqs[publisher] -= 1
        if isinstance(command, ProcessDown | PurgeNodes):
            seqs = {process: 0 if (process == publisher or process.node == node) else seqs[process] for process in seqs}
    return log


def some_config(rng: random.Random) -> QueueConfig:
    return QueueConfig(
        rng.choice(("drop_head", "reject_publish")),
        rng.choice((None, 40)),
        delivery_limit=rng.choice((None, 3)),
        single_active_consumer=rng.random() < 0.5,
        dead_letter=rng.choice(("disabled", "at_most_once", "at_least_once")),
    )


def applied(seed: int, restored: int = 0) -> str:
    """A hash for each 100 commands, and all effects; `restored`: after so many the queue is read from a dump."""
    queue = QuorumQueue(QueueConfig())
    said = list[str]()
    for index, command in enumerate(some_log(seed), start=1):
        said.append(repr(queue.apply(index, 3 * index, command)))
        if restored and index % restored == 0:
            queue = QuorumQueue.load(queue.dump())
        if index % 100 == 0:
            said.append(queue.state_hash)
    return "\n".join(said)


def test_qq_6_a_replica_that_begins_from_a_snapshot_says_and_becomes_the_same() -> None:
    assert applied(1) == applied(1, restored=37)
    assert applied(1) != applied(2)


def test_replicas_with_other_hash_seeds_say_and_become_the_same() -> None:
    program = (
        "import sys; from tests.cluster.queues.test_queue_determinism import applied; sys.stdout.write(applied(3))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {applied(3).encode()}
