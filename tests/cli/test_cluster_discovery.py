"""`splitbrain cluster up --discovery`: the nodes form the cluster by themselves, and the rest is as without."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from splitbrain.harness.cli.clusters import lifecycle
from splitbrain.harness.cli.clusters.layout import Layout
from splitbrain.harness.cli.clusters.processes import alive, start
from splitbrain.results.errors import NodeStartError, UsageError
from tests.cli.test_cluster_ctl import Call, five_free_ports
from tests.cli.test_cluster_ctl import _call as _fixture  # pyright: ignore[reportPrivateUsage]

assert _fixture
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


@pytest.mark.slow
def test_nodes_form_a_cluster_which_takes_in_a_spare_and_goes_on_after_down(call: Call) -> None:
    call("up", "--discovery", "classic", "--base-port", str(five_free_ports()))
    assert "founds the cluster" in "".join(
        Path(f"metadata-cluster/{name}.log").read_text() for name in ("n1", "n2", "n3")
    )
    call("ctl", "put", "/x", "1")
    call("ctl", "add", "n4")
    assert json.loads(call("ctl", "--node", "n4", "get", "/x").stdout)["value"] == 1
    call("down")
    with pytest.raises(UsageError, match="was formed otherwise"):
        call("up", "--discovery", "etcd")
    call("up")
    assert json.loads(call("ctl", "--node", "n2", "get", "/x").stdout)["value"] == 1


@pytest.mark.parametrize(
    ("backend", "value", "message"),
    [
        ("etcd", "nonsense", "takes http://HOST:PORT or https://HOST:PORT, not 'nonsense'"),
        ("etcd", "http://a:1,http://b:x", "takes URLs, not 'http://b:x'"),
        ("consul", "http://a:1,http://b:1", "--discovery-endpoint takes"),
        ("etcd", "", "--discovery-endpoint needs a value"),
    ],
)
def test_an_endpoint_that_no_node_would_take_is_refused_before_one_is_started(
    call: Call, backend: str, value: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        call("up", "--discovery", backend, "--discovery-endpoint", value, "--base-port", str(five_free_ports()))
    assert not Path("metadata-cluster").exists()


def test_nodes_that_find_no_service_end_the_command_with_what_they_say(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now_s() -> float:
        """The time to wait is over once the first node has said something, however long that takes."""
        log = Path("metadata-cluster/n1.log")
        return 1e9 if log.exists() and "Connect call failed" in log.read_text() else 0.0

    started: list[Layout] = []

    def noted(layout: Layout, *nodes: str) -> Layout:
        started.append(start(layout, *nodes))
        return started[-1]

    monkeypatch.setattr(lifecycle, "start", noted)
    monkeypatch.setattr(lifecycle, "time", SimpleNamespace(monotonic=now_s))
    port = five_free_ports()
    endpoint = f"http://127.0.0.1:{port}"
    with pytest.raises(NodeStartError, match=r"no leader after 45 s.*Connect call failed"):
        call("up", "--discovery", "etcd", "--discovery-endpoint", endpoint, "--base-port", str(port + 1))
    assert not Path("metadata-cluster/cluster.json").exists()
    [layout] = started
    assert all(node.pid for node in layout.nodes), "they were started"
    assert not any(alive(node) for node in layout.nodes), "what a refused `up` has started is stopped"
