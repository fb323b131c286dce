"""Who leads, as the line of a run that is under way shows it."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from rich.console import Console

from splitbrain.harness.campaigns import leaders
from splitbrain.harness.campaigns.leaders import LeaderPoll, Leaders, LeaderWatch
from splitbrain.harness.cli.progress import Progress
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeView
from splitbrain.harness.contract.test import Test
from splitbrain.results.history import Op


def follower(node: str, term: int, leader: str | None) -> NodeView:
    return NodeView(node, "follower", term, leader)


class Nodes:
    """Nodes n1, n2, n3 that say of the leader what they are told to; who was asked is noted, and how many at a time."""

    def __init__(self, *views: NodeView | None) -> None:
        self.views: dict[str, NodeView | None] = dict(zip(("n1", "n2", "n3"), views, strict=True))
        self.asked: list[str] = []
        self.at_a_time = 0
        self._asking = 0

    async def view(self, deployment: Deployment, node: str) -> NodeView | None:
        self.asked.append(node)
        self._asking += 1
        self.at_a_time = max(self.at_a_time, self._asking)
        await asyncio.sleep(0)
        self._asking -= 1
        return self.views[node]

    async def poll(self, poll: LeaderPoll, answers: int) -> None:
        """Let so many questions be answered."""
        test = cast(Test, SimpleNamespace(nodes=tuple(self.views), system=self))
        until = len(self.asked) + answers + 1
        task = asyncio.create_task(poll.ask(test, cast(Deployment, None)))
        while len(self.asked) < until:
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "PAUSE_S", 0)


def polled(nodes: Nodes) -> LeaderPoll:
    poll = LeaderPoll()
    asyncio.run(nodes.poll(poll, 3))
    return poll


@pytest.mark.usefixtures("no_pause")
def test_nodes_are_asked_in_turn_and_one_at_a_time() -> None:
    nodes = Nodes(follower("n1", 4, "n2"), follower("n2", 4, "n2"), follower("n3", 4, "n2"))
    assert polled(nodes).leader() == "n2 (term 4)"
    assert nodes.asked == ["n1", "n2", "n3", "n1"]
    assert nodes.at_a_time == 1


@pytest.mark.usefixtures("no_pause")
def test_the_highest_term_counts_and_a_node_that_is_gone_counts_no_more() -> None:
    nodes = Nodes(follower("n1", 4, "n1"), follower("n2", 5, "n3"), follower("n3", 5, None))
    poll = polled(nodes)
    assert poll.leader() == "n3 (term 5)"
    nodes.views["n2"] = None
    asyncio.run(nodes.poll(poll, 3))
    assert poll.leader() == "n1 (term 4)"


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("views", [(None, None, None), tuple(follower(node, 1, None) for node in ("n1", "n2", "n3"))])
def test_nobody_leads_that_no_node_knows_of(views: Sequence[NodeView | None]) -> None:
    assert polled(Nodes(*views)).leader() is None


def test_a_second_lies_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    nodes = Nodes(None, None, None)
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    polled(nodes)
    assert pauses == [1.0] * 3


def test_telemetry_says_who_leads_once_it_is_at_hand(tmp_path: Path) -> None:
    watch = LeaderWatch({"n1": tmp_path / "n1", "n2": tmp_path / "n2"})
    assert (watch.any_exists(), watch.leader()) == (False, None)
    for node, term in (("n1", 2), ("n2", 3)):
        (tmp_path / node).write_bytes(msgspec.json.encode({"role": "leader", "term": term}) + b"\n")
    assert (watch.any_exists(), watch.leader()) == (True, "n2 (term 3)")


def line(known: Leaders | None) -> str:
    """The line after one op."""
    shown = io.StringIO()
    progress = Progress("test", Console(file=shown))
    progress.leaders = known
    progress.observe(Op(process=0, type="invoke", f="read"))
    progress.show(now=True)
    return shown.getvalue().rstrip("\n")


def test_the_line_names_the_leader_and_says_nothing_of_one_that_is_not_known() -> None:
    assert line(cast(Leaders, SimpleNamespace(leader=lambda: "n2 (term 4)"))).endswith(
        "fault: none  leader: n2 (term 4)"
    )
    assert line(LeaderPoll()).endswith("fault: none")
    assert line(None).endswith("fault: none")
