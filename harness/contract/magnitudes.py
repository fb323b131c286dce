"""How large the figures of a fault may be: bounds that stand beside each field, and the check that reads them there."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from splitbrain.results.errors import UsageError


class Bounds(NamedTuple):
    """The bounds of a number, as metadata of its field: `delay_ms: Annotated[float, Bounds(0, 1000, "ms")] = 0.0`.

    Attributes:
        least, most: both are allowed.
        unit: for messages.
        off: a number below `least` that means "off"; None if there is none.
    """

    least: float
    most: float
    unit: str
    off: float | None = None

    def problem(self, name: str, value: Any, *, whole: bool) -> str | None:
        """What is wrong with a value of the field, None if nothing is. Truth values and NaN are no numbers."""
        kinds = (int,) if whole else (int, float)
        right = not isinstance(value, bool) and isinstance(value, kinds)
        if right and (value == self.off or self.least <= value <= self.most):
            return None
        number = "a whole number of" if whole else "a number of"
        off = "" if self.off is None else f", or {self.off:g} for none"
        return f"{name} is {number} {self.least:,} to {self.most:,} {self.unit}{off}, not {value!r}."


def check_magnitudes(fault: msgspec.Struct) -> None:
    """Refuse figures that are out of their bounds or not numbers.

    Raises:
        UsageError: a field is wrong; which, and what it may be.
    """
    for name, (kind, bounds) in _fields(type(fault)).items():
        value = getattr(fault, name)
        if bounds is not None:
            problem = bounds.problem(name, value, whole=kind is int)
        else:
            problem = None if isinstance(value, kind) else f"{name} is true or false, not {value!r}."
        if problem is not None:
            raise UsageError(problem)


@cache
def _fields(of: type[msgspec.Struct]) -> dict[str, tuple[type, Bounds | None]]:
    found: dict[str, tuple[type, Bounds | None]] = {}
    for name, hint in get_type_hints(of, include_extras=True).items():
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        bounds = next((note for note in notes if isinstance(note, Bounds)), None)
        assert bounds is not None or kind is bool, f"{of.__name__}.{name} has no bounds"
        found[name] = kind, bounds
    return found
