"""The files with which a server is configured: settings, who may connect, and the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

READ_COMMITTED: Final = "read-committed"
REPEATABLE_READ: Final = "repeatable-read"
SERIALIZABLE: Final = "serializable"

PROMISES: Final[Mapping[str, str]] = {
    READ_COMMITTED: "read-committed",
    REPEATABLE_READ: "snapshot-isolation",
    SERIALIZABLE: "serializable",
}
"""The levels, the default of PostgreSQL first, and the consistency model that each promises (the manual's chapter
"Transaction Isolation"; that repeatable read is snapshot isolation says Ports and Grittner's "Serializable Snapshot
Isolation in PostgreSQL", VLDB 2012)."""

USER: Final = "splitbrain"
DATABASE: Final = "postgres"

LOCK_TIMEOUT_MS: Final = 1500
"""Shorter than the usual op timeout of two seconds, so that the server can still say that it gave up."""

ACCESS: Final = "host all all all trust\nhost replication all all trust\n"
"""Who may connect: every one that reaches a node, which is on loopback or a private network."""

TABLES: Final = """
create table registers (key text primary key, value jsonb not null);
create table elements (collection text, element bigint, primary key (collection, element));
create table counters (name text primary key, sum bigint not null);
create table locks (name text primary key, owner bigint, token bigint not null);
create table transaction_registers (key text primary key, value jsonb not null);
create table transaction_lists (key text primary key, elements bigint[] not null);
create table objects (universe text, key text, value bigint not null, primary key (universe, key));
"""


def configuration(
    *,
    node: str,
    address: tuple[str, int],
    others: tuple[str, ...],
    isolation: str,
    connections: int,
    synchronous: int,
    checkpoint_s: int,
) -> str:
    """The contents of postgresql.conf.

    Args:
        node: its name.
        address: on which it serves clients and standbys.
        others: the other nodes of the test.
        isolation: the default of transactions, and of statements outside of one.
        connections: how many clients it must take at once.
        synchronous: how many standbys must have a commit on disk before it is acknowledged.
        checkpoint_s: seconds between two checkpoints.
    """
    host, port = address
    settings: dict[str, str | int] = {
        "listen_addresses": host,
        "port": port,
        "unix_socket_directories": "",
        "cluster_name": node,
        "max_connections": connections,
        "shared_buffers": "32MB",
        "default_transaction_isolation": isolation.replace("-", " "),
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "synchronous_standby_names": f"ANY {synchronous} ({', '.join(others)})" if synchronous and others else "",
        "checkpoint_timeout": f"{checkpoint_s}s",
        "wal_level": "replica",
        "hot_standby": "on",
        "max_wal_senders": 2 * len(others) + 2,
        "wal_keep_size": "256MB",
        # Who lost the other side notices it within two seconds.
        "wal_receiver_timeout": "2s",
        "wal_sender_timeout": "2s",
        "wal_retrieve_retry_interval": "500ms",
        # A client that is gone leaves no lock behind for long.
        "client_connection_check_interval": "500ms",
        "deadlock_timeout": "200ms",
        "lock_timeout": f"{LOCK_TIMEOUT_MS}ms",
        # Small tables would be scanned whole, and for a serializable transaction a scan has read every row, also those
        # that do not exist yet.
        "enable_seqscan": "off",
        "jit": "off",
        "log_line_prefix": "%m [%p] ",
        "restart_after_crash": "off",
    }
    return "".join(f"{name} = '{value}'\n" for name, value in settings.items())
