"""A node's command line: which arguments there are, and the configuration that they say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from splitbrain.cluster.arrivals import WINDOW
from splitbrain.cluster.bugs import Bugs, UnknownBugError
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.nodeconfig import APPLY_SLICE, NodeConfig
from splitbrain.cluster.permits import Thresholds
from splitbrain.cluster.raft import Config
from splitbrain.cluster.registered import known
from splitbrain.cluster.replicas.placement import placement_named
from splitbrain.cluster.replicas.settings import DEFAULT as REPLICAS
from splitbrain.cluster.replicas.settings import ReplicaSettings
from splitbrain.cluster.runtime import Address
from splitbrain.cluster.snapshotting import CHECKPOINT_INTERVAL, CHUNK_BYTES, SNAPSHOT_INTERVAL
from splitbrain.cluster.storage import WAL_BYTES
from splitbrain.cluster.tables.config import TICK_MS
from splitbrain.cluster.tree import NEWEST_VERSION, Functions

USAGE: Final = """\
usage: python -m splitbrain.cluster --node NAME --listen HOST:PORT [--peer NAME=HOST:PORT]... --data DIR
                         [--founders NAME[,NAME]...] [--incarnation N]
                         [--bugs ID[,ID]...] [--heartbeat-ms N] [--election-ms MIN[-MAX]]
                         [--snapshot-interval N] [--checkpoint-interval N] [--wal-bytes N]
                         [--lease-reads 0|1] [--groups NAME[,NAME]...]
                         [--chunk-bytes N] [--learners-first 0|1]
                         [--max-batch N] [--max-pipeline N] [--max-pending N]
                         [--apply-slice N] [--repeat-window N] [--machine-version N]
                         [--store tree|tables] [--partition-strategy NAME] [--preferred NAME[,NAME]...]
                         [--net-tick-ms N]
                         [--functions MODULE:ATTRIBUTE[,MODULE:ATTRIBUTE]...]
                         [--target-group-size N] [--auto-remove 0|1] [--replica-check-ms N]
                         [--replica-trigger-ms N] [--replica-recovery-ms N]
                         [--zones NAME=ZONE[,NAME=ZONE]...] [--placement NAME|MODULE:ATTRIBUTE]
                         [--convert-messages N] [--convert-queues N]

  --node          name of this node
  --listen        address on which it serves peers and clients
  --peer          another node that is a member or may become one, and the address under which this node reaches it;
                  once for each
  --data          directory for its files; created if missing
  --founders      the nodes with which the cluster begins, the same on all nodes (default: this one and all peers);
                  another node waits until a member adds it
  --incarnation   how often the node has lost its data before (default 0); from 1 on it waits likewise
  --bugs          mutations that are switched on, e.g. M23
  --heartbeat-ms  the longest time between messages of a leader (default 100)
  --election-ms   range of the random election timeout (default 600-1200; a single figure stands for N to 2N)
  --snapshot-interval
                  log entries between two snapshots of the store, which let the log go (default 16384)
  --checkpoint-interval
                  log entries between two checkpoints of the store, which make a restart quick (default 4096; 0: none)
  --wal-bytes     the write-ahead log is replaced when it is longer (default 33554432)
  --lease-reads   1: the leader answers reads on a lease, which trusts that clocks run at about one rate (default 0);
                  the same on all nodes
  --chunk-bytes   of a snapshot in one message (default 1048576, which is the most)
  --learners-first
                  1: who joins becomes a voter once it has caught up, not at once (default 0)
  --max-batch     log entries in one message at most (default 128)
  --max-pipeline  log entries on their way to one member at most (default 4096)
  --max-pending   commands not committed, and reads not confirmed, that a leader holds at most, and requests under way
                  at a node; beyond that it answers busy (default 4096)
  --apply-slice   log entries that are applied before messages and clients get a word in again (default 512)
  --repeat-window
                  the number of a request that is so far behind the highest of its connection, or further, counts as
                  repeated (default 8192)
  --machine-version
                  the latest version of the state machine that this node supports (default: that of the program);
                  a version is in force once all members support it, and never goes back
  --groups        groups beside that of the metadata store, each a cluster of its own of the same founders; the same on
                  all nodes
  --flag-probes   feature flags that switch nothing on, for tests: probe_001, probe_002, ... (default 0)
  --store         where entities are at first, the same on all nodes: tables: in tables, from which they can be moved to
                  the tree; the founders hold them (default tree)
  --partition-strategy
                  what nodes do about partitions of the tables, the same on all nodes (default ignore)
  --preferred     the nodes of the strategies pause-if-all-down
  --net-tick-ms   a node of which the tables heard nothing for so long is down (default 4000)
  --functions     what the node knows beside its own of registered functions, for transactions, procedures and
                  projections: where its modules have their splitbrain.cluster.tree.Functions; the same on all nodes
  --target-group-size
                  live replicas of each quorum queue for which neither its argument nor a policy says how many
                  (default 0: as many members as it was declared with, whether they run or not)
  --auto-remove   0: members that left the cluster, or failed and were replaced, stay in their queues (default 1)
  --replica-check-ms
                  between two checks of the replicas of a queue (default 3600000)
  --replica-trigger-ms
                  from an event, or a change of replicas, to the next check (default 10000)
  --replica-recovery-ms
                  how long a node must be down before its replicas count as failed (default 60000)
  --zones         availability zones of nodes, over which replicas are spread; the same on all nodes
  --placement     which function chooses where a replica goes: spread (the default), least-loaded, or one of your own
  --convert-messages
                  messages of classic queues that the node converts at once at most (default 0: any number)
  --convert-queues
                  the same of queues, when a transformation is enabled (default 0)
"""

_REPEATABLE: Final = "--peer"
_OPTIONS: Final = (
    "--node",
    "--listen",
    _REPEATABLE,
    "--data",
    "--founders",
    "--incarnation",
    "--bugs",
    "--heartbeat-ms",
    "--election-ms",
    "--snapshot-interval",
    "--lease-reads",
    "--groups",
    "--chunk-bytes",
    "--learners-first",
    "--max-batch",
    "--max-pipeline",
    "--max-pending",
    "--apply-slice",
    "--repeat-window",
    "--machine-version",
    "--functions",
    "--store",
    "--partition-strategy",
    "--preferred",
    "--net-tick-ms",
    "--flag-probes",
    "--checkpoint-interval",
    "--wal-bytes",
    "--target-group-size",
    "--auto-remove",
    "--replica-check-ms",
    "--replica-trigger-ms",
    "--replica-recovery-ms",
    "--zones",
    "--placement",
    "--convert-messages",
    "--convert-queues",
)


def parse(arguments: Sequence[str]) -> tuple[NodeConfig, str]:
    """What the command line says: the node's configuration and its data directory.

    (argparse takes a tenth of the time that the whole node has for its start.)

    Raises:
        ArgumentError: it is wrong; the message names the argument.
    """
    options, peers = _split(arguments)
    for required in ("--node", "--listen", "--data"):
        if required not in options:
            raise ArgumentError(f"{required} is missing.")
    try:
        bugs = Bugs([bug for bug in options.get("--bugs", "").split(",") if bug])
        raft = _raft_config(options)
    except (UnknownBugError, ValueError) as error:
        raise ArgumentError(str(error)) from error
    preferred = tuple(name for name in options.get("--preferred", "").split(",") if name)
    config = NodeConfig(
        node=options["--node"],
        listen=_address(options["--listen"], "--listen"),
        peers=peers,
        founders=tuple(name for name in options.get("--founders", "").split(",") if name),
        incarnation=_number_of(options, "--incarnation", 0),
        raft=raft,
        bugs=bugs,
        groups=tuple(name for name in options.get("--groups", "").split(",") if name),
        snapshot_interval=_number_of(options, "--snapshot-interval", SNAPSHOT_INTERVAL),
        checkpoint_interval=_number_of(options, "--checkpoint-interval", CHECKPOINT_INTERVAL),
        wal_bytes=_number_of(options, "--wal-bytes", WAL_BYTES),
        chunk_bytes=_number_of(options, "--chunk-bytes", CHUNK_BYTES),
        learners_first=_switch(options, "--learners-first"),
        apply_slice=_number_of(options, "--apply-slice", APPLY_SLICE),
        repeat_window=_number_of(options, "--repeat-window", WINDOW),
        machine_version=_number_of(options, "--machine-version", NEWEST_VERSION),
        flag_probes=_number_of(options, "--flag-probes", 0),
        functions=_functions(options, bugs),
        store=options.get("--store", "tree"),
        partition_strategy=_strategy(options, preferred),
        preferred=preferred,
        net_tick_ms=_number_of(options, "--net-tick-ms", TICK_MS),
        replicas=_replica_settings(options),
        conversions=Thresholds(
            _number_of(options, "--convert-messages", 0) or None,
            _number_of(options, "--convert-queues", 0) or None,
        ),
    )
    return config, options["--data"]


def _strategy(options: dict[str, str], preferred: Sequence[str]) -> str:
    """The strategy for partitions of the tables, which has to make sense where the node has none, too."""
    name = options.get("--partition-strategy", "ignore")
    if "--partition-strategy" in options or preferred:
        from splitbrain.cluster.tables.strategies import strategy_named  # most nodes do without it, and start sooner

        strategy_named(name, preferred)
    return name


def _functions(options: dict[str, str], bugs: Bugs) -> Functions:
    """The registered functions that the node knows: with two stores also those of the migration."""
    found = known((place for place in options.get("--functions", "").split(",") if place), bugs)
    if options.get("--store") != "tables":
        return found
    return Functions.of(found, _of_migration(), bugs=bugs)


@lru_cache(maxsize=1)
def _of_migration() -> Functions:
    """Those of the migration. They are checked once: simulated nodes of one process start often."""
    from splitbrain.cluster.migration.treewrites import add_functions  # most nodes do without it, and start sooner

    found = Functions()
    add_functions(found)
    return found


def _split(arguments: Sequence[str]) -> tuple[dict[str, str], dict[str, Address]]:
    options: dict[str, str] = {}
    peers: dict[str, Address] = {}
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if option not in _OPTIONS:
            raise ArgumentError(f"there is no argument {argument!r}.")
        if not equals:
            value = next(rest, "")
        if not value:
            raise ArgumentError(f"{option} needs a value.")
        if option == _REPEATABLE:
            name, _, address = value.partition("=")
            if not name or name in peers:
                raise ArgumentError(f"--peer takes NAME=HOST:PORT, each name once, not {value!r}.")
            peers[name] = _address(address, "--peer")
        elif option in options:
            raise ArgumentError(f"{option} is given twice.")
        else:
            options[option] = value
    return options, peers


def _address(text: str, option: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ArgumentError(f"{option} takes HOST:PORT, not {text!r}.")
    return host.strip("[]"), int(port)


def _raft_config(options: dict[str, str]) -> Config:
    default = Config()
    heartbeat_ms = _milliseconds(options.get("--heartbeat-ms", str(default.heartbeat_ms)), "--heartbeat-ms")
    min_ms, max_ms = _election_ms(options, default)
    return Config(
        heartbeat_ms=heartbeat_ms,
        election_min_ms=min_ms,
        election_max_ms=max_ms,
        lease_reads=_switch(options, "--lease-reads"),
        max_batch=_number_of(options, "--max-batch", default.max_batch),
        max_pipeline=_number_of(options, "--max-pipeline", default.max_pipeline),
        max_pending=_number_of(options, "--max-pending", default.max_pending),
    )


def _replica_settings(options: dict[str, str]) -> ReplicaSettings:
    zones: dict[str, str] = {}
    for each in options.get("--zones", "").split(","):
        node, _, zone = each.partition("=")
        if each and not (node and zone and node not in zones):
            raise ArgumentError(f"--zones takes NAME=ZONE, each name once, not {each!r}.")
        if each:
            zones[node] = zone
    placement = options.get("--placement", REPLICAS.placement)
    placement_named(placement)
    return ReplicaSettings(
        target=_number_of(options, "--target-group-size", REPLICAS.target),
        auto_remove=_switch(options, "--auto-remove", default="1"),
        interval_ms=_number_of(options, "--replica-check-ms", REPLICAS.interval_ms),
        trigger_ms=_number_of(options, "--replica-trigger-ms", REPLICAS.trigger_ms),
        recovery_ms=_number_of(options, "--replica-recovery-ms", REPLICAS.recovery_ms),
        zones=zones,
        placement=placement,
    )


def _election_ms(options: dict[str, str], default: Config) -> tuple[int, int]:
    if "--election-ms" not in options:
        return default.election_min_ms, default.election_max_ms
    low, _, high = options["--election-ms"].partition("-")
    min_ms = _milliseconds(low, "--election-ms")
    return min_ms, _milliseconds(high, "--election-ms") if high else 2 * min_ms


def _number_of(options: dict[str, str], option: str, default: int) -> int:
    text = options.get(option, str(default))
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentError(f"{option} takes a whole number, not {text!r}.")
    return int(text)


def _switch(options: dict[str, str], option: str, default: str = "0") -> bool:
    text = options.get(option, default)
    if text not in ("0", "1"):
        raise ArgumentError(f"{option} takes 0 or 1, not {text!r}.")
    return text == "1"


def _milliseconds(text: str, option: str) -> int:
    if not text.isdecimal():
        raise ArgumentError(f"{option} takes whole milliseconds, not {text!r}.")
    return int(text)
