"""The files with which a node is started, and the numbers that a test may choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from splitbrain.harness.contract.nodes import Address
from splitbrain.harness.contract.settings import Setting

WAIT: Final = "wait"
MIN_REPLICAS: Final = "min-replicas"
MAX_LAG: Final = "min-replicas-max-lag"
DOWN_AFTER: Final = "down-after"
FSYNC: Final = "appendfsync"

FSYNCS: Final = ("everysec", "always", "no")

SETTINGS: Final = {
    WAIT: Setting(
        line="replicas that must have a write before it is acknowledged (WAIT); 0: none", default=0, least=0, most=99
    ),
    MIN_REPLICAS: Setting(
        line="a primary refuses writes if it has heard of fewer replicas lately (min-replicas-to-write); 0: never",
        default=0,
        least=0,
        most=99,
    ),
    MAX_LAG: Setting(line="what lately means there, in seconds", default=2, most=3600),
    DOWN_AFTER: Setting(
        line="a Sentinel takes a server for down that has not answered it for so long, in ms", default=2000, least=200
    ),
    FSYNC: Setting.of_words("when the append-only file is synced", FSYNCS),
}

GROUP: Final = "splitbrain"
"""What Sentinels call the primary and its replicas."""

SENTINEL: Final = 1
"""How far behind the server's port its Sentinel listens."""

SERVER_FILE: Final = "redis.conf.first"
SENTINEL_FILE: Final = "sentinel.conf.first"

FAILOVER_TIMEOUTS: Final = 3
"""How many times the time after which a server is down a failover may take before another one is tried."""

REPLICATION_TIMEOUT_S: Final = 5


def server(address: Address, primary: Address | None, data: str, chosen: Mapping[str, int]) -> bytes:
    """The configuration of a server at its first start; servers and Sentinels rewrite it later.

    Args:
        address: where it serves clients and replicas.
        primary: whose replica it is; None if it is the primary.
        data: the node's directory.
        chosen: the settings of the test.
    """
    host, port = address
    lines = [
        f"bind {host}",
        f"port {port}",
        "protected-mode no",
        _folder(data),
        # Of the server: its clients are those of the test, and all that it has is on its disk.
        "appendonly yes",
        f"appendfsync {FSYNCS[chosen[FSYNC]]}",
        'save ""',
        f"min-replicas-to-write {chosen[MIN_REPLICAS]}",
        f"min-replicas-max-lag {chosen[MAX_LAG]}",
        # The sides of a connection that was cut notice it within seconds, and a copy begins at once.
        f"repl-timeout {REPLICATION_TIMEOUT_S}",
        "repl-ping-replica-period 1",
        "repl-diskless-sync-delay 0",
        f"replica-announce-ip {host}",
    ]
    if primary is not None:
        lines.append(f"replicaof {primary[0]} {primary[1]}")
    return _text(lines)


def sentinel(address: Address, primary: Address, nodes: int, data: str, chosen: Mapping[str, int]) -> bytes:
    """The configuration of a Sentinel at its first start.

    Args:
        address: where the server beside it serves clients.
        primary: of the server that is primary at first.
        nodes: how many nodes there are: a majority of their Sentinels must take the primary for down.
        data: the node's directory.
        chosen: the settings of the test.
    """
    host, port = address
    return _text(
        [
            f"bind {host}",
            f"port {port + SENTINEL}",
            "protected-mode no",
            _folder(data),
            f"sentinel monitor {GROUP} {primary[0]} {primary[1]} {nodes // 2 + 1}",
            f"sentinel down-after-milliseconds {GROUP} {chosen[DOWN_AFTER]}",
            f"sentinel failover-timeout {GROUP} {FAILOVER_TIMEOUTS * chosen[DOWN_AFTER]}",
            f"sentinel parallel-syncs {GROUP} {max(nodes - 1, 1)}",
        ]
    )


def _folder(data: str) -> str:
    """The line that names the folder, as one word: it may have spaces."""
    escaped = data.replace("\\", "\\\\").replace('"', '\\"')
    return f'dir "{escaped}/redis"'


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
