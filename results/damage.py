"""A note beside a run that cannot be judged as it is: its older verdict is not one of what is there now.

A run that was judged and damaged afterwards keeps its verdict: what was found of it then is not lost. The note says
that the verdict stands no more. `splitbrain analyze` writes it, and removes it once the run can be judged again, or is
again what its verdict was made from. All that sums up runs by their verdicts asks for it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.results.atomic import replace_file
from splitbrain.results.checksums import read_checksums
from splitbrain.results.errors import HistoryFormatError, SplitbrainError
from splitbrain.results.plainfile import refuse_others
from splitbrain.results.text import visible
from splitbrain.results.values import NOT_JSON

DAMAGE: Final = "damage.json"
"""Its name in the folder of the run."""

FORMAT: Final = 1

_BYTES_MAX: Final = 1 << 20
"""A note is never as large: what is, is no note, and to read it could take all memory."""


_HISTORY: Final = "history.parquet"


class _Inputs(msgspec.Struct, frozen=True):
    """The part of the record of a verdict that is compared."""

    inputs: dict[str, str | None]


class Damage(msgspec.Struct, frozen=True):
    """The note.

    Attributes:
        why: the file, and what is wrong with it, in one line.
        found: when it was first found, as an ISO date and time in UTC; empty if that is not known.
        format: the version of this shape.
    """

    why: str
    found: str = ""
    format: int = FORMAT

    def __str__(self) -> str:
        when = f" (found {self.found.replace('T', ' ').replace('+00:00', ' UTC')})" if self.found else ""
        return f"cannot be judged as it is: {self.why}{when}"


class OfAnother(Damage, frozen=True):
    """That the verdict is not one of this run; no note says so."""

    def __str__(self) -> str:
        return f"has a verdict that is not its own: {self.why}"


def note_damage(run: Path, why: str) -> None:
    """Write the note of a run. One that says the same already stays.

    Raises:
        OSError: it cannot be written.
    """
    why = visible(why)  # it may name a path that is not UTF-8
    before = noted_damage(run)
    if before is not None and before.why == why:
        return
    note = Damage(why, datetime.now(UTC).isoformat(timespec="seconds"))
    text = msgspec.json.format(msgspec.json.encode(note), indent=2) + b"\n"
    replace_file(run / DAMAGE, lambda aside: aside.write_bytes(text))


def noted_damage(run: Path) -> Damage | None:
    """The note of a run; None if there is none. One that cannot be read is a note all the same."""
    path = run / DAMAGE
    if not os.path.lexists(path):
        return None
    try:
        if path.is_symlink():  # a link may lead to what is not the store's to show
            raise HistoryFormatError(str(path), "a link")
        refuse_others(path, _BYTES_MAX)
        return msgspec.json.decode(path.read_bytes(), type=Damage)
    except (OSError, HistoryFormatError, *NOT_JSON):
        return Damage(f"{path} says so, and cannot be read itself")


def standing_damage(run: Path, made_from: Any) -> Damage | None:
    """Why the verdict of a run does not stand: by its note, or because it was made from the history of another run.

    Only digests that were stored are compared, so this costs nothing beside reading the verdict. A run without
    checksums, a verdict without a record, and checksums that cannot be read leave nothing to compare.

    Args:
        run: its folder.
        made_from: what its verdict.json says under this name.
    """
    noted = noted_damage(run)
    if noted is not None:
        return noted
    try:
        kept = read_checksums(run) or {}
    except SplitbrainError:
        return None
    if not is_made_from_another(made_from, kept):
        return None
    again = f"splitbrain analyze {shlex.quote(str(run))}"
    return OfAnother(f"{run / 'verdict.json'} was made from another history than the one here; judge it again: {again}")


def is_made_from_another(made_from: Any, kept: Mapping[str, str | None]) -> bool:
    """Whether a verdict was made from the history of another run, by the digests of this one's files."""
    try:
        made = msgspec.convert(made_from, _Inputs).inputs.get(_HISTORY)
    except msgspec.ValidationError:
        return False
    return None not in (made, kept.get(_HISTORY)) and made != kept.get(_HISTORY)


def forget_damage(run: Path) -> None:
    """Remove the note of a run that is sound again.

    Raises:
        OSError: it cannot be removed.
    """
    if not os.path.lexists(run / DAMAGE):  # to unlink nothing is an error too where nothing may be written
        return
    with contextlib.suppress(FileNotFoundError):
        (run / DAMAGE).unlink()
