"""Files that are programs by their headers, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def elf(kinds: Sequence[int], sections: Sequence[bytes] = (), *, wide: bool = True) -> bytes:
    """A little-endian ELF file with program headers of these kinds, then the table of sections of these names."""
    form, header_bytes, program_bytes, section_bytes = ("Q", 64, 56, 64) if wide else ("I", 52, 32, 40)
    names = b"\0" + b"".join(name + b"\0" for name in (*sections, b".shstrtab"))
    names_at = header_bytes + program_bytes * len(kinds)
    header = bytes([*b"\x7fELF", 2 if wide else 1, 1, 1]) + bytes(9)
    header += struct.pack(
        f"<HHI{form}{form}{form}I", 2, 62, 1, 0, header_bytes, names_at + len(names) if sections else 0, 0
    )
    counted = (len(sections) + 1, len(sections)) if sections else (0, 0)
    header += struct.pack("<HHHHHH", header_bytes, program_bytes, len(kinds), section_bytes, *counted)
    programs = b"".join(struct.pack("<I", kind) + bytes(program_bytes - 4) for kind in kinds)
    table = b""
    for name in (*sections, b".shstrtab") if sections else ():
        place = (names_at, len(names)) if name == b".shstrtab" else (0, 0)
        entry = struct.pack(f"<II{form}{form}{form}{form}", names.index(name + b"\0"), 3, 0, 0, *place)
        table += entry + bytes(section_bytes - len(entry))
    return header + programs + names + table
