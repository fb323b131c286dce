"""Numbers that the nodes of a system are started with, which a test may choose.

Defaults are made for production: with them a short test may never meet a snapshot. A hunt draws them, so that their
edges are met (TigerBeetle's simulator draws such constants, too).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from splitbrain.harness.contract.listed import names, number
from splitbrain.results.errors import UnknownNameError, UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One such number.

    Attributes:
        line: what it is, in one line.
        default: what nodes use where a test chooses nothing.
        least: the smallest value.
        most: the largest.
        drawn: the values of which a hunt draws one; none if a hunt leaves it alone.
        words: names of the values from 0 on, by which they are chosen; none for a plain number.
    """

    line: str
    default: int
    least: int = 1
    most: int = 1_000_000_000
    drawn: tuple[int, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def of_words(cls, line: str, words: tuple[str, ...], *, default: int = 0, drawn: bool = False) -> Setting:
        """A setting whose values are words; a hunt draws any of them, or leaves it alone."""
        every = tuple(range(len(words)))
        return cls(line=line, default=default, least=0, most=every[-1], drawn=every if drawn else (), words=words)

    def text(self, value: int) -> str:
        """A value as it is chosen."""
        return self.words[value] if self.words else str(value)


def chosen(text: str, settings: Mapping[str, Setting], system: str) -> dict[str, int]:
    """What a test chooses: "snapshot-interval=64", several separated by commas.

    Args:
        text: as given to `--settings`.
        settings: those of the system.
        system: its name, for messages.

    Raises:
        UsageError: the system has no such setting, or it cannot have that value.
    """
    found: dict[str, int] = {}
    for word in names("--settings", text):
        name, _, value = (part.strip() for part in word.partition("="))
        if name not in settings:
            raise UnknownNameError("setting", name, settings, f"of system {system!r}")
        if name in found:
            raise UsageError(f"--settings {text}: {name} is set twice: once is enough.")
        known = settings[name]
        if value in known.words:
            found[name] = known.words.index(value)
            continue
        if known.words:
            raise UsageError(f"--settings {word:.60}: {name} is one of {', '.join(known.words)}.")
        if not (value.isascii() and value.isdigit() and known.least <= number(value) <= known.most):
            raise UsageError(
                f"--settings {word:.60}: give {name} a whole number of {known.least} to {known.most}, such as "
                f"{name}={known.default}."
            )
        found[name] = number(value)
    return found
