"""`splitbrain cluster ctl` for streams and for policies, on real nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.test_cluster_ctl import Call, answer, five_free_ports
from tests.cli.test_cluster_ctl import _call as _fixture  # pyright: ignore[reportPrivateUsage]

assert _fixture
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def until(holds: Callable[[], Any]) -> Any:
    """What holds after a while."""
    deadline = time.monotonic() + 20
    while not (found := holds()):
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.05)
    return found


def kept(call: Call, stream: str) -> tuple[int | None, int | None]:
    """The bytes and the age that are kept of a stream, as `streams` says."""
    [row] = [each for each in answer(call("ctl", "streams", "--json")) if each["name"] == stream]
    return row["kept_bytes"], row["kept_ms"]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["tree", "tables"])
def test_an_operator_limits_what_streams_keep_by_declarations_and_by_policies(call: Call, store: str) -> None:
    call("up", "--nodes", "1", "--spares", "0", "--store", store, "--base-port", str(five_free_ports()))
    assert call("ctl", "list_policies").stdout == "no policies\n"
    assert call("ctl", "add_stream", "all").stdout == "all: copies on n1\n"
    call("ctl", "add_stream", "week", "--max-age", "7D", "--max-length-bytes", "1000", "--target", "1")
    call("ctl", "add_super_stream", "parts", "--partitions", "1", "--max-age", "90m")
    said = call("ctl", "streams").stdout.splitlines()
    assert "keeps" not in said[0]
    assert said[1].endswith("copies n1 running  keeps 1000 bytes, 7D")
    assert said[2].endswith("keeps 90m  part of parts")

    call("ctl", "set_target", "1")
    both = '{"max-age": "2h", "max-length-bytes": 5000, "target-group-size": 1}'
    set_by = call("ctl", "set_policy", "short", "^(all|week)$", both, "--priority", "3", "--json")
    assert answer(set_by)["definition"] == {"max-age": "2h", "max-length-bytes": 5000, "target-group-size": 1}
    until(lambda: kept(call, "all") == (5000, 7_200_000))
    assert kept(call, "week") == (1000, 7_200_000), "the lower of both"
    assert kept(call, "parts-0") == (None, 5_400_000), "its name does not match"
    call("ctl", "set_policy", "disk", ".*", '{"max-length-bytes": 700}', "--operator")
    until(lambda: kept(call, "parts-0") == (700, 5_400_000))
    assert [each["name"] for each in answer(call("ctl", "list_policies", "--json"))] == [
        *("short", "target-of-replicas"),
        "disk",
    ]
    said = call("ctl", "list_policies").stdout.splitlines()
    assert "user      priority 3  all that match ^(all|week)$  max-age 2h, max-length-bytes 5000" in said[0]
    assert "operator  priority 0  all that match .*  max-length-bytes 700" in said[2]

    assert call("ctl", "clear_policy", "short").stdout == "short is removed.\n"
    assert call("ctl", "clear_policy", "short").stdout == "There was no policy short.\n"
    cleared = answer(call("ctl", "clear_policy", "disk", "--operator", "--json"))
    assert cleared == {"policy": "disk", "operator": True, "was_there": True}
    until(lambda: kept(call, "all") == (None, None))

    assert "'max-ages' is no setting" in call("ctl", "set_policy", "a", ".*", '{"max-ages": "7D"}', code=1).stderr
    assert "max-age is a number and" in call("ctl", "set_policy", "a", ".*", '{"max-age": "week"}', code=1).stderr
    assert "invalid_expression" in call("ctl", "set_policy", "a", "(", '{"max-age": "7D"}', code=1).stderr
    assert call("ctl", "delete_stream", "all").stdout == "all: copies on no node any more\n"
    assert "there is no stream" in call("ctl", "delete_stream", "all", code=1).stderr
