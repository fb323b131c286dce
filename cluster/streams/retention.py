"""How much of a stream is kept: by arguments of its declaration and by policies, as RabbitMQ's streams have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_LENGTH_BYTES: Final = "max-length-bytes"
MAX_AGE: Final = "max-age"
"""Settings of policies."""

_AGE: Final = re.compile("([0-9]{1,9})([YMDhms])")
_SECONDS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3600, "m": 60, "s": 1}


class Retention(msgspec.Struct, frozen=True):
    """What is to be kept at least; what is older or more may go.

    Attributes:
        max_length_bytes: of the file of a copy, None for no limit.
        max_age_ms: of a message, None for no limit.
    """

    max_length_bytes: int | None = None
    max_age_ms: int | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether there is no limit."""
        return self.max_length_bytes is None and self.max_age_ms is None

    def within(self, policy: Mapping[str, Any]) -> Retention:
        """The lower limits of this and of a policy's settings."""
        age = age_ms(policy.get(MAX_AGE))
        return Retention(_lower(self.max_length_bytes, policy.get(MAX_LENGTH_BYTES)), _lower(self.max_age_ms, age))


def age_ms(setting: object) -> int | None:
    """The age that a setting says, such as `7D`: years of 365 days, months of 30, D, h, m, s; None if it says none."""
    found = _AGE.fullmatch(setting) if isinstance(setting, str) else None
    return None if found is None else 1000 * int(found[1]) * _SECONDS[found[2]]


def age_in_words(age_ms: int) -> str:
    """The age as a setting says it, in the largest unit that it is a whole number of: `7D`; else in ms."""
    for unit in ("D", "h", "m", "s"):  # not in years or months: 365 days would read as 12 of 30 days and 5
        whole, rest = divmod(age_ms, 1000 * _SECONDS[unit])
        if whole and not rest:
            return f"{whole}{unit}"
    return f"{age_ms} ms"


def _lower(one: int | None, other: int | None) -> int | None:
    given = [each for each in (one, other) if each is not None]
    return min(given, default=None)
