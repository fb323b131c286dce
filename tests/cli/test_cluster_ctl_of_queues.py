"""`splitbrain cluster ctl` for queues of both types, on a real node."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from splitbrain.cluster.client import Client
from splitbrain.harness.cli.clusters.asking import with_client
from splitbrain.harness.cli.clusters.layout import running
from splitbrain.results.errors import UsageError
from tests.cli.test_cluster_ctl import Call, answer, five_free_ports
from tests.cli.test_cluster_ctl import _call as _fixture  # pyright: ignore[reportPrivateUsage]

assert _fixture
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def until_status(call: Call, queue: str, **expected: int) -> None:
    """Wait until `queue_status` says so."""
    deadline = time.monotonic() + 20
    while not expected.items() <= (found := answer(call("ctl", "queue_status", queue, "--json"))).items():
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


async def publish(client: Client) -> None:
    """Two messages for each queue, of which one is rejected."""
    queues = await client.queues()
    publisher = queues.publisher("orders")
    for body in (b"1", b"22"):
        await publisher.publish(body)
    taken = await queues.take("orders")
    assert taken is not None
    await queues.rejected(taken)
    classic = await client.classic_queues()
    await classic.put("jobs", b"1")


async def two_consumers(client: Client) -> None:
    """Two consumers, of which the second one waits."""
    queues = await client.queues()
    first, second = [await queues.consume("turns", prefetch=1) for _ in range(2)]
    await queues.publisher("turns").publish(b"")
    await first.next()
    await queues.publisher("turns").publish(b"")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await second.next()


@pytest.mark.slow
def test_an_operators_way_with_queues_of_both_types(call: Call) -> None:
    call("up", "--nodes", "1", "--spares", "0", "--base-port", str(five_free_ports()))
    node = running(Path("metadata-cluster")).find("n1")
    assert call("ctl", "declare_queue", "dead").stdout == "dead: quorum queue on n1\n"
    made = call("ctl", "declare_queue", "orders", "--dead-letter-to", "dead", "--json")
    assert answer(made) == {"queue": "orders", "type": "quorum", "members": ["n1"], "is_new": True}
    again = call("ctl", "declare_queue", "orders", "--delivery-limit", "3").stdout
    assert again == "orders: quorum queue on n1, which was there already and stays as it was declared\n"
    jobs = call("ctl", "declare_queue", "jobs", "--type", "classic", "--delivery-limit", "3").stdout
    assert jobs == "jobs: classic queue on n1\n"
    assert not answer(call("ctl", "declare_queue", "jobs", "--type", "classic", "--json"))["is_new"]
    with pytest.raises(UsageError, match="jobs is a classic queue: see splitbrain cluster ctl classic_queues"):
        call("ctl", "queue_status", "jobs")
    assert answer(call("ctl", "classic_queues", "--json"))[0]["limit"] == 3
    asyncio.run(with_client(node, publish))
    until_status(call, "orders", ready=1, ready_bytes=2, checked_out=0)
    until_status(call, "dead", ready=1)
    said = call("ctl", "queue_status", "dead").stdout
    assert said.startswith("dead: ready 1 (1 bytes)  taken 0  consumers 0")
    assert said.endswith("declared with: delivery limit 20\n")
    call("ctl", "declare_queue", "turns", "--single-active-consumer", "--delivery-limit", "-1", "--max-length", "9")
    turns = call("ctl", "queue_status", "turns").stdout
    assert turns.endswith("declared with: no delivery limit  max length 9 (drop_head)  single active consumer\n")
    options = answer(call("ctl", "queue_status", "orders", "--json"))["declared"]
    assert (options["dead_letter_to"], options["delivery_limit"], options["max_length"]) == ("dead", 20, None)
    asyncio.run(with_client(node, two_consumers))

    assert call("ctl", "purge_queue", "dead").stdout == "dead: 1 messages removed\n"
    assert answer(call("ctl", "purge_queue", "jobs", "--json")) == {"queue": "jobs", "purged": 1}
    call("ctl", "declare_queue", "jobs")
    with pytest.raises(UsageError, match="two queues jobs: say --type quorum or --type classic"):
        call("ctl", "delete_queue", "jobs")
    assert call("ctl", "delete_queue", "jobs", "--type", "classic").stdout == "jobs is removed.\n"
    assert answer(call("ctl", "delete_queue", "jobs", "--json")) == {"deleted": "jobs"}
    assert "jobs" in call("ctl", "delete_queue", "jobs", code=1).stderr
    assert call("ctl", "classic_queues").stdout == "no classic queues\n"
    assert [each["name"] for each in answer(call("ctl", "queues", "--json"))] == ["dead", "orders", "turns"]

    with pytest.raises(UsageError, match="--max-length is of quorum queues only"):
        call("ctl", "declare_queue", "jobs", "--type", "classic", "--max-length", "3")
    twice = call("ctl", "declare_queue", "x", "--dead-letter-strategy", "at_least_once", code=1)
    assert "dead letters at least once need a queue that gets them" in twice.stderr
