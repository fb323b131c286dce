"""`splitbrain cluster ctl` for classic queues, on a real node that also stops in good order."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from splitbrain.cluster.client import Client
from splitbrain.harness.cli.clusters.asking import with_client
from splitbrain.harness.cli.clusters.layout import running
from tests.cli.test_cluster_ctl import Call, answer, five_free_ports
from tests.cli.test_cluster_ctl import _call as _fixture  # pyright: ignore[reportPrivateUsage]

assert _fixture
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def used(use: Callable[[Any], Awaitable[None]]) -> None:
    """Use classic queues through a client of n1."""

    async def ask(client: Client) -> None:
        await use(await client.classic_queues())

    asyncio.run(with_client(running(Path("metadata-cluster")).find("n1"), ask))


@pytest.mark.slow
def test_an_operators_way_with_classic_queues(call: Call) -> None:
    up = ("up", "--nodes", "1", "--spares", "0", "--base-port", str(five_free_ports()))
    call(*up)
    assert call("ctl", "classic_queues").stdout == "no classic queues\n"

    async def fill(queues: Any) -> None:
        await queues.declare("jobs", delivery_limit=3, dead_letter_to="dead")
        for body in (b"1", b"2"):
            await queues.put("jobs", body)
        for _ in range(3):  # two redeliveries
            await queues.settle("jobs", await queues.take("jobs"), "requeue")

    used(fill)
    [row] = answer(call("ctl", "classic_queues", "--json"))
    assert (row["name"], row["node"], row["ready"], row["limit"], row["dead_letter_to"]) == ("jobs", "n1", 2, 3, "dead")
    assert "n1  alarms disk" in call("ctl", "set_alarm", "n1", "disk").stdout
    assert "while there is an alarm (disk)" in call("ctl", "convert_queue", "jobs", code=1).stderr
    assert set(answer(call("ctl", "classic_queues", "--json"))[0]["versions"].values()) == {1}
    assert answer(call("ctl", "alarms", "--json"))[0]["alarms"] == ["disk"]
    assert "alarms -" in call("ctl", "clear_alarm", "n1", "disk").stdout
    assert answer(call("ctl", "enable_transformation", "message_properties", "--json"))["is_new"] is False
    assert "no such transformation" in call("ctl", "enable_transformation", "nothing", code=1).stderr
    call("down")  # in good order: the count is written down, and a file converted for it
    call(*up)
    deadline = time.monotonic() + 20
    while (versions := answer(call("ctl", "classic_queues", "--json"))[0]["versions"]) is None:
        assert time.monotonic() < deadline, "the node does not open its queue"
        time.sleep(0.05)
    assert set(versions.values()) == {2}

    async def redeliver(queues: Any) -> None:
        message = await queues.take("jobs")
        assert (message.body, message.redeliveries) == (b"1", 3)
        await queues.settle("jobs", message, "requeue")

    used(redeliver)
    assert "ready 1  taken 0  dropped 1  dead 1  limit 3  dead letters to dead" in call("ctl", "classic_queues").stdout
    call("ctl", "set_delivery_limit", "2", "--pattern", "^other")
    limited = call("ctl", "set_delivery_limit", "1", "--pattern", "^jobs", "--dead-letter-to", "others", "--json")
    assert answer(limited) == {"limit": 1, "pattern": "^jobs", "dead_letter_to": "others"}
    assert "invalid_expression" in call("ctl", "set_delivery_limit", "2", "--pattern", "(", code=1).stderr
    deadline = time.monotonic() + 20
    while answer(call("ctl", "classic_queues", "--json"))[0]["limit"] != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert answer(call("ctl", "classic_queues", "--json"))[0]["dead_letter_to"] == "dead"  # as it was declared
    assert call("ctl", "purge_queue", "jobs").stdout == "jobs: 1 messages removed\n"
    assert answer(call("ctl", "convert_queue", "jobs", "--json")) == {"queue": "jobs", "converts": True}
    assert "nothing to change" in call("ctl", "convert_queue", "jobs").stdout
    assert json.loads(call("ctl", "purge_queue", "jobs", "--json").stdout) == {"queue": "jobs", "purged": 0}
    assert "knows no classic queue 'none'" in call("ctl", "purge_queue", "none", "--type", "classic", code=1).stderr
    assert "message_properties 2" in call("ctl", "alarms").stdout
