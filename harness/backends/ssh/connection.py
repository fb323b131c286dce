"""One host over ssh: connecting with a known host key, running commands, each with a timeout.

Everything here blocks, and must run in a thread: paramiko serves each connection in its own thread. Only
connecting is tried again, and only where the network failed: a host that refuses a key, or shows a wrong one, does so
once. A host that vanishes without a word is noticed by the kernel (TCP_USER_TIMEOUT) within DEAD_AFTER_S.
"""

from __future__ import annotations

import getpass
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final, NoReturn

import paramiko

from splitbrain.harness.backends.ssh.inventory import SSH_PORT, Host, Inventory
from splitbrain.harness.backends.ssh.knownhosts import KnownHosts
from splitbrain.results.errors import BackendError, UsageError

CONNECTS_WITHIN_S: Final = 4.0
GREETS_WITHIN_S: Final = 6.0
AUTHENTICATES_WITHIN_S: Final = 15.0
COMMAND_ENDS_WITHIN_S: Final = 30.0
DATA_COMES_WITHIN_S: Final = 20.0
DEAD_AFTER_S: Final = 10.0
KEEP_ALIVE_EVERY_S: Final = 5
PAUSES_BETWEEN_TRIES_S: Final = (0.5, 1.0)
"""The number of retries for a host whose network failed."""

_CHUNK_BYTES: Final = 1 << 16
_LOG: Final = "splitbrain.ssh"
# The threads of paramiko log errors that its callers get anyway.
logging.getLogger(_LOG).addHandler(logging.NullHandler())
logging.getLogger(_LOG).propagate = False


@dataclass(frozen=True)
class Done:
    """What came of a command: its exit code (-1: a signal ended it), and the text that it printed."""

    code: int
    output: str
    errors: str


class HostError(BackendError):
    """Something does not work with one host. The message begins with the host."""

    def __init__(self, host: Host, problem: str) -> None:
        super().__init__(f"{host}: {problem}")
        self.host = host
        self.problem = problem


class _NetworkError(HostError):
    """The network failed on the way to a host: worth another try."""


class _HostKeys(paramiko.MissingHostKeyPolicy):
    """Accepts a host only with a known key that is not revoked."""

    def __init__(self, host: Host, inventory: Inventory, address: str) -> None:
        self._host = host
        self._file = inventory.known_hosts
        self._known = KnownHosts(inventory.known_hosts)
        self._listed = host.name if host.port == SSH_PORT else f"[{host.name}]:{host.port}"
        self._names = (self._listed, host.name, address)

    def show(self, client: paramiko.SSHClient) -> None:
        """Give a client the expected keys: the first of each kind, because it compares no others."""
        client.set_missing_host_key_policy(self)
        first: dict[str, paramiko.PKey] = {}
        for key in self._known.keys(self._listed, self._names):
            first.setdefault(key.get_name(), key)
        for kind, key in first.items():
            client.get_host_keys().add(self._listed, kind, key)

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> NoReturn:
        raise self.refused(key, known=False)

    def refused(self, shown: paramiko.PKey, *, known: bool) -> HostError:
        """The error for an unknown key; `known`: whether the host has any known keys."""
        if self._known.revokes(self._names, shown):
            problem = (
                f"{self._file} revokes the host key that it shows, {_shown(shown)}. Anyone with that key can "
                "impersonate the host: give it a new one, and add that to the file."
            )
        elif known:
            problem = (
                f"the host key is not the one in {self._file}: the host shows {_shown(shown)}. The connection may be "
                f"intercepted. If the host was reinstalled, replace the line of {self._listed} "
                f"(ssh-keygen -R '{self._listed}')."
            )
        else:
            problem = (
                f"no host key of {self._listed} is in {self._file}. The host shows {_shown(shown)}: if that is its "
                "key, add it (ssh-keyscan prints it in the file's format)."
            )
        return HostError(self._host, problem)


class Connection:
    """A connection to a host, logged in. Made by `connect`.

    Attributes:
        host: the host.
        address: its IP address, as connected to.
        own_address: this machine's, as the host sees it if nothing translates addresses in between.
    """

    def __init__(self, host: Host, client: paramiko.SSHClient, endpoint: socket.socket) -> None:
        self.host = host
        self.address: str = endpoint.getpeername()[0]
        self.own_address: str = endpoint.getsockname()[0]
        self._client = client

    def run(self, command: str, data: bytes = b"", timeout_s: float = COMMAND_ENDS_WITHIN_S) -> Done:
        """Run a shell command with some standard input, to its end.

        Raises:
            HostError: it did not end in time, or the connection broke.
        """
        deadline = time.monotonic() + timeout_s
        with self.open(command) as channel:
            try:
                _send(channel, data, deadline)
                output = _read_all(channel.recv, channel, deadline)
                errors = _read_all(channel.recv_stderr, channel, deadline)
                return Done(_exit_code(channel, deadline), _text(output), _text(errors))
            except TimeoutError:
                raise HostError(self.host, f"{_short(command)} did not end within {timeout_s:g} s.") from None
            except (OSError, paramiko.SSHException, EOFError) as error:
                raise self._broken(error) from None

    def fetch(self, command: str, sink: IO[bytes]) -> Done:
        """Run a command and write what it prints into a file. It may take any time, as long as something comes.

        Raises:
            HostError: nothing came for DATA_COMES_WITHIN_S, or the connection broke.
        """
        with self.open(command) as channel:
            try:
                channel.settimeout(DATA_COMES_WITHIN_S)
                while chunk := channel.recv(_CHUNK_BYTES):
                    sink.write(chunk)
                deadline = time.monotonic() + DATA_COMES_WITHIN_S
                errors = _read_all(channel.recv_stderr, channel, deadline)
                return Done(_exit_code(channel, deadline), "", _text(errors))
            except TimeoutError:
                raise HostError(self.host, f"{_short(command)} sent nothing for {DATA_COMES_WITHIN_S:g} s.") from None
            except (paramiko.SSHException, EOFError) as error:
                raise self._broken(error) from None

    def open(self, command: str) -> paramiko.Channel:
        """Start a command; its channel is for the caller.

        Raises:
            HostError: the connection is broken, or the host does not run commands for us.
        """
        transport = self._client.get_transport()
        try:
            if transport is None or not transport.is_active():
                raise EOFError
            channel = transport.open_session(timeout=CONNECTS_WITHIN_S)
            channel.settimeout(CONNECTS_WITHIN_S)
            channel.exec_command(command)
            return channel
        except (OSError, paramiko.SSHException, EOFError) as error:
            raise self._broken(error) from None

    def close(self) -> None:
        """Log out. Commands that run on the host lose their standard input."""
        self._client.close()

    def _broken(self, error: Exception) -> HostError:
        said = str(error) or "the host closed it, or is gone"
        return HostError(self.host, f"the ssh connection is broken: {said.rstrip('.')}.")


def connect(host: Host, inventory: Inventory, note: Callable[[str], None]) -> Connection:
    """Log in to a host.

    Args:
        host: where.
        inventory: keys and users.
        note: called with every attempt that failed and is repeated.

    Raises:
        UsageError: the private key cannot be used.
        HostError: the host does not answer, shows an unknown or a wrong host key, or does not let us in.
    """
    key = _private_key(inventory)
    for pause_s in (*PAUSES_BETWEEN_TRIES_S, None):
        try:
            return _connect_once(host, inventory, key)
        except _NetworkError as error:
            if pause_s is None:
                raise
            note(f"{error} Trying again.")
            time.sleep(pause_s)
    raise AssertionError("the last try either connects or raises")


def _connect_once(host: Host, inventory: Inventory, key: paramiko.PKey | None) -> Connection:
    endpoint = _dial(host)
    client = paramiko.SSHClient()
    try:
        client.set_log_channel(_LOG)
        _log_in(client, endpoint, host, inventory, key)
        transport = client.get_transport()
        assert transport is not None, "it has just been logged in over it"
        transport.set_keepalive(KEEP_ALIVE_EVERY_S)
        return Connection(host, client, endpoint)
    except BaseException:
        client.close()
        endpoint.close()
        raise


def _dial(host: Host) -> socket.socket:
    try:
        endpoint = socket.create_connection((host.name, host.port), timeout=CONNECTS_WITHIN_S)
    except socket.gaierror as error:
        raise HostError(host, f"the name cannot be resolved: {error.strerror}.") from None
    except ConnectionRefusedError:
        raise _NetworkError(host, "the port is closed: no ssh server listens there.") from None
    except TimeoutError:
        raise _NetworkError(host, f"the host does not answer (no connection within {CONNECTS_WITHIN_S:g} s).") from None
    except OSError as error:
        raise _NetworkError(host, f"the host cannot be reached: {error.strerror or error}.") from None
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(DEAD_AFTER_S * 1000))
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return endpoint


def _log_in(
    client: paramiko.SSHClient, endpoint: socket.socket, host: Host, inventory: Inventory, key: paramiko.PKey | None
) -> None:
    host_keys = _HostKeys(host, inventory, endpoint.getpeername()[0])
    host_keys.show(client)
    user = host.user or inventory.user or getpass.getuser()
    try:
        client.connect(
            host.name,
            port=host.port,
            username=user,
            pkey=key,
            sock=endpoint,
            timeout=GREETS_WITHIN_S,
            banner_timeout=GREETS_WITHIN_S,
            auth_timeout=AUTHENTICATES_WITHIN_S,
            channel_timeout=CONNECTS_WITHIN_S,
            allow_agent=key is None,
            look_for_keys=key is None,
        )
    except paramiko.BadHostKeyException as error:
        raise host_keys.refused(error.key, known=True) from None
    except paramiko.AuthenticationException as error:
        tried = "any key of the ssh agent or ~/.ssh" if key is None else f"the key {inventory.key}"
        raise HostError(host, f"user {user!r} cannot log in with {tried} ({_line(error)}).") from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        if "No authentication methods" in str(error):
            raise HostError(host, f"there is no key for user {user!r}: give --ssh-key.") from None
        raise _NetworkError(host, f"no ssh session begins: {_line(error)}.") from None


def _private_key(inventory: Inventory) -> paramiko.PKey | None:
    if inventory.key is None:
        return None
    try:
        return paramiko.PKey.from_path(inventory.key)
    except (paramiko.PasswordRequiredException, TypeError):  # the latter is what the parser of OpenSSH's format raises
        raise UsageError(
            f"--ssh-key {inventory.key}: the key is encrypted. Add it to an ssh agent (ssh-add), or remove --ssh-key."
        ) from None
    except Exception as error:  # its parsers raise various errors for a file that is not a key
        raise UsageError(f"--ssh-key {inventory.key}: no private key can be read from it ({_line(error)}).") from None


# --- channels ---------------------------------------------------------------------------------------------------------


def _send(channel: paramiko.Channel, data: bytes, deadline: float) -> None:
    rest = memoryview(data)
    try:
        while rest:
            channel.settimeout(_left(deadline))
            rest = rest[channel.send(bytes(rest[:_CHUNK_BYTES])) :]
        channel.shutdown_write()
    except TimeoutError:
        raise
    except OSError:
        return  # the command ended without reading everything: its exit code shows why


def _read_all(receive: Callable[[int], bytes], channel: paramiko.Channel, deadline: float) -> bytes:
    read = bytearray()
    while True:
        channel.settimeout(_left(deadline))
        chunk = receive(_CHUNK_BYTES)
        if not chunk:
            return bytes(read)
        read += chunk


def _exit_code(channel: paramiko.Channel, deadline: float) -> int:
    if not channel.status_event.wait(_left(deadline)):
        raise TimeoutError
    return channel.exit_status


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _shown(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


def _short(command: str) -> str:
    return repr(command if len(command) <= 60 else command[:57] + "...")
