"""A run's files: how each of them may be looked at, and all of them in one archive.

Text is served as plain text, also if its name ends in .html. Only the pages that splitbrain itself wrote are served as
pages, and these in a sandbox. Everything else is a download.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from splitbrain.results.errors import RunNotFoundError
from splitbrain.results.site.beneath import Entry, entries, opened
from splitbrain.results.site.messages import STORED_PAGE, Response

LISTED_MAX: Final = 10_000
"""The largest number of files of a run that are listed and archived. The page says if there are more."""

PAGES: Final = ("report.html", "counterexample.html")
"""Pages that splitbrain writes into a run's folder."""

_CHUNK: Final = 1 << 16
_TEXT: Final = "text/plain; charset=utf-8"
_BINARY: Final = "application/octet-stream"
_SNIFFED: Final = 8192


def file_response(root: Path, run: Sequence[str], parts: Sequence[str], *, download: bool) -> Response:
    """One file of a run.

    Args:
        root: the store.
        run: the run's folder, relative to the store.
        parts: the file, relative to the run's folder.
        download: to be saved, not shown.

    Raises:
        RunNotFoundError: there is no such file, or its path leads elsewhere.
    """
    with ExitStack() as stack:
        file = stack.enter_context(opened(root, (*run, *parts)))
        head = file.read(_SNIFFED)
        body = FileChunks(file)
        kind, headers = _presented(parts, head)
        if download or kind == _BINARY:
            headers["Content-Disposition"] = attachment(parts[-1])
        stack.pop_all()  # the file is the body's from here
        return Response(kind=kind, body=body, length=body.size, headers=headers)


def _presented(parts: Sequence[str], head: bytes) -> tuple[str, dict[str, str]]:
    stored = {"Content-Security-Policy": STORED_PAGE}
    if len(parts) == 1 and parts[0] in PAGES:
        return "text/html; charset=utf-8", stored
    if len(parts) == 2 and parts[0] == "plots" and parts[1].endswith(".svg"):
        return "image/svg+xml", stored
    if b"\0" in head or parts[-1].endswith((".parquet", ".wal")):
        return _BINARY, {}
    return _TEXT, {}


class FileChunks:
    """An open file from its beginning to what is its end now: a log may grow meanwhile.

    Attributes:
        size: bytes up to that end.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, io.SEEK_END)
        file.seek(0)

    def __iter__(self) -> Iterator[bytes]:
        left = self.size
        while left and (chunk := self._file.read(min(left, _CHUNK))):
            left -= len(chunk)
            yield chunk

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def attachment(name: str) -> str:
    """The header that has a browser save an answer under a name."""
    return f"attachment; filename*=UTF-8''{quote(name.encode('utf-8', 'surrogateescape'), safe='')}"


def archive_response(root: Path, run: Sequence[str], name: str) -> Response:
    """All files of a run as a zip archive, made while it is sent.

    Raises:
        RunNotFoundError: there is no such run.
    """
    found = entries(root, run, LISTED_MAX + 1)
    headers = {"Content-Disposition": attachment(f"{name}.zip")}
    return Response(kind="application/zip", body=_archive(root, run, found, name), headers=headers)


def _archive(root: Path, run: Sequence[str], found: Sequence[Entry], name: str) -> Iterator[bytes]:
    sink = _Sink()
    left_out = [f"{entry.path}: {entry.refused}" for entry in found if entry.refused is not None]
    if len(found) > LISTED_MAX:
        left_out.append(f"all beyond the first {LISTED_MAX} files")
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in found[:LISTED_MAX]:
            if entry.refused is not None:
                continue
            try:
                with opened(root, (*run, *entry.parts)) as file, _member(archive, f"{name}/{entry.path}") as member:
                    for chunk in FileChunks(file):
                        member.write(chunk)
                        yield sink.taken()
            except RunNotFoundError:
                left_out.append(f"{entry.path}: it was removed before it could be packed")
            yield sink.taken()
        if left_out:
            archive.writestr(f"{name}/LEFT-OUT.txt", "".join(f"{line}\n" for line in left_out))
    yield sink.taken()


def _member(archive: zipfile.ZipFile, path: str) -> io.BufferedIOBase:
    # Names that are no UTF-8 came from the system's file system as lone surrogates, which an archive cannot carry.
    plain = path.encode("utf-8", "backslashreplace").decode()
    info = zipfile.ZipInfo(plain)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return archive.open(info, "w", force_zip64=True)  # type: ignore[return-value]


class _Sink(io.RawIOBase):
    """A file that is written, never sought; what was written is taken away in between."""

    def __init__(self) -> None:
        self._held = bytearray()

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: object, /) -> int:
        """Keep it until it is taken."""
        chunk = bytes(data)  # type: ignore[call-overload]
        self._held += chunk
        return len(chunk)

    def taken(self) -> bytes:
        """What was written since the last time."""
        found = bytes(self._held)
        self._held.clear()
        return found
