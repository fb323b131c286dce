"""Which hosts there are, and how they are known: what `--hosts` and its companions say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from splitbrain.harness.contract.listed import names
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.results.errors import UsageError

SSH_PORT = 22
KNOWN_HOSTS = "~/.ssh/known_hosts"

_HOST = re.compile(
    r"(?P<node>[A-Za-z][A-Za-z0-9]{0,11})=(?:(?P<user>[^@\s=]+)@)?(?P<name>\[[0-9A-Fa-f:.]+\]|[^\s:@=\[\]]+)"
    r"(?::(?P<port>\d{1,5}))?"
)


class Host(msgspec.Struct, frozen=True):
    """One host.

    Attributes:
        node: the name of the node that lives there.
        name: its name or address, under which the controller and the other hosts reach it.
        port: of its ssh server.
        user: who logs in; None for the inventory's user.
    """

    node: NodeId
    name: str
    port: int = SSH_PORT
    user: str | None = None

    def __str__(self) -> str:
        """As a message names it."""
        return f"{self.node} ({self.name}:{self.port})"


class Inventory(msgspec.Struct, frozen=True):
    """All hosts of a test, and how to log in.

    Attributes:
        hosts: one per node.
        known_hosts: the file with the hosts' keys, in OpenSSH's format.
        key: the file with the private key; None for those of an ssh agent, and the usual ones in ~/.ssh.
        user: the user on hosts without their own; None for the user of this process.
    """

    hosts: tuple[Host, ...]
    known_hosts: Path
    key: Path | None = None
    user: str | None = None

    @staticmethod
    def of(hosts: str, known_hosts: str = KNOWN_HOSTS, key: str | None = None, user: str | None = None) -> Inventory:
        """The inventory that the command line describes.

        Args:
            hosts: `NODE=[USER@]HOST[:PORT]`, separated by commas; or `@FILE`, a file of such entries, one a line, with
                blank lines and lines that begin with `#` left out.
            known_hosts: a file name.
            key: a file name.
            user: the user on hosts without their own.

        Raises:
            UsageError: an entry that is none, a node or host named twice, or a file that is not there.
        """
        return Inventory(
            hosts=parse_hosts(hosts),
            known_hosts=_file(known_hosts, "--known-hosts", "Make one with ssh-keyscan and compare its keys"),
            key=None if key is None else _file(key, "--ssh-key", "Give the file of a private key"),
            user=user,
        )

    def check_nodes(self, nodes: Sequence[NodeId]) -> None:
        """Refuse nodes that have no host here.

        Raises:
            UsageError: one has none.
        """
        known = {host.node for host in self.hosts}
        missing = [node for node in nodes if node not in known]
        if missing:
            raise UsageError(f"the ssh backend has no host for {', '.join(missing)}: name one for each in --hosts.")


def parse_hosts(hosts: str) -> tuple[Host, ...]:
    """The hosts that `--hosts` names (see `Inventory.of`).

    Raises:
        UsageError: an entry that is none, a node or host named twice, or a file that is not there.
    """
    found = tuple(_host(entry, where) for where, entry in _entries(hosts))
    if not found:
        raise UsageError("--hosts has no host: give NODE=[USER@]HOST[:PORT], separated by commas.")
    for what, called in (("node", [host.node for host in found]), ("host", [host.name for host in found])):
        twice = next((name for name in called if called.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"--hosts has the {what} {twice!r} twice: each node needs its own host.")
    return found


def _entries(hosts: str) -> list[tuple[str, str]]:
    """Every entry with where it stands."""
    if not hosts.startswith("@"):
        return [("--hosts", entry) for entry in names("--hosts", hosts)]
    path = Path(hosts[1:]).expanduser()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--hosts {hosts}: the file cannot be read: {error}.") from None
    return [
        (f"{path}:{number}", line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.strip().startswith("#")
    ]


def _host(entry: str, where: str) -> Host:
    match = _HOST.fullmatch(entry)
    if match is None:
        raise UsageError(f"{where}: {entry!r} is not a host: give NODE=[USER@]HOST[:PORT], e.g. n1=admin@10.0.0.1:22.")
    port = int(match["port"] or SSH_PORT)
    if not 0 < port < 65536:
        raise UsageError(f"{where}: {entry!r} has no port: a port is 1 to 65535.")
    return Host(node=match["node"], name=match["name"].strip("[]"), port=port, user=match["user"])


def _file(name: str, option: str, advice: str) -> Path:
    path = Path(name).expanduser()
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise UsageError(f"{option} {name}: {error.strerror}. {advice}.") from None
