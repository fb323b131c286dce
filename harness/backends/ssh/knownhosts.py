"""The file of known host keys, in OpenSSH's format (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).

A line names hosts (patterns, or hashes of names) and a key. A key on a line marked `@revoked` is not accepted from the
hosts that the line names, despite other lines. Certificates are not used here, so the keys of those who sign them
(`@cert-authority`) are passed over, and so are keys of kinds that nothing here can check.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from splitbrain.results.errors import UsageError

_REVOKED: Final = "@revoked"
_CERTIFICATE_AUTHORITY: Final = "@cert-authority"
_HASHED: Final = "|1|"


@dataclass(frozen=True)
class _Hosts:
    """Which hosts a line is about: patterns with `*` and `?`, one of them with `!` takes hosts out again; or hashes."""

    patterns: tuple[str, ...]

    def have(self, name: str) -> bool:
        if any(_matches(pattern[1:], name) for pattern in self.patterns if pattern.startswith("!")):
            return False
        return any(_matches(pattern, name) for pattern in self.patterns)


class KnownHosts:
    """What a file says of the keys of hosts.

    Args:
        path: of the file.

    Raises:
        UsageError: it cannot be read; the error has the line.
    """

    def __init__(self, path: Path) -> None:
        self._keys: list[tuple[_Hosts, paramiko.PKey]] = []
        self._revoked: list[tuple[_Hosts, str]] = []
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError as error:
            raise UsageError(f"--known-hosts {path}: the file cannot be read: {error.strerror}.") from None
        for number, line in enumerate(lines, 1):
            try:
                self._take(line.split())
            except (InvalidHostKey, binascii.Error, ValueError) as error:
                said = " ".join(str(error).split()).rstrip(".")[:200]
                raise UsageError(f"--known-hosts {path}: line {number} cannot be read: {said}.") from None

    def _take(self, words: Sequence[str]) -> None:
        if not words or words[0].startswith("#") or words[0] == _CERTIFICATE_AUTHORITY:
            return
        if words[0] == _REVOKED:
            if len(words) < 4:
                raise ValueError(f"{_REVOKED} is followed by hosts, a kind of key and a key")
            self._revoked.append((_Hosts(tuple(words[1].split(","))), words[3]))
            return
        if words[0].startswith("@"):
            raise ValueError(f"there is no mark {words[0]!r}")
        try:
            entry = HostKeyEntry.from_line(" ".join(words))
        except paramiko.SSHException:
            return
        if entry is not None:
            self._keys.append((_Hosts(tuple(words[0].split(","))), entry.key))

    def keys(self, listed: str, other_names: Iterable[str]) -> list[paramiko.PKey]:
        """The keys of a host, without those that are revoked for it.

        Args:
            listed: the name under which keys of the host stand.
            other_names: names under which they may be revoked besides.
        """
        names = (listed, *other_names)
        return [key for hosts, key in self._keys if hosts.have(listed) and not self.revokes(names, key)]

    def revokes(self, names: Iterable[str], key: paramiko.PKey) -> bool:
        """Whether a key is revoked for a host that has these names."""
        shown, names = key.get_base64(), tuple(names)
        return any(text == shown and any(map(hosts.have, names)) for hosts, text in self._revoked)


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith(_HASHED):
        return _is_hash_of(pattern, name)
    translated = re.escape(pattern.lower()).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(translated, name.lower()) is not None


def _is_hash_of(pattern: str, name: str) -> bool:
    """Whether `|1|SALT|HASH` stands for a name: HMAC-SHA1 of it, with the salt as key."""
    try:
        salt, digest = map(base64.b64decode, pattern.removeprefix(_HASHED).split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
