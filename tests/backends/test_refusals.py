"""System calls of a node that a fault of its disk refused, as the kernel counts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing

import pytest

from splitbrain.harness.backends.agent.refusals import Refusals
from tests.backends.support import missing

FULL = {"full": True}

NODE = """
import os, socket, sys, threading
full, ends = os.open("/dev/full", os.O_WRONLY), os.pipe()
def fill(times):
    for _ in range(times):
        try:
            os.write(full, b"x")
        except OSError:
            pass
def answer(line):
    how, times = line.split()
    if how == "fill":
        fill(int(times))
    if how == "thread":
        thread = threading.Thread(target=fill, args=(int(times),))
        thread.start()
        thread.join()
    if how == "fork":
        if os.fork() == 0:
            os.setsid()
            fill(int(times))
            os._exit(0)
        os.wait()
    if how == "talk":
        for _ in range(int(times)):
            os.write(ends[1], b"x")
            try:
                os.open("/nothing/here", os.O_RDONLY)
            except OSError:
                pass
class Old(threading.Thread):
    def run(self):
        while True:
            wake.wait()
            wake.clear()
            fill(1)
            done.set()
wake, done = threading.Event(), threading.Event()
Old(daemon=True).start()
requests, answers = os.pipe(), os.pipe()
if os.fork() == 0:
    os.setsid()
    for inherited in (0, 1, requests[1]):
        os.close(inherited)
    while os.read(requests[0], 1):
        fill(1)
        os.write(answers[1], b".")
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("old-thread"):
        wake.set()
        done.wait()
        done.clear()
    elif line.startswith("old-child"):
        os.write(requests[1], b".")
        os.read(answers[0], 1)
    else:
        answer(line)
    print("done", flush=True)
"""


class Node:
    """A process that does as it is told, with a thread and a child, in a session of its own, from the beginning."""

    def __init__(self) -> None:
        argv = [sys.executable, "-S", "-E", "-c", NODE]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self._process.pid
        self._answer()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        self._answer()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "it has ended"


@pytest.fixture
def node() -> Generator[Node]:
    if os.geteuid() != 0:
        missing("only root may count system calls of others")
    node = Node()
    try:
        yield node
    finally:
        node.end()


@pytest.mark.parametrize("who", ["fill 3", "thread 3", "fork 3", "old-thread", "old-child"])
def test_what_a_node_was_refused_is_counted_whichever_of_its_threads_and_processes_it_was(node: Node, who: str) -> None:
    node.tell(who)
    with closing(Refusals(FULL, node.pid, 1)) as refusals:
        assert refusals.evidence(1, halted=False) == {"failed_calls": 0}, "what was before does not count"
        node.tell(who)
        expected = int(who.split()[1]) if " " in who else 1
        assert refusals.evidence(1, halted=False) == {"failed_calls": expected}
        node.end()
        assert refusals.evidence(1, halted=False) == {"failed_calls": expected}, "also once it is gone"


def test_what_others_are_refused_and_what_fails_for_other_reasons_does_not_count(node: Node) -> None:
    other = Node()
    try:
        with closing(Refusals(FULL, node.pid, 1)) as refusals:
            other.tell("fill 5")
            node.tell("talk 5")
            assert refusals.evidence(1, halted=False) == {"failed_calls": 0}
        with closing(Refusals({"read_only": True}, node.pid, 1)) as refusals:
            node.tell("fill 5")
            assert refusals.evidence(1, halted=False) == {"failed_calls": 0}
    finally:
        other.end()


def test_another_life_of_the_node_may_have_been_refused_what_nobody_counted(node: Node) -> None:
    with closing(Refusals(FULL, node.pid, 1)) as refusals:
        assert refusals.evidence(2, halted=False) == {"uncounted": "the node was started again meanwhile"}
        node.tell("fill 2")
        assert refusals.evidence(2, halted=False) == {"failed_calls": 2}, "at least so many"


def test_a_node_that_ended_over_its_disk_has_met_it_unless_it_never_ran_meanwhile(node: Node) -> None:
    with closing(Refusals(FULL, node.pid, 1)) as refusals:
        assert refusals.evidence(1, halted=True) == {"halted": True, "failed_calls": 0}
    with closing(Refusals(FULL, None, 1)) as refusals:
        why = "the node did not run when its disk got the fault"
        assert refusals.evidence(1, halted=True) == {"uncounted": why}
        assert refusals.evidence(2, halted=True) == {"halted": True, "uncounted": why}


def test_where_nobody_may_count_it_says_so_and_claims_nothing(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    def refused(number: int, *_: object) -> int:
        raise PermissionError(1, f"system call {number}: Operation not permitted")

    monkeypatch.setattr("splitbrain.harness.backends.agent.syscalls.call", refused)
    with closing(Refusals(FULL, node.pid, 1)) as refusals:
        evidence = refusals.evidence(1, halted=False)
    assert list(evidence) == ["uncounted"]
    assert "Operation not permitted" in evidence["uncounted"]


def test_of_a_process_that_is_gone_nothing_is_claimed() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with closing(Refusals(FULL, ended.pid, 1)) as refusals:
        assert "uncounted" in refusals.evidence(1, halted=False)
