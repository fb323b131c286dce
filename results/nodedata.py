"""What nodes kept on their disks, packed: `nodes/<node>/data` becomes `nodes/<node>/data.tar.gz` once a run is judged.

It is evidence, and most of it is air: a log that etcd laid out in advance is 64 MB of zeros. Packed data are kept up to
a bound for the run as a whole, node after node in the order of their names; of a node whose data do not fit none are
kept, so that a part is not mistaken for the whole. What was left out is reported.

    tar -xzf data.tar.gz        brings back the folder
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, cast

from splitbrain.results import quantities
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import shown
from splitbrain.results.rundir import RunDir

FOLDER: Final = "data"
PACKED: Final = "data.tar.gz"
KEEP_DATA: Final = "256M"
"""The bound unless a run is given another (--keep-data)."""

_LEVEL: Final = 1
"""Of compression. Zeros shrink two hundredfold at the quickest level as well."""


def pack_as_asked(run: RunDir, document: Mapping[str, Any]) -> None:
    """Pack the data of a run's nodes within the bound that its test.json names; what is left out stands in its log."""
    said = pack(run.path, _bound(document.get("options")))
    if said:
        with run.log_path.open("a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in said)


def _bound(options: Any) -> int:
    """The bound among a run's options, or the usual one where they are damaged: no verdict hangs on it."""
    given = cast("dict[str, Any]", options).get("keep_data", KEEP_DATA) if isinstance(options, dict) else KEEP_DATA
    try:
        return quantities.size("--keep-data", str(given))
    except UsageError:
        return quantities.size("--keep-data", KEEP_DATA)


def pack(run: Path, bound: int) -> list[str]:
    """Pack the data of a run's nodes; a line for each node whose data were left out, or could not be packed.

    Data that are packed already count against the bound. What cannot be packed stays as it is.

    Args:
        run: the folder of the run; its nodes are stopped.
        bound: the largest number of bytes of packed data.
    """
    left, said = bound, list[str]()
    for node in sorted(run.glob("nodes/*")):
        packed, data = node / PACKED, node / FOLDER
        if packed.exists():
            left -= packed.stat().st_size
        if not data.is_dir() or data.is_symlink() or packed.exists():
            continue
        if _is_in_use(data):
            said.append(f"data of {node.name} stay unpacked: a file system is mounted there")
            continue
        try:
            said += _packed(node, max(0, left))
        except OSError as error:
            said.append(f"data of {node.name} stay unpacked: {error.strerror} ({error.filename})")
        left -= packed.stat().st_size if packed.exists() else 0
    return said


def _packed(node: Path, bound: int) -> list[str]:
    """Pack one node's data and remove them; a line if they are left out."""
    data, aside = node / FOLDER, node / f".{PACKED}.tmp"
    try:
        fits = _write(data, aside, bound)
        if fits:
            aside.replace(node / PACKED)
    finally:
        aside.unlink(missing_ok=True)
    size = sum(path.lstat().st_size for path in data.rglob("*") if path.is_file())
    shutil.rmtree(data)
    if fits:
        return []
    return [f"data of {node.name} left out: {shown(size)} do not fit into {shown(bound)} packed (--keep-data)"]


class _Bounded:
    """A file that takes so many bytes; what is written beyond is lost, and `full` is set."""

    def __init__(self, file: IO[bytes], bound: int) -> None:
        self._file = file
        self._left = bound
        self.full = False

    def write(self, content: bytes) -> int:
        self._left -= len(content)
        self.full = self.full or self._left < 0
        return len(content) if self.full else self._file.write(content)

    def flush(self) -> None:
        self._file.flush()


def _write(data: Path, archive: Path, bound: int) -> bool:
    """Write an archive of a folder; False if it takes more than the bound, and is not whole then."""
    with archive.open("wb") as file:
        bounded = _Bounded(file, bound)
        with (
            gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, mtime=0, fileobj=bounded) as packed,
            tarfile.open(fileobj=cast("IO[bytes]", packed), mode="w", format=tarfile.PAX_FORMAT) as whole,
        ):
            whole.add(data, FOLDER)
        os.fsync(file.fileno())
    return not bounded.full


def _is_in_use(data: Path) -> bool:
    return any(os.path.ismount(folder) for folder, _, _ in os.walk(data))
