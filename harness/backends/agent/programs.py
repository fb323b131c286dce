"""Whether a library can be put between a program and the kernel's clock (elf(5)), and whether it is (proc(5))."""

from __future__ import annotations

import os
import shutil
import struct
from typing import BinaryIO

from .tools import AgentError

_SCRIPTS_DEEP = 4
"""How many interpreters of interpreters are looked at."""

_LINE_BYTES = 4096
_ELF = b"\x7fELF"
_PT_INTERP = 3
_OF_GO = frozenset({b".go.buildinfo", b".note.go.buildid"})
"""Sections that Go's linker writes, and that stay when a program is stripped."""

_STATIC = "it is linked statically and does not load libfaketime"
_GO = "it is a Go program, which asks the kernel for the time itself and not through libfaketime"


def out_of_reach(program: str, path: str | None = None) -> str | None:
    """Why libfaketime does not change the time that a program sees; None if it does. A script's interpreter counts.

    Args:
        program: as given to exec: a path, or a name to look for.
        path: where to look for a name, as in $PATH; this process's own without it.

    Raises:
        AgentError: it is not there, or cannot be read.
    """
    for _ in range(_SCRIPTS_DEEP):
        found = shutil.which(program, path=path)
        if found is None:
            raise AgentError(f"there is no program {program!r} here")
        try:
            with open(found, "rb") as file:
                words = _interpreter(file)
                if not words:
                    return _why(file)
        except (OSError, struct.error) as error:
            raise AgentError(f"the program {found!r} cannot be looked at: {error}") from None
        program = words[0]
    raise AgentError(f"the program {program!r} is a script of a script, {_SCRIPTS_DEEP} times over")


def has_loaded_library(pid: int) -> bool:
    """Whether a process has libfaketime in its memory, or a process that it began: an engine's init begins the node.

    Raises:
        AgentError: it is gone, or cannot be looked at.
    """
    try:
        with open(f"/proc/{pid}/maps", errors="replace") as maps:
            if any("libfaketime" in os.path.basename(line.rstrip("\n")) for line in maps):
                return True
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            begun = [int(child) for child in children.read().split()]
    except OSError as error:
        raise AgentError(f"the memory of process {pid} cannot be looked at: {error.strerror}") from None
    return any(map(_loads_library, begun))


def _loads_library(child: int) -> bool:
    try:
        return has_loaded_library(child)
    except AgentError:  # it has ended since it was listed
        return False


def _interpreter(file: BinaryIO) -> list[str]:
    """The words after a script's `#!`; none if it is no script."""
    start = file.read(_LINE_BYTES)
    return [os.fsdecode(word) for word in start[2:].split(b"\n")[0].split()] if start.startswith(b"#!") else []


def _why(file: BinaryIO) -> str | None:
    file.seek(0)
    ident = file.read(16)
    if not ident.startswith(_ELF):
        return None
    headers = _Headers(file, wide=ident[4] == 2, order="<" if ident[5] == 1 else ">")
    if not headers.has_interpreter():
        return _STATIC
    return None if _OF_GO.isdisjoint(headers.section_names()) else _GO


class _Headers:
    """The two tables of headers in an ELF file: of what is loaded, and of its sections."""

    def __init__(self, file: BinaryIO, *, wide: bool, order: str) -> None:
        self._file = file
        self._order = order
        # Where the tables begin, then the size and number of their entries, and which section has the names.
        self._programs_at, self._sections_at = self._at(32 if wide else 28, "QQ" if wide else "II")
        counts = self._at(54 if wide else 42, "HHHHH")
        self._program_bytes, self._programs, self._section_bytes, self._sections, self._names = counts
        self._place, self._place_format = (24, "QQ") if wide else (16, "II")

    def has_interpreter(self) -> bool:
        """Whether a dynamic loader is asked for."""
        starts = (self._programs_at + number * self._program_bytes for number in range(self._programs))
        return any(self._at(start, "I") == (_PT_INTERP,) for start in starts)

    def section_names(self) -> set[bytes]:
        """Empty where the table was stripped away."""
        if not self._sections_at or self._names >= self._sections:
            return set()
        starts = [self._sections_at + number * self._section_bytes for number in range(self._sections)]
        offset, size = self._at(starts[self._names] + self._place, self._place_format)
        self._file.seek(offset)
        names = self._file.read(size)
        return {names[self._at(start, "I")[0] :].split(b"\0", 1)[0] for start in starts}

    def _at(self, offset: int, fields: str) -> tuple[int, ...]:
        form = f"{self._order}{fields}"
        self._file.seek(offset)
        return struct.unpack(form, self._file.read(struct.calcsize(form)))
