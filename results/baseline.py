"""The baseline of a project: violations that are known, each with an issue, an owner and a day on which that ends.

    format = 1

    [[known]]
    signature = "linearizable/nonlinearizable/read/partition"
    with = ["quorum-progress/*"]
    issue = "https://example.org/issues/17"
    owner = "ann"
    expires = 2026-12-31

The file lies in the repository of the user. A violation is known if an entry has its leading signature, and entries
cover all else that the run showed: an entry's `with` covers what follows from it. So a known violation never hides
another one. An entry that has expired covers nothing: what it stood for is new again, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.results.errors import UsageError
from splitbrain.results.signatures import Signature
from splitbrain.results.tomlfile import TomlFile

FORMAT: Final = 1

Class: TypeAlias = Literal["new", "known", "flaky"]
"""What a violation is. flaky: no entry covers it, and some of its replays did not show it."""


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"beside": "with"}):
    """An entry of the file.

    Attributes:
        signature: that of the violation; parts may be `*`, parts at the end may be left out.
        issue: the link to where it is worked on.
        owner: who answers for it.
        expires: the last day on which it counts.
        beside: `with` in the file: signatures of what else such runs show.
        note: anything else.
    """

    signature: str
    issue: str
    owner: str
    expires: date
    beside: tuple[str, ...] = ()
    note: str = ""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    known: tuple[Known, ...] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """How a violation compares with the file.

    Attributes:
        entry: the entry of its leading signature, None without one.
        expired: whether that entry has expired: then the violation is not covered.
        uncovered: the signatures that no entry covers; empty if the violation is known.
    """

    entry: Known | None
    expired: bool
    uncovered: tuple[Signature, ...]

    @property
    def known(self) -> bool:
        """Whether entries cover all of it."""
        return not self.uncovered


class Baseline:
    """The entries of a file, or none.

    Attributes:
        entries: in the order of the file.
    """

    def __init__(self, entries: Sequence[Known] = ()) -> None:
        self.entries = tuple(entries)
        self._read = [(Signature.parse(each.signature), tuple(map(Signature.parse, each.beside))) for each in entries]

    @staticmethod
    def load(path: Path) -> Baseline:
        """The entries of a file.

        Raises:
            UsageError: it cannot be read or is wrong; the message has the line.
        """
        file = TomlFile(path, _File, FORMAT)
        seen: dict[Signature, int] = {}
        for number, entry in enumerate(file.value.known):
            place = ("known", number)
            for name in ("issue", "owner"):
                if not getattr(entry, name).strip():
                    file.fail(
                        (*place, name), f"the {name} is empty: say where it is worked on, and who answers for it."
                    )
            try:
                signature = Signature.parse(entry.signature)
            except UsageError as error:
                file.fail((*place, "signature"), str(error))
            for each in entry.beside:
                try:
                    Signature.parse(each)
                except UsageError as error:
                    file.fail((*place, "with"), str(error))
            if signature in seen:
                first = file.line_of(("known", seen[signature]))
                file.fail((*place, "signature"), f"the entry of line {first} has this signature too: remove one.")
            seen[signature] = number
        return Baseline(file.value.known)

    def look_up(self, signatures: Iterable[Signature], today: date) -> Found:
        """How a violation compares with the entries on a day.

        Args:
            signatures: of the run, the leading one first; at least one.
            today: the day.
        """
        listed = tuple(signatures)
        matching = [place for place, (pattern, _) in enumerate(self._read) if pattern.matches(listed[0])]
        valid = [place for place in matching if self.entries[place].expires >= today]
        entry = self.entries[(valid or matching)[0]] if matching else None
        if not valid:
            return Found(entry=entry, expired=entry is not None, uncovered=listed)
        beside = [pattern for place in valid for pattern in self._read[place][1]]
        alone = [pattern for place, (pattern, _) in enumerate(self._read) if self.entries[place].expires >= today]
        covering = [*beside, *alone]
        uncovered = tuple(each for each in listed[1:] if not any(pattern.matches(each) for pattern in covering))
        return Found(entry=entry, expired=False, uncovered=uncovered)


def entry_text(signatures: Sequence[Signature], expires: date) -> str:
    """An entry for the file that covers a violation until a day; a person fills in issue and owner."""
    leading, *others = signatures
    beside = dict.fromkeys(f"{each.checker}/{each.anomaly}" for each in others)
    lines = ["[[known]]", f'signature = "{leading}"']
    if beside:
        listed = ", ".join(f'"{each}"' for each in beside)
        lines.append(f"with = [{listed}]")
    return "\n".join([*lines, 'issue = ""', 'owner = ""', f"expires = {expires.isoformat()}"])
