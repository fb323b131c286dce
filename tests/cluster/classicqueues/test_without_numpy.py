"""A node needs numpy for classic queues only."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.bugs import NO_BUGS
from splitbrain.cluster.classicqueues.conversions import Conversions
from splitbrain.cluster.classicqueues.frames import Enable, LookAtNode, NodeSeen, SetAlarm, Take
from splitbrain.cluster.classicqueues.host import ClassicHost, _Place  # pyright: ignore[reportPrivateUsage]
from splitbrain.cluster.classicqueues.records import ClassicRecord
from splitbrain.cluster.permits import Thresholds
from splitbrain.cluster.streams.frames import NotDone

WITHOUT = """
import sys
sys.modules["numpy"] = None
import splitbrain.cluster.node, splitbrain.cluster.__main__, splitbrain.cluster.client, splitbrain.cluster.classicclient
"""


def test_a_node_and_a_client_are_there_without_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_queue_on_a_node_without_numpy_answers_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splitbrain.cluster.classicqueues.held", None)
    runtime, links = cast(Any, SimpleNamespace(clock=None, disk=None)), cast(Any, None)
    nothing = cast(Any, None)
    host = ClassicHost(
        "m1", "n1", 1, runtime, links, policies=nothing, publish=nothing, thresholds=Thresholds(), bugs=NO_BUGS
    )
    record = ClassicRecord("0" * 16, "m1")
    place = _Place(record)
    asyncio.run(host._open(place))  # pyright: ignore[reportPrivateUsage]
    host._places[record.id] = place  # pyright: ignore[reportPrivateUsage]
    answers: list[Any] = []
    host._ask_queue(record.id, Take("q"), answers.append)  # pyright: ignore[reportPrivateUsage]
    [answer] = answers
    assert isinstance(answer, NotDone)
    assert "python3-numpy" in answer.detail


def test_a_node_without_numpy_has_alarms_and_says_that_it_begins_no_transformation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "splitbrain.cluster.classic.transformations", None)

    async def check() -> None:
        found = Conversions(cast(Any, None), Thresholds())
        assert await found.carry_out(SetAlarm("disk", True), []) == NodeSeen(("disk",), None)
        assert await found.carry_out(LookAtNode(), []) == NodeSeen(("disk",), None)
        answer = await found.carry_out(Enable("message_properties", only_asks=True), [])
        assert isinstance(answer, NotDone)
        assert "python3-numpy" in answer.detail

    asyncio.run(check())


def test_other_settings_of_a_queue_that_is_not_open_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splitbrain.cluster.classicqueues.held", None)
    runtime, links, nothing = cast(Any, SimpleNamespace(clock=None, disk=None)), cast(Any, None), cast(Any, None)
    host = ClassicHost(
        "m1", "n1", 1, runtime, links, policies=nothing, publish=nothing, thresholds=Thresholds(), bugs=NO_BUGS
    )
    place = _Place(ClassicRecord("0" * 16, "m1", version=2), {"delivery-limit": 1})

    async def check() -> None:
        await host._open(place)  # pyright: ignore[reportPrivateUsage]
        await host._adjust(place)  # pyright: ignore[reportPrivateUsage]

    asyncio.run(check())
    assert place.queue is None
