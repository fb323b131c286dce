"""The program of one node of PostgreSQL: makes or copies its data, runs the server, and promotes a standby by itself.

It is laid beside the node's data and run by a bare interpreter, so it imports nothing of splitbrain.

A test with one node has one server. With several, the first one is the primary at first, and the others are standbys
that copy it (`pg_basebackup`) and stream from it. Then each node looks at its own server and at the others twice a
second. It knows no more than that: there is no store of who leads, no lease and no fencing, as in many set-ups that
people run. `decide` has all rules:

- A standby that has received nothing for the failover timeout promotes itself if it sees no primary, and none of the
  standbys that it reaches receives anything or has more of the log. Of three nodes or more it must reach a majority;
  with two it need not. Nothing keeps another standby from connecting to the old primary at the same moment.
- A primary that sees another one of a later timeline gives way: it stops, drops its data, and copies that one's.
- A standby follows the primary of the latest timeline that it sees, in the same way.
- A node that was primary when it ended looks for a primary before it starts its server.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

USER: Final = "splitbrain"
PERIOD_S: Final = 0.5
PROBE_S: Final = 1.0
COPY_S: Final = 30.0
PROMOTION_S: Final = 10
GIVE_UP_AFTER: Final = 4
"""A standby that sees its primary and receives nothing for so many timeouts needs a new copy."""

LOOK: Final = """
select json_build_object(
  'standby', standby,
  'timeline', case when standby then coalesce(
      (select nullif(received_tli, 0) from pg_stat_wal_receiver), (select timeline_id from pg_control_checkpoint()))
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end,
  'position', case when standby then coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')
    else pg_current_wal_flush_lsn() end - '0/0'::pg_lsn,
  'streaming', exists(select from pg_stat_wal_receiver where status = 'streaming'))
from (select pg_is_in_recovery() as standby) as role
"""


# --- rules ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """What a server says of itself.

    Attributes:
        standby: whether it is one; else it is a primary.
        timeline: grows with each promotion.
        position: the end of the log that it has, in bytes.
        streaming: whether it is a standby with a connection to its primary.
    """

    standby: bool
    timeline: int
    position: int
    streaming: bool


@dataclass(frozen=True)
class Promote:
    """Become primary."""


@dataclass(frozen=True)
class Follow:
    """Become a standby of that node, with its data."""

    node: str


def decide(
    node: str, own: State, others: Mapping[str, State | None], follows: str, silent_s: float, timeout_s: float
) -> Promote | Follow | None:
    """What a node does next; None to go on as it is.

    Args:
        node: its name.
        own: what its server says.
        others: what the servers of all others say; None for one that does not answer.
        follows: the node that a standby copied.
        silent_s: for how long a standby has been without a connection.
        timeout_s: the failover timeout.
    """
    primary = latest_primary(others)
    if not own.standby:
        later = primary is not None and primary > (own.timeline, node)
        return Follow(primary[1]) if primary is not None and later else None
    if primary is not None:
        moved = primary[1] != follows and (primary[0] > own.timeline or not own.streaming)
        return Follow(primary[1]) if moved or silent_s > GIVE_UP_AFTER * timeout_s else None
    if own.streaming or silent_s < timeout_s:
        return None
    reached = {name: state for name, state in others.items() if state is not None}
    if len(others) > 1 and len(reached) + 1 <= (len(others) + 1) // 2:
        return None
    if any(state.streaming for state in reached.values()):
        return None
    best = max((state.position, name) for name, state in (*reached.items(), (node, own)))
    return Promote() if best[1] == node else None


def latest_primary(others: Mapping[str, State | None]) -> tuple[int, str] | None:
    """Timeline and name of the primary of the latest timeline; of two with the same one, the last by name."""
    return max(
        ((state.timeline, name) for name, state in others.items() if state is not None and not state.standby),
        default=None,
    )


# --- the server -------------------------------------------------------------------------------------------------------


class Server:
    """PostgreSQL on this node."""

    def __init__(self, options: argparse.Namespace, programs: Path) -> None:
        self._options = options
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self.data = Path(options.data, "postgresql")

    @property
    def was_primary(self) -> bool:
        """Whether there are data of a primary."""
        return self.data.exists() and not (self.data / "standby.signal").exists()

    @property
    def follows(self) -> str:
        """The node whose copy the data are; "" for none."""
        with contextlib.suppress(FileNotFoundError):
            return (self.data / "splitbrain.follows").read_text()
        return ""

    def command(self) -> list[str]:
        """How the server is started."""
        words = [str(self._programs / "postgres"), "-D", str(self.data)]
        settings = {
            "config_file": f"{self._options.data}/postgresql.conf",
            "hba_file": f"{self._options.data}/hba.conf",
        }
        if self.follows:
            host, port = self._address(self.follows)
            settings["splitbrain.follows"] = self.follows
            settings["primary_conninfo"] = (
                f"host={host} port={port} user={USER} application_name={self._options.node} connect_timeout=2"
            )
        return words + [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def initialize(self) -> None:
        """Make an empty database."""
        new = self._new_folder()
        words = ("--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C")
        words += ("--wal-segsize", "4", "--no-sync")
        subprocess.run((self._programs / "initdb", "-D", new, *words), check=True, stdout=subprocess.DEVNULL)
        tables = Path(self._options.data, "tables.sql").read_bytes()
        alone = (self._programs / "postgres", "--single", "-j", "-D", new, "postgres")
        subprocess.run(alone, check=True, input=tables, stdout=subprocess.DEVNULL)
        self._take_over(new)

    def copy(self, primary: str) -> bool:
        """Replace the data by a copy of a primary's, as its standby; whether that worked."""
        new = self._new_folder()
        host, port = self._address(primary)
        words = ("-h", host, "-p", port, "-U", USER, "-D", new, "-X", "stream", "-c", "fast", "--no-sync")
        try:
            subprocess.run((self._programs / "pg_basebackup", *words), check=True, timeout=COPY_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            log(f"cannot copy {primary}: {error}")
            return False
        (new / "standby.signal").touch()
        (new / "splitbrain.follows").write_text(primary)
        self._take_over(new)
        return True

    def start(self) -> None:
        """Start the server."""
        self._process = subprocess.Popen(self.command())

    def stop(self) -> None:
        """End the server at once, as after a crash."""
        if self._process is not None:
            subprocess.run((self._programs / "pg_ctl", "stop", "-s", "-D", self.data, "-m", "immediate"), check=False)
            self._process.wait()
            self._process = None

    def ended(self) -> int | None:
        """The exit code of the server; None while it runs."""
        return None if self._process is None else self._process.poll()

    def promote(self) -> None:
        """Make the standby a primary."""
        self.ask(self._options.node, f"select pg_promote(true, {PROMOTION_S})", PROMOTION_S + PROBE_S)

    def look(self, node: str) -> State | None:
        """What the server of a node says of itself; None if it does not answer."""
        answer = self.ask(node, LOOK, PROBE_S)
        return None if not answer else State(**json.loads(answer))

    def ask(self, node: str, query: str, limit_s: float) -> str:
        """The answer of the server of a node; "" if there is none."""
        host, port = self._address(node)
        words = (self._programs / "psql", "-XqAt", "-h", host, "-p", port, "-U", USER, "-d", "postgres", "-c", query)
        try:
            return subprocess.run(words, capture_output=True, timeout=limit_s, text=True).stdout.strip()
        except subprocess.TimeoutExpired:
            return ""

    def _address(self, node: str) -> tuple[str, str]:
        options = self._options
        host, _, port = (options.listen if node == options.node else options.peers[node]).rpartition(":")
        return host, port

    def _new_folder(self) -> Path:
        new = self.data.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        return new

    def _take_over(self, new: Path) -> None:
        subprocess.run(("sync", "--file-system", new), check=True)  # at once, and not file by file
        shutil.rmtree(self.data, ignore_errors=True)
        new.rename(self.data)
        subprocess.run(("sync", "--file-system", self.data), check=True)


# --- the node ---------------------------------------------------------------------------------------------------------


class Node:
    """One of several nodes."""

    def __init__(self, options: argparse.Namespace, server: Server) -> None:
        self._options = options
        self._server = server
        self._probes = ThreadPoolExecutor(len(options.peers))
        self._heard_at = time.monotonic()

    def run(self) -> int:
        """Run until the server ends by itself; its exit code."""
        self._begin()
        self._server.start()
        while (code := self._server.ended()) is None:
            time.sleep(PERIOD_S)
            self._step()
        return code

    def _begin(self) -> None:
        server = self._server
        if not server.data.exists() and self._options.node == self._options.founder:
            server.initialize()
        elif not server.data.exists() or server.was_primary:
            must = not server.data.exists()
            while not self._copied() and must:
                time.sleep(PERIOD_S)

    def _copied(self) -> bool:
        primary = latest_primary(self._others())
        return primary is not None and self._server.copy(primary[1])

    def _step(self) -> None:
        own, now = self._server.look(self._options.node), time.monotonic()
        if own is None:  # it starts, or is busy
            return
        if own.streaming or not own.standby:
            self._heard_at = now
        decision = decide(
            self._options.node,
            own,
            self._others(),
            self._server.follows,
            now - self._heard_at,
            self._options.failover_timeout,
        )
        if decision is None:
            return
        log(f"{own}: {decision}")
        if isinstance(decision, Promote):
            self._server.promote()
        else:
            self._server.stop()
            self._server.copy(decision.node)
            self._server.start()
        self._heard_at = time.monotonic()

    def _others(self) -> dict[str, State | None]:
        peers = sorted(self._options.peers)
        return dict(zip(peers, self._probes.map(self._server.look, peers), strict=True))


def log(text: str) -> None:
    """Say something in the node's log."""
    print(f"splitbrain: {text}", flush=True)


def leave_root(data: str) -> None:
    """Start this program again as a plain user, since PostgreSQL refuses to run as root.

    In a user namespace root becomes a plain user who owns the same files. Where the kernel refuses one, as in a
    container, the program becomes the user "postgres" of Debian's package. If the data are in a folder that this user
    cannot enter, it becomes the owner of that folder.
    """
    if os.geteuid() != 0:
        return
    folders = [folder.stat() for folder in Path(data).parents]
    users = [("postgres", "postgres"), *((str(found.st_uid), str(found.st_gid)) for found in folders if found.st_uid)]
    _try(("unshare", "--user", "--ipc", "--map-user=65534", "--map-group=65534"))
    for user, group in users:
        if subprocess.run(("chown", "-R", f"{user}:{group}", data), stderr=subprocess.DEVNULL).returncode == 0:
            _try(("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--pdeathsig=keep"))
    sys.exit("splitbrain: PostgreSQL does not run as root, and no other user can be had here.")


def _try(way: tuple[str, ...]) -> None:
    """Become this program, started in that way, if it can be read then."""
    if subprocess.run((*way, "test", "-r", sys.argv[0]), stderr=subprocess.DEVNULL).returncode == 0:
        os.execvp(way[0], [*way, sys.executable, *sys.argv])


def find_programs() -> Path:
    """The folder of PostgreSQL's programs: the newest of Debian's, or the one on the PATH."""
    versions = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    found = max(versions, key=lambda path: int(path.split("/")[4]), default=shutil.which("postgres"))
    if found is None:
        sys.exit("splitbrain: there is no PostgreSQL here (Debian and Ubuntu: apt install postgresql).")
    return Path(found).resolve().parent


def main() -> int:
    """Run a node; the exit code of its server."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("node", "data", "listen", "founder"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--peer", action="append", default=[], help="NAME=HOST:PORT")
    parser.add_argument("--failover-timeout", type=float, required=True, help="in seconds")
    options = parser.parse_args()
    options.peers = dict(peer.split("=", 1) for peer in options.peer)
    leave_root(options.data)
    server = Server(options, find_programs())
    if options.peers:
        return Node(options, server).run()
    if not server.data.exists():
        server.initialize()
    words = server.command()
    return os.execv(words[0], words)


if __name__ == "__main__":
    sys.exit(main())
