"""Files of a program in plain Python, on the simulated disk of its node.

`open`, and what `os` does with files, reach here for everything in the node's data directory. Other calls are not
answered here, and therefore refused. The calls block in plain Python: a sync takes its time by holding the whole
process up, as on a real machine.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from splitbrain.harness.simulation.answers import DECLINED
from splitbrain.harness.simulation.disk import MountedDisk, SimFile
from splitbrain.harness.simulation.guard import offence
from splitbrain.harness.simulation.places import caller

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

FIRST_FD: Final = 1 << 30
"""File descriptors of simulated files begin here, where no real ones are."""

_MODES: Final = frozenset("rwxabt+")
_DIRECTORY: Final = ""
"""The name of the data directory in itself."""


class ProgramFiles:
    """The files of one process.

    Args:
        disk: as the process has it.
        directory: the data directory, as the program's arguments name it.
        hold_up: blocks the process; in nanoseconds.
    """

    def __init__(self, disk: MountedDisk, directory: str, hold_up: Callable[[int], None]) -> None:
        self._disk = disk
        self._directory = os.path.normpath(directory)
        self._hold_up = hold_up
        self._open: dict[int, SimFile | None] = {}
        self._last_fd = FIRST_FD

    def answers(self) -> dict[str, Callable[..., Any]]:
        """By the names of calls what answers them."""
        return {
            "open": self.open,
            "os.open": self.open_directory,
            "os.close": self.close,
            "os.fsync": self.fsync,
            "os.fdatasync": self.fsync,
            "os.replace": self.replace,
            "os.rename": self.replace,
            "os.remove": self.remove,
            "os.unlink": self.remove,
            "os.mkdir": self.mkdir,
            "os.listdir": self.listdir,
            "os.stat": self.stat,
            "os.lstat": self.stat,
            "os.access": self.access,
        }

    # --- files ------------------------------------------------------------------------------------------------------

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """`open`; text is UTF-8 unless another encoding is named."""
        name = self._name(file)
        if name is None or opener is not None:
            return DECLINED
        text = "b" not in mode
        if not set(mode) <= _MODES or len(set(mode) & set("rwxa")) != 1 or len(mode) != len(set(mode)):
            raise ValueError(f"invalid mode: {mode!r}")
        raw = self._raw(name, mode)
        if buffering == 0:
            if text:
                raise ValueError("can't have unbuffered text I/O")
            return raw
        buffered = _buffered(raw, mode, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
        if not text:
            return buffered
        return io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)

    def _raw(self, name: str, mode: str) -> DiskFile:
        there = name in self._disk.every_name()
        if "x" in mode and there:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._path(name))
        if "r" in mode and not there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path(name))
        file = self._disk.open(name)
        if "w" in mode:
            file.truncate(0)
        fd = self._new_fd(file)
        return DiskFile(file, fd, mode, lambda: self._open.pop(fd, None))

    def fsync(self, fd: Any) -> Any:
        """`os.fsync`: the process stands still until it is done."""
        number = fd if isinstance(fd, int) else fd.fileno()
        if number not in self._open:
            return DECLINED
        file = self._open[number]
        self._hold_up(self._disk.sync_names_at_once() if file is None else file.sync_at_once())
        return None

    def replace(self, src: Any, dst: Any) -> Any:
        """`os.replace`, `os.rename`."""
        source, target = self._name(src), self._name(dst)
        if source is None or target is None:
            return DECLINED
        self._disk.rename(source, target)
        return None

    def remove(self, path: Any) -> Any:
        """`os.remove`, `os.unlink`."""
        name = self._name(path)
        if name is None:
            return DECLINED
        if name not in self._disk.every_name():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._disk.remove(name)
        return None

    # --- the directory ----------------------------------------------------------------------------------------------

    def open_directory(self, path: Any, flags: int, mode: int = 0o777) -> Any:
        """`os.open` of the data directory, to sync it."""
        name = self._name(path)
        if name is None:
            return DECLINED
        if name != _DIRECTORY:
            raise offence(f"os.open of {path!r} was called inside a simulation, at {caller()}. Use open().")
        return self._new_fd(None)

    def close(self, fd: int) -> Any:
        """`os.close` of the directory."""
        return DECLINED if self._open.pop(fd, DECLINED) is DECLINED else None

    def mkdir(self, path: Any, mode: int = 0o777) -> Any:
        """`os.mkdir`: the data directory is there, and there is none in it."""
        name = self._name(path)
        if name is None:
            return DECLINED
        if name == _DIRECTORY:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        raise _no_folders(path)

    def listdir(self, path: Any = ".") -> Any:
        """`os.listdir` of the data directory, sorted."""
        return self._disk.every_name() if self._name(path) == _DIRECTORY else DECLINED

    def stat(self, path: Any, **_: Any) -> Any:
        """`os.stat`: the kind and the length; the rest is 0."""
        name = self._name(path)
        if name is None:
            return DECLINED
        if name == _DIRECTORY:
            return os.stat_result((stat.S_IFDIR | 0o755, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        if name not in self._disk.every_name():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, self._disk.open(name).size(), 0, 0, 0))

    def access(self, path: Any, mode: int) -> Any:
        """`os.access`: everything that is there may be read and written."""
        name = self._name(path)
        return DECLINED if name is None else name == _DIRECTORY or name in self._disk.every_name()

    def _name(self, path: Any) -> str | None:
        """The name of a file in the data directory, `_DIRECTORY` for itself, None for any other place."""
        if isinstance(path, int):
            return None
        plain = os.path.normpath(os.fsdecode(path))
        if os.path.isabs(plain) and not os.path.isabs(self._directory):
            plain = os.path.relpath(plain)
        if plain == self._directory:
            return _DIRECTORY
        if not plain.startswith(self._directory + os.sep):
            return None
        name = plain[len(self._directory) + 1 :]
        if os.sep in name:
            raise _no_folders(path)
        return name

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _new_fd(self, file: SimFile | None) -> int:
        self._last_fd += 1
        self._open[self._last_fd] = file
        return self._last_fd


class DiskFile(io.RawIOBase):
    """An open file, unbuffered."""

    def __init__(self, file: SimFile, fd: int, mode: str, closed: Callable[[], object]) -> None:
        super().__init__()
        self._file = file
        self._fd = fd
        self._reads = "r" in mode or "+" in mode
        self._writes = "r" not in mode or "+" in mode
        self._appends = "a" in mode
        self._at = file.size() if self._appends else 0
        self._note_closed = closed

    def readable(self) -> bool:
        """Whether it may be read."""
        return self._reads

    def writable(self) -> bool:
        """Whether it may be written."""
        return self._writes

    def seekable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """A number that `os.fsync` knows."""
        return self._fd

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read what fits, from where it stands."""
        if not self._reads:
            raise io.UnsupportedOperation("not readable")
        view = memoryview(buffer)
        data = self._file.content()[self._at : self._at + len(view)]
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        """Read the rest."""
        if not self._reads:
            raise io.UnsupportedOperation("not readable")
        data = self._file.content()[self._at :]
        self._at += len(data)
        return data

    def write(self, data: ReadableBuffer, /) -> int:
        """Write; how many bytes found room."""
        if not self._writes:
            raise io.UnsupportedOperation("not writable")
        written, size = bytes(data), self._file.size()
        at = size if self._appends else self._at
        if at > size:
            self._file.truncate(at)
        if at < size:
            self._overwrite(at, written)
        else:
            written = self._append(written)
        self._at = at + len(written)
        return len(written)

    def _overwrite(self, at: int, data: bytes) -> None:
        """Write in the middle. The data behind it is rewritten unchanged: a loss of power treats it the same."""
        behind = self._file.content()[at + len(data) :]
        self._file.truncate(at)
        self._file.append(data + behind)

    def _append(self, data: bytes) -> bytes:
        """Write at the end; what of it found room."""
        before = self._file.size()
        try:
            self._file.append(data)
        except OSError as error:
            fitted = self._file.size() - before
            if error.errno != errno.ENOSPC or not fitted:
                raise
            return data[:fitted]
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go elsewhere; where that is."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size()}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Where it stands."""
        return self._at

    def truncate(self, size: int | None = None, /) -> int:
        """Cut it there, or lengthen it with zeros."""
        size = self._at if size is None else size
        self._file.truncate(size)
        return size

    def close(self) -> None:
        """Close it without syncing."""
        if not self.closed:
            super().close()
            self._note_closed()
            self._file.close()


def _buffered(raw: DiskFile, mode: str, size: int) -> io.BufferedReader | io.BufferedWriter | io.BufferedRandom:
    if "+" in mode:
        return io.BufferedRandom(raw, size)
    return io.BufferedReader(raw, size) if "r" in mode else io.BufferedWriter(raw, size)


def _no_folders(path: Any) -> Exception:
    return offence(
        f"{os.fspath(path)!r} was named inside a simulation, at {caller()}. A simulated disk has the data directory "
        "only, without folders in it: keep all files there."
    )
