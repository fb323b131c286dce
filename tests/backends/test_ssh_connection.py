"""A connection to a host: only with the host key that is known, only with a key that is let in, each step in its time.

The host is an sshd of this machine's, on loopback and with keys of its own.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import io
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Generator
from pathlib import Path

import paramiko
import pytest

from splitbrain.harness.backends.ssh import connection as module
from splitbrain.harness.backends.ssh.connection import Connection, HostError, connect
from splitbrain.harness.backends.ssh.inventory import Host, Inventory
from splitbrain.results.errors import UsageError
from tests.backends.ssh_support import new_key
from tests.backends.support import missing


class Server:
    """A running sshd, and the inventory that reaches it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.host = Host("n1", "127.0.0.1", port)
        self.inventory = Inventory((self.host,), folder / "known_hosts", folder / "user", getpass.getuser())

    def connect(self, inventory: Inventory | None = None, host: Host | None = None) -> Connection:
        return connect(host or self.host, inventory or self.inventory, notes.append)


notes: list[str] = []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server, None, None]:
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None:
        missing("there is no sshd (Debian and Ubuntu: apt install openssh-server)")
    folder = tmp_path_factory.mktemp("sshd")
    user_key, host_key = new_key(folder / "user"), new_key(folder / "host")
    (folder / "authorized").write_text(f"{user_key}\n")
    (folder / "authorized").chmod(0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"UsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        f"KbdInteractiveAuthentication no\nPidFile none\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd confines its unprivileged part
    with subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            yield Server(folder, port)
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as endpoint:
            endpoint.settimeout(5)
            if endpoint.recv(4) == b"SSH-":
                return
        assert time.monotonic() < deadline, "sshd does not come up"
        time.sleep(0.05)


@pytest.fixture
def connection(server: Server) -> Generator[Connection, None, None]:
    made = server.connect()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_notes() -> None:
    notes.clear()


def test_a_command_gets_its_input_and_its_end_is_told(connection: Connection) -> None:
    data = os.urandom(3 << 20)
    done = connection.run("sha256sum | cut -c1-64; echo sorry >&2; exit 7", data)
    assert (done.code, done.errors) == (7, "sorry\n")
    assert done.output == f"{hashlib.sha256(data).hexdigest()}\n"
    assert (connection.address, connection.own_address) == ("127.0.0.1", "127.0.0.1")


def test_a_command_that_reads_nothing_does_not_block_its_input(connection: Connection) -> None:
    assert connection.run("exit 3", bytes(8 << 20)).code == 3


def test_output_is_fetched_whole(connection: Connection) -> None:
    sink = io.BytesIO()
    assert connection.fetch("head -c 5000000 /dev/zero; echo end", sink).code == 0
    assert sink.getvalue() == bytes(5_000_000) + b"end\n"


def test_a_command_that_does_not_end_is_given_up(connection: Connection) -> None:
    with pytest.raises(HostError, match=r"n1 \(127.0.0.1:\d+\): 'sleep 60' did not end within 0.2 s"):
        connection.run("sleep 60", timeout_s=0.2)


def test_a_fetch_that_stalls_is_given_up(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DATA_COMES_WITHIN_S", 0.2)
    with pytest.raises(HostError, match=r"sent nothing for 0.2 s"):
        connection.fetch("echo begin; sleep 60", io.BytesIO())


def test_a_closed_connection_is_an_error_of_the_host(connection: Connection) -> None:
    connection.close()
    with pytest.raises(HostError, match=r"the ssh connection is broken"):
        connection.run("true")


def test_a_host_that_is_not_known_is_refused_with_its_key(server: Server, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"somebody.else {new_key(tmp_path / 'other')}\n")
    with pytest.raises(HostError, match=r"no host key of \[127.0.0.1\]:\d+ is in .*shows ssh-ed25519 SHA256:"):
        server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key))
    assert (tmp_path / "known").read_text().count("\n") == 1, "nothing was added"
    assert notes == [], "it was asked once"


def test_a_broken_file_of_known_hosts_is_a_wrong_request(server: Server, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.host.port} ssh-ed25519 AAAAC3NzaC1lZ\n")
    with pytest.raises(UsageError, match=r"--known-hosts .*known: line 1 cannot be read"):
        server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key))


def test_lines_for_certificates_do_not_matter(server: Server, tmp_path: Path) -> None:
    mark = f"@cert-authority *.lab {new_key(tmp_path / 'authority')} of the lab\n"
    (tmp_path / "known").write_text(f"# hosts\n\n{mark}{server.inventory.known_hosts.read_text()}")
    server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key)).close()


def test_a_key_that_is_revoked_for_others_is_accepted(server: Server, tmp_path: Path) -> None:
    listed, kind, key = server.inventory.known_hosts.read_text().split()
    revoked = (
        f"@revoked *.lab,somebody.else,*,!127.0.0.1,!{listed} {kind} {key}\n@revoked * {new_key(tmp_path / 'old')}\n"
    )
    (tmp_path / "known").write_text(revoked + server.inventory.known_hosts.read_text())
    server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key)).close()


@pytest.mark.parametrize("hosts", ["*", "127.0.0.1", "[127.0.0.1]:{port}", "other,127.0.?.1", "{hashed}"])
@pytest.mark.parametrize("listed", ["as good", "not at all", "with another key"])
def test_a_host_that_shows_a_revoked_key_is_refused(server: Server, tmp_path: Path, hosts: str, listed: str) -> None:
    good = server.inventory.known_hosts.read_text()
    name, kind, key = good.split()
    hosts = hosts.format(port=server.host.port, hashed=paramiko.HostKeys.hash_host(name))
    others = {"as good": good, "not at all": "", "with another key": f"{name} {new_key(tmp_path / 'new')}\n"}
    (tmp_path / "known").write_text(f"{others[listed]}@revoked {hosts} {kind} {key} stolen\n")
    with pytest.raises(HostError, match=r"n1 .*known revokes the host key that it shows, ssh-ed25519 SHA256:"):
        server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key))
    assert notes == [], "it was asked once"


def test_of_several_keys_the_one_that_is_not_revoked_counts(server: Server, tmp_path: Path) -> None:
    good = server.inventory.known_hosts.read_text()
    stolen = new_key(tmp_path / "stolen")
    (tmp_path / "known").write_text(f"{good.split()[0]} {stolen}\n{good}@revoked * {stolen}\n")
    server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key)).close()


@pytest.mark.parametrize("line", ["@revoked *", "@revoked * ssh-ed25519", "@revocked * ssh-ed25519 AAAA"])
def test_a_mark_that_cannot_be_understood_is_not_passed_over(server: Server, tmp_path: Path, line: str) -> None:
    """It may revoke what the next line lists."""
    (tmp_path / "known").write_text(f"{line}\n{server.inventory.known_hosts.read_text()}")
    with pytest.raises(UsageError, match="line 1 cannot be read"):
        server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key))


def test_names_may_be_hashed_or_patterns(server: Server, tmp_path: Path) -> None:
    name, kind, key = server.inventory.known_hosts.read_text().split()
    for written in (paramiko.HostKeys.hash_host(name), f"a.lab,[127.0.0.*]:{server.host.port}"):
        (tmp_path / "known").write_text(f"{written} {kind} {key}\n|1|broken|x {kind} {key}\n")
        server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key)).close()


def test_a_host_with_another_key_is_refused(server: Server, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other")
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.host.port} {other}\n")
    with pytest.raises(HostError, match=r"the host key is not the one in .*known: .*ssh-keygen -R") as told:
        server.connect(Inventory((server.host,), tmp_path / "known", server.inventory.key))
    assert "\n" not in str(told.value)
    assert notes == []


def test_a_key_that_is_not_let_in_is_told_once(server: Server, tmp_path: Path) -> None:
    new_key(tmp_path / "stranger")
    with pytest.raises(HostError, match=rf"user '{getpass.getuser()}' cannot log in with the key .*stranger"):
        server.connect(Inventory((server.host,), server.inventory.known_hosts, tmp_path / "stranger"))
    assert notes == []


def test_a_file_that_is_no_key_is_a_wrong_request(server: Server, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a key\n")
    with pytest.raises(UsageError, match="no private key can be read from it"):
        server.connect(Inventory((server.host,), server.inventory.known_hosts, tmp_path / "text"))


def test_an_encrypted_key_is_a_wrong_request(server: Server, tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(tmp_path / "locked")],
        check=True,
    )
    with pytest.raises(UsageError, match=r"the key is encrypted. Add it to an ssh agent"):
        server.connect(Inventory((server.host,), server.inventory.known_hosts, tmp_path / "locked"))


def test_a_closed_port_is_tried_three_times_and_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_BETWEEN_TRIES_S", (0.01, 0.01))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = Host("n1", "127.0.0.1", closed.getsockname()[1])
        with pytest.raises(HostError, match="the port is closed: no ssh server listens there"):
            server.connect(host=host)
    assert len(notes) == 2
    assert all(note.endswith("Trying again.") for note in notes)


def test_a_host_that_takes_no_connection_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_BETWEEN_TRIES_S", ())
    monkeypatch.setattr(module, "CONNECTS_WITHIN_S", 0.3)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with contextlib.ExitStack() as waiting:  # a queue that is full: further SYNs are dropped
            for _ in range(3):
                queued = waiting.enter_context(socket.socket())
                queued.setblocking(False)
                queued.connect_ex(full.getsockname())
            with pytest.raises(HostError, match=r"the host does not answer \(no connection within 0.3 s\)"):
                server.connect(host=Host("n1", "127.0.0.1", full.getsockname()[1]))


def test_a_port_that_says_nothing_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_BETWEEN_TRIES_S", ())
    monkeypatch.setattr(module, "GREETS_WITHIN_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(HostError, match="no ssh session begins"):
        server.connect(host=Host("n1", "127.0.0.1", silent.getsockname()[1]))


def test_a_name_that_does_not_resolve_is_told_once(server: Server) -> None:
    with pytest.raises(HostError, match="the name cannot be resolved"):
        server.connect(host=Host("n1", "no-such-host.invalid"))
    assert notes == []


@pytest.mark.slow
def test_a_second_try_that_works_is_a_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GREETS_WITHIN_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as relay:
        port = relay.getsockname()[1]
        (server.folder / "relay").write_text(
            server.inventory.known_hosts.read_text().replace(f":{server.host.port}", f":{port}")
        )
        relaying = threading.Thread(target=_refuse_once_then_relay, args=(relay, server.host.port), daemon=True)
        relaying.start()
        made = server.connect(
            Inventory((), server.folder / "relay", server.inventory.key), Host("n1", "127.0.0.1", port)
        )
        assert made.run("echo through").output == "through\n"
        made.close()
        relaying.join(timeout=60)
    assert len(notes) == 1


def _refuse_once_then_relay(relay: socket.socket, port: int) -> None:
    relay.accept()[0].close()
    client, _ = relay.accept()
    with client, socket.create_connection(("127.0.0.1", port)) as server:

        def pump(source: socket.socket, to: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    to.sendall(data)
            with contextlib.suppress(OSError):  # also after a connection that was reset: the other thread waits for it
                to.shutdown(socket.SHUT_RDWR)

        back = threading.Thread(target=pump, args=(server, client), daemon=True)
        back.start()
        pump(client, server)
        back.join(timeout=60)
