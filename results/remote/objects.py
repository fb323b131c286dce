"""Files behind an address: read, written, listed, removed, by pyarrow's file systems; and their errors in words.

Every file is whole or absent: a service of objects shows one when its upload is complete, and on disks a file is
written aside and renamed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Generator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import fs

from splitbrain.results.errors import RemoteConnectionError, RemoteStoreError
from splitbrain.results.places import Place
from splitbrain.results.plainfile import refuse_others

_CONNECT_S: Final = 5.0
_REQUEST_S: Final = 60.0
_ATTEMPTS: Final = 4
_RETRY: Final = timedelta(seconds=30)
_PIECE_BYTES: Final = 8 << 20


class Found(msgspec.Struct, frozen=True):
    """A file that a listing shows.

    Attributes:
        path: below the root of the store.
        bytes: its size.
        changed: when it was written, by the clock of the service; None where that is not known.
    """

    path: str
    bytes: int
    changed: datetime | None


class Objects:
    """The files of one store. Safe for several threads."""

    def __init__(self, place: Place) -> None:
        """Nothing is asked for yet, but the region of a bucket if nothing names it.

        Raises:
            RemoteStoreError: the library that the address needs does not work here.
        """
        self.place = place
        with self._errors_in_words("reaching it"):
            self._files, self._root = _opened(place)
        self._flat = place.kind in ("s3", "gs")

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: there is no such file.
            HistoryFormatError: in a folder: it is no plain file.
            RemoteStoreError: it cannot be read.
        """
        self._refuse_others(path)
        with (
            self._errors_in_words(f"reading {path}"),
            self._files.open_input_stream(self._at(path), compression=None) as file,
        ):
            return file.read()

    def fetch(self, path: str, to: Path) -> None:
        """Copy a file into a local one.

        Raises:
            FileNotFoundError: there is no such file.
            HistoryFormatError: in a folder: it is no plain file.
            RemoteStoreError: it cannot be read.
            OSError: the local file cannot be written.
        """
        self._refuse_others(path)
        with self._errors_in_words(f"reading {path}"):
            source = self._files.open_input_stream(self._at(path), compression=None)
        with source, to.open("wb") as target:
            while True:
                with self._errors_in_words(f"reading {path}"):
                    piece: bytes = source.read(_PIECE_BYTES)
                if not piece:
                    return
                target.write(piece)

    def write(self, path: str, content: bytes) -> None:
        """Write a file in one piece.

        Raises:
            RemoteStoreError: it cannot be written.
        """
        with (
            self._errors_in_words(f"writing {path}"),
            self._aside(path) as there,
            self._files.open_output_stream(there, compression=None) as file,
        ):
            file.write(content)

    def send(self, path: str, source: Path) -> None:
        """Copy a local file there.

        Raises:
            RemoteStoreError: it cannot be written.
            OSError: the local file cannot be read.
        """
        with source.open("rb") as local:
            content = local.read(_PIECE_BYTES)
            if len(content) < _PIECE_BYTES:
                self.write(path, content)
                return
            with (
                self._errors_in_words(f"writing {path}"),
                self._aside(path) as at,
                self._files.open_output_stream(at, compression=None) as file,
            ):
                file.write(content)
                shutil.copyfileobj(local, file, _PIECE_BYTES)

    def listed(self, folder: str, *, deep: bool = False) -> list[Found]:
        """The files in a folder, or also below it; none if there is no such folder.

        Raises:
            RemoteStoreError: it cannot be listed.
        """
        return [each for each in self._entries(folder, deep) if isinstance(each, Found)]

    def check_there(self) -> None:
        """Ask whether the bucket is there: a listing of all that is in a bucket that is not there may just be empty.

        Raises:
            RemoteStoreError: it is not, or cannot be listed.
        """
        with contextlib.suppress(FileNotFoundError), self._errors_in_words("listing it"):
            self._files.get_file_info(fs.FileSelector(self._root, allow_not_found=False))

    def found(self, path: str) -> Found | None:
        """A file as a listing shows it; None if there is none.

        Raises:
            RemoteStoreError: the store cannot be read.
        """
        with self._errors_in_words(f"looking at {path}"):
            (entry,) = self._files.get_file_info([self._at(path)])
        return self._as_found(entry) if entry.type == fs.FileType.File else None

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in a folder, sorted.

        Raises:
            RemoteStoreError: it cannot be listed.
        """
        return sorted(each for each in self._entries(folder, False) if isinstance(each, str))

    def remove(self, path: str) -> None:
        """Remove a file, if it is there.

        Raises:
            RemoteStoreError: it cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError), self._errors_in_words(f"removing {path}"):
            self._files.delete_file(self._at(path))

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it, if it is there.

        Raises:
            RemoteStoreError: it cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError), self._errors_in_words(f"removing {path}"):
            self._files.delete_dir(self._at(path))

    def _entries(self, folder: str, deep: bool) -> Iterator[Found | str]:
        at = self._at(folder)
        with self._errors_in_words(f"listing {folder or 'it'}"):
            selector = fs.FileSelector(at, allow_not_found=True, recursive=deep)
            entries: Any = self._files.get_file_info(selector)
        for each in entries:
            if each.type == fs.FileType.Directory:
                yield str(each.base_name)
            elif each.type == fs.FileType.File and not each.base_name.startswith("."):
                yield self._as_found(each)

    def _as_found(self, entry: fs.FileInfo) -> Found:
        path = entry.path.removeprefix(self._root).lstrip("/")
        return Found(path, int(entry.size or 0), None if entry.mtime is None else entry.mtime.astimezone(UTC))

    def _refuse_others(self, path: str) -> None:
        """To read a pipe would wait for ever."""
        if self.place.kind == "file":
            refuse_others(Path(self._at(path)))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/") if path else self._root

    @contextlib.contextmanager
    def _aside(self, path: str) -> Generator[str]:
        """Where to write a file so that it appears whole."""
        at = self._at(path)
        if self._flat:
            yield at
            return
        parent, _, name = at.rpartition("/")
        aside = f"{parent}/.{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        self._files.create_dir(parent, recursive=True)
        try:
            yield aside
            if self.place.kind == "hdfs":  # it renames nothing onto what is there
                with contextlib.suppress(FileNotFoundError):
                    self._files.delete_file(at)
            self._files.move(aside, at)
        except BaseException:
            with contextlib.suppress(OSError):
                self._files.delete_file(aside)
            raise

    @contextlib.contextmanager
    def _errors_in_words(self, doing: str) -> Generator[None]:
        """Turn the errors of pyarrow into ours; FileNotFoundError goes on to the caller."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise _in_words(self.place, doing, str(error)) from error


# --- by kind of store -------------------------------------------------------------------------------------------------


def _opened(place: Place) -> tuple[fs.FileSystem, str]:
    """The file system of a place, and its root in it."""
    options = place.options
    root = f"{place.host}/{place.path}".rstrip("/")
    if place.kind == "s3":
        return _s3(place), root
    if place.kind == "gs":
        return (
            fs.GcsFileSystem(
                anonymous=_is_true(options.get("anonymous")),
                endpoint_override=options.get("endpoint_override"),
                scheme="http" if options.get("scheme") == "http" else "https",
                project_id=options.get("project_id"),
                retry_time_limit=_RETRY,
            ),
            root,
        )
    if place.kind == "hdfs":
        host, _, port = (place.host or "default").rpartition("@")[2].partition(":")
        user = options.get("user") or place.host.rpartition("@")[0] or None
        replication = int(options["replication"]) if options.get("replication", "").isdigit() else 3
        return fs.HadoopFileSystem(host, int(port or 0), user=user, replication=replication), f"/{place.path}"
    return fs.LocalFileSystem(), f"/{place.path}"


def _s3(place: Place) -> fs.FileSystem:
    options, environ = place.options, os.environ
    endpoint = options.get("endpoint_override") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    region = options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = fs.resolve_s3_region(place.host)
    # A small file is one request instead of three. (The type stubs do not know this option.)
    more: dict[str, Any] = {"allow_delayed_open": True, "anonymous": _is_true(options.get("anonymous"))}
    return fs.S3FileSystem(
        region=region or "us-east-1",
        endpoint_override=endpoint,
        scheme="http" if options.get("scheme") == "http" else "https",
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        **more,
    )


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true", "yes")


class _Cause(msgspec.Struct, frozen=True):
    """What errors with one of these marks in their text mean, and whether that holds for every file of a store."""

    marks: tuple[str, ...]
    said: str
    general: bool = True


_CAUSES: Final = (
    _Cause(
        ("NO_SUCH_BUCKET", "bucket does not exist", "Bucket does not exist", "NoSuchBucket"),
        "there is no such bucket: make it, or correct the address",
    ),
    _Cause(
        (
            "INVALID_ACCESS_KEY_ID",
            "InvalidAccessKeyId",
            "SIGNATURE_DOES_NOT_MATCH",
            "INVALID_CLIENT_TOKEN_ID",
            "ACCESS_DENIED",
            "HTTP status 401",
            "HTTP status 403",
            "Permission denied",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
            "Could not create an OAuth2 access token",
        ),
        "the service does not let this user in: set its credentials (for s3: AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE), or ask for the right to do that",
    ),
    _Cause(
        (
            "NETWORK_CONNECTION",
            "Could not connect",
            "Couldn't connect",
            "curlCode",
            "Connection refused",
            "REQUEST_TIMEOUT",
            "Could not resolve host",
        ),
        "the service does not answer, or the connection broke: see that it runs and that its address is right "
        "(endpoint_override in the address, or AWS_ENDPOINT_URL), then do the same once more",
    ),
    _Cause(
        ("Unable to load libhdfs", "Unable to load libjvm", "HDFS connection failed"),
        "HDFS needs Hadoop's libhdfs and its classes: set JAVA_HOME, HADOOP_HOME and CLASSPATH (to what `hadoop "
        "classpath --glob` prints)",
    ),
    _Cause(("No space left",), "there is no room", general=False),
)


def _in_words(place: Place, doing: str, text: str) -> RemoteStoreError:
    line = " ".join(text.split())
    for cause in _CAUSES:
        if any(mark in line for mark in cause.marks):
            kind = RemoteConnectionError if cause.general else RemoteStoreError
            return kind(f"the store {place}, {doing}: {cause.said}.")
    return RemoteStoreError(f"the store {place}, {doing}: {line[:300]}")
