"""The files, the environment and the numbers with which a node is started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.contract.installed import Release
from splitbrain.harness.contract.nodes import Address, NodeId
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.systems.rabbitmq.connection import USER

QUEUE_TYPE: Final = "queue-type"
PARTITION_HANDLING: Final = "partition-handling"
TICK_TIME: Final = "net-ticktime"
RELEASE: Final = "release"
STORE: Final = "store"

CLASSIC, QUORUM, MIRRORED = 0, 1, 2
QUEUE_TYPES: Final = ("classic", "quorum", "mirrored")
STRATEGIES: Final = ("ignore", "pause_minority", "autoheal")
RELEASES: Final = ("4.0", "3.10")
STORES: Final = ("mnesia", "khepri")
"""The second one is behind a feature flag in 4.0, and not in 3.10."""

SETTINGS: Final = {
    QUEUE_TYPE: Setting.of_words(
        "classic queues are on one node each, quorum queues on all; mirrored: classic ones with copies (3.10)",
        QUEUE_TYPES,
        default=QUORUM,
    ),
    PARTITION_HANDLING: Setting.of_words(
        "what nodes do about a partition; RabbitMQ's own default is to ignore it", STRATEGIES
    ),
    TICK_TIME: Setting(
        line="a node that was silent for about so many seconds counts as down (RabbitMQ's default: 60)",
        default=12,
        least=4,
        most=600,
    ),
    RELEASE: Setting.of_words("which of Debian's packages: that of trixie (4.0), or that of bookworm (3.10)", RELEASES),
    STORE: Setting.of_words("where the metadata are: in Mnesia, or, from 4.0 on, in Khepri", STORES),
}
"""RabbitMQ's own default of the type of queues is classic; quorum queues are what its documentation recommends for data
that must not be lost. Its own tick time is longer than most tests."""

CONFIGURATION: Final = "rabbitmq.conf"
DEFINITIONS: Final = "definitions.json"
PLUGINS: Final = "enabled_plugins"
PROBE: Final = "splitbrain_probe"

KHEPRI_FLAGS: Final = (
    "khepri_db",
    "message_containers_deaths_v2",
    "quorum_queue_non_voters",
    "rabbit_exchange_type_local_random",
    "rabbitmq_4.0.0",
)
"""The feature flags with which a new node of 4.0 begins if its store is Khepri: all stable ones, and that of the store.

A node enables all stable flags where none are named, and no others; those that it requires are enabled in any case."""

PROGRAM: Final = "node.sh"
SETS: Final = "SPLITBRAIN_SETS"
HOSTS: Final = "hosts"
BINARY: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""Debian's package puts it there."""

PROBE_BEHIND, EPMD_BEHIND, DISTRIBUTION_BEHIND = 1, 2, 3
"""How far behind the clients' port a node listens for other ends. None of these ports is RabbitMQ's usual one: a broker
that a package started may run on the same machine."""

RETRIES: Final = {"4.0": 60, "3.10": 15}
"""Nodes start at once, and wait for each other: a second each time. In 3.10 the one that comes first holds a lock, for
which the others wait, while it tries to join them in vain: all wait until it gives up."""

CONSUMER_TIMEOUT_MS: Final = 1_800_000


def image_of(settings: Mapping[str, int]) -> str:
    """The image of the release that a test chose."""
    return "rabbitmq" if RELEASES[settings.get(RELEASE, 0)] == "4.0" else "rabbitmq-3.10"


def installed_release(program: str | None = None) -> Release | None:
    """The release of RabbitMQ that is installed on this machine, or to which a program belongs; None without one.

    The program is a link into the folder of its release, as `node.sh` has it.
    """
    found = re.search(r"/rabbitmq_server-([^/]+)/", os.path.realpath(program or BINARY))
    if found is None:
        return None
    value = next((at for at, name in enumerate(RELEASES) if found[1].startswith(f"{name}.")), None)
    return Release(f"RabbitMQ {found[1]}", RELEASE, value)


def name_of(node: NodeId) -> str:
    """The Erlang name of a node."""
    return f"rabbit@{node}"


def node_of(name: str | None) -> NodeId | None:
    """The node of an Erlang name."""
    return None if name is None else name.partition("@")[2] or None


def hosts(addresses: Mapping[NodeId, Address]) -> bytes:
    """Where nodes are, for the VM's own resolver (`inetrc`): so a node's name needs not be that of its machine.

    All other names are looked up as the machine does it.
    """
    rows = [f'{{host, {_tuple(host)}, ["{node}"]}}.\n' for node, (host, _) in sorted(addresses.items())]
    return "".join([*rows, "{lookup, [file, native]}.\n"]).encode()


def _tuple(host: str) -> str:
    """An IPv4 address as a term of Erlang."""
    return f"{{{host.replace('.', ',')}}}"


def configuration(*, listen: Address, nodes: Sequence[NodeId], strategy: int, retries: int) -> str:
    """The contents of rabbitmq.conf.

    Args:
        listen: where the node serves clients.
        nodes: all nodes of the cluster, the same order on each.
        strategy: number of the partition handling.
        retries: how often a new node tries to join others before it begins alone.
    """
    host, port = listen
    settings: dict[str, str | int] = {
        "listeners.tcp.1": f"{host}:{port}",
        "cluster_formation.peer_discovery_backend": "classic_config",
        **{f"cluster_formation.classic_config.nodes.{at}": name_of(node) for at, node in enumerate(nodes, 1)},
        "cluster_formation.discovery_retry_limit": retries,
        "cluster_formation.discovery_retry_interval": 1000,
        "cluster_partition_handling": STRATEGIES[strategy],
        # From the directory in which a node runs: no way to write a path here allows for spaces, quotes and all else.
        "load_definitions": DEFINITIONS,
        "loopback_users": "none",
        "queue_master_locator": "min-masters",
        "consumer_timeout": CONSUMER_TIMEOUT_MS,
        # The limits are of the machine, which the nodes share with all that runs beside them.
        "vm_memory_high_watermark.absolute": "1GB",
        "disk_free_limit.absolute": "50MB",
        "log.file": "false",
        "log.console": "true",
        "log.console.level": "info",
    }
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


def definitions(*, mirrored: bool) -> bytes:
    """What the cluster has from its first start on: a virtual host, a user, and a policy where queues are mirrored."""
    policy = {
        "vhost": "/",
        "name": "mirrored",
        "pattern": ".*",
        "apply-to": "queues",
        "priority": 0,
        "definition": {"ha-mode": "all", "ha-sync-mode": "automatic"},
    }
    found: dict[str, Any] = {
        "vhosts": [{"name": "/"}],
        "users": [{"name": USER, "password": USER, "tags": "administrator"}],
        "permissions": [{"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        "policies": [policy] if mirrored else [],
        "exchanges": [],
        "queues": [],
        "bindings": [],
        "parameters": [],
    }
    return msgspec.json.encode(found)


def environment(*, node: NodeId, listen: Address, data: str, tick_s: int, khepri: bool) -> Mapping[str, str]:
    """The environment of a node: all files in its own directory, and its probe once it has started.

    The arguments of the VM are cut at spaces, which the directory may have: there it is named by a variable.
    """
    host, port = listen
    load = (
        f'{{ok,{PROBE},B}}=compile:file(os:getenv("HOME")++"/{PROBE}",[binary]),'
        f'code:load_binary({PROBE},"probe",B),{PROBE}:start("{host}",{port + PROBE_BEHIND}).'
    )
    flags = {"RABBITMQ_FEATURE_FLAGS": ",".join(KHEPRI_FLAGS)} if khepri else {}
    of_brokers = {
        **flags,
        "RABBITMQ_NODENAME": name_of(node),
        "RABBITMQ_MNESIA_BASE": f"{data}/store",
        "RABBITMQ_CONFIG_FILE": f"{data}/{CONFIGURATION}",
        "RABBITMQ_CONF_ENV_FILE": f"{data}/none",
        "RABBITMQ_CONFIG_FILES": f"{data}/none",
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{data}/none",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{data}/{PLUGINS}",
        "RABBITMQ_GENERATED_CONFIG_DIR": f"{data}/generated",
        "RABBITMQ_SCHEMA_DIR": f"{data}/schema",
        "RABBITMQ_LOG_BASE": f"{data}/log",
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_DIST_PORT": str(port + DISTRIBUTION_BEHIND),
        "ERL_INETRC": f"{data}/{HOSTS}",
        "ERL_EPMD_ADDRESS": host,
        "ERL_EPMD_PORT": str(port + EPMD_BEHIND),
        # No VM, also none that the broker begins, starts an epmd that would outlive the node.
        "ERL_AFLAGS": "-start_epmd false",
        # The VM takes the place of the shell, which else stays beside it and hears the signals.
        "RABBITMQ_ALLOW_INPUT": "1",
        "RABBITMQ_SERVER_START_ARGS": "-noinput",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
            f"-setcookie splitbrain -kernel net_ticktime {tick_s} -kernel prevent_overlapping_partitions false "
            f"-kernel inet_dist_use_interface {_tuple(host)} -eval {load}"
        ),
    }
    # A node is started with no other variables for brokers.
    return {**of_brokers, "HOME": data, SETS: " ".join(of_brokers)}
