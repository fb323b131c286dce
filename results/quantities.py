"""Sizes, ages and numbers of things as people write them: 500M, 2G, 12h, 30d, 1 run, 2 runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from splitbrain.results.errors import UsageError

_NUMBER: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([A-Za-z]*)")
_BYTES: Final = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def size(option: str, text: str) -> int:
    """Bytes: a number, or one with K, M, G or T for powers of 1024.

    Raises:
        UsageError: it is none; the message names `option`.
    """
    return int(_parsed(text.upper().removesuffix("IB"), _BYTES, f"{option} {text!r} is no size: write 500M, 2G or 0."))


def age(option: str, text: str) -> float:
    """Seconds: a number with s, m, h, d or w (weeks).

    Raises:
        UsageError: it is none; the message names `option`.
    """
    return _parsed(text, _SECONDS, f"{option} {text!r} is no age: write 90m, 12h, 30d or 8w.")


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number of things for people: "1 fault window", "2 fault windows".

    Args:
        count: how many there are.
        noun: one of them.
        plural: several of them; the noun with an s if that is left out.
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def shown(count: float) -> str:
    """Bytes for people: 1.5 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _parsed(text: str, units: Mapping[str, int], problem: str) -> float:
    found = _NUMBER.fullmatch(text)
    if found is None or found[2] not in units:
        raise UsageError(problem)
    return float(found[1]) * units[found[2]]
