"""Where a store is: a folder of this machine, or an address such as s3://bucket/prefix.

Only text is looked at here. What an address leads to is for `splitbrain.results.remote`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from splitbrain.results.errors import UsageError

PUSHED: Final = "_runs"
"""The folder of a pushed store that lists its runs. Readers of Hive layouts leave names with a _ alone."""

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_OPTIONS: Final = {
    "s3": ("region", "endpoint_override", "scheme", "anonymous"),
    "gs": ("endpoint_override", "scheme", "anonymous", "project_id"),
    "hdfs": ("user", "replication"),
    "file": (),
}
"""By kind of store: what may follow the address after a question mark."""


class Place(msgspec.Struct, frozen=True):
    """The address of a store that is not, or not only, a folder of this machine.

    Attributes:
        kind: "s3", "gs", "hdfs" or "file".
        host: the bucket; for hdfs the name node, with its port; "" for file.
        path: below it, without slashes at its ends, "" for all of it.
        options: by name; see docs/running.md.
    """

    kind: str
    host: str
    path: str
    options: dict[str, str] = {}

    def __str__(self) -> str:
        """The address without its options, as messages name it."""
        return f"{self.kind}://{'/'.join(each for each in (self.host, self.path) if each or self.kind == 'file')}"

    def below(self, path: str) -> str:
        """The address of something in the store."""
        return f"{str(self).rstrip('/')}/{path}"


def is_address(name: str) -> bool:
    """Whether this is an address of a store that is read through its service, and not the name of a folder.

    A file: address is one if the folder is a pushed store, or is not there yet.
    """
    return place_of(name) is not None


def place_of(name: str) -> Place | None:
    """The place of this address; None for a folder of this machine, also if a file: address names it.

    Raises:
        UsageError: this is an address, but not one of a store.
    """
    if not _URL.match(name):
        return None
    place = _parsed(name)
    if place.kind != "file":
        return place
    folder = Path("/", place.path)
    return None if folder.is_dir() and not (folder / PUSHED).is_dir() and any(folder.glob("test=*")) else place


def folder_of(name: str) -> Path:
    """The folder that the name of a local store means; it may be written as a file: address."""
    return Path("/", _parsed(name).path) if _URL.match(name) else Path(name)


def run_in(name: str) -> tuple[str, str] | None:
    """The address of the store, and the reference of the run in it, of the address of a run; None if it is no such."""
    if not _URL.match(name):
        return None
    address, mark, options = name.partition("?")
    found = re.fullmatch(r"(.+?)/(test=[^/]+/run=[^/]+)/?", address)
    return None if found is None else (f"{found[1]}{mark}{options}", found[2])


def _parsed(name: str) -> Place:
    try:
        found = urlsplit(name)
        _ = found.port  # which refuses what is no number
        options = dict(parse_qsl(found.query, keep_blank_values=True, strict_parsing=bool(found.query)))
    except ValueError as error:
        raise UsageError(f"{_bare(name)!r} is no address of a store: {error}.") from error
    kind = "gs" if found.scheme == "gcs" else found.scheme
    if kind not in _OPTIONS:
        known = ", ".join(f"{each}://" for each in _OPTIONS)
        raise UsageError(f"{_bare(name)!r}: stores of {kind}:// cannot be read: use {known}, or name a folder.")
    if found.password is not None or (kind in ("s3", "gs") and found.username is not None):
        raise UsageError(
            f"the address of a {kind}:// store has credentials in it, which logs would show: remove them, and set the "
            "service's own variables (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or GOOGLE_APPLICATION_CREDENTIALS)."
        )
    for option in sorted(set(options) - set(_OPTIONS[kind])):
        known = ", ".join(_OPTIONS[kind]) or "none"
        raise UsageError(f"{_bare(name)!r}: there is no option {option!r} of {kind}:// stores. Known: {known}.")
    if kind in ("s3", "gs") and not found.netloc:
        raise UsageError(f"{_bare(name)!r} names no bucket: write {kind}://BUCKET/PREFIX.")
    if not options.get("replication", "1").isdigit():
        raise UsageError(f"{_bare(name)!r}: replication={options['replication']} is no number.")
    path = (unquote(found.path) if kind == "file" else found.path).removeprefix("/").removesuffix("/")
    if kind == "file" and (found.netloc not in ("", "localhost") or not path):
        raise UsageError(f"{_bare(name)!r} names no folder: write file:///FOLDER.")
    if found.fragment or any(part in ("", ".", "..") for part in path.split("/") if path):
        raise UsageError(f"{_bare(name)!r} is no address of a store: its path is not plain.")
    return Place(kind, "" if kind == "file" else found.netloc, path, options)


def _bare(name: str) -> str:
    """The address without what may be secret in it."""
    address = name.partition("?")[0]
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
