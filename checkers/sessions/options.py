"""The options of the checker `session`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from splitbrain.results.errors import UsageError

NAME: Final = "session"
READ: Final = "read"
WRITE: Final = "write"
CAS: Final = "cas"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What sessions are promised. Without options they are promised everything, on every read.

    Attributes:
        follows: for each function that reads, the functions of the same session than whose versions it never returns an
            older one; `write` stands for writes and compares-and-sets (read your writes), other names for reads
            (monotonic reads). Each follows itself. A function that reads and is left out promises nothing. None: all
            reads follow all.
        same_term: functions that follow only what was answered in the term of their own answer.
        sessions: "process": a session is a process of the history. "connection": it also ends with each op that failed,
            since clients of splitbrain connect anew then.
        only: functions of registers; ops of others are left out, of which sessions must have none. None: all are.
        fresh: functions of reads that are linearizable: evidence of how old the states were that other reads showed
            (`splitbrain.checkers.sessions.staleness`); no evidence of a violation.
        linearizable_writes: whether writes are linearizable: then one that was acknowledged, or read, before another
            one was invoked comes before it.
    """

    follows: dict[str, tuple[str, ...]] | None = None
    same_term: tuple[str, ...] = ()
    sessions: Literal["process", "connection"] = "process"
    linearizable_writes: bool = False
    only: tuple[str, ...] | None = None
    fresh: tuple[str, ...] = ()

    def followers(self, fs: Iterable[str]) -> dict[str, list[str]]:
        """For each function, those of a history that follow it.

        Args:
            fs: the functions of the history.
        """
        readers = [f for f in fs if is_read(f) or f == CAS]
        if self.follows is None:
            return dict.fromkeys((*readers, WRITE), readers)
        found: dict[str, list[str]] = {}
        for reader in readers:
            if reader in self.follows:
                for f in dict.fromkeys((*self.follows[reader], reader)):
                    found.setdefault(f, []).append(reader)
        return found


def options_of(options: Mapping[str, Any]) -> Options:
    """The options of the checker.

    Raises:
        UsageError: one is unknown, or of the wrong type.
    """
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"checker {NAME}: {error}; it takes {', '.join(Options.__struct_fields__)}.") from None


def is_read(f: str) -> bool:
    """Whether a function reads a register, in one mode or another: `read`, `read-local`, ..."""
    return f == READ or f.startswith(f"{READ}-")
