"""An error of this package on its way from a confined process, where a pickle would not know how it was made."""

from __future__ import annotations

from typing import Any

import msgspec

from splitbrain.results.errors import SplitbrainError


class Carried(msgspec.Struct, frozen=True):
    """An error: its class, and everything that it holds."""

    kind: type[SplitbrainError]
    args: tuple[Any, ...]
    state: dict[str, Any]

    @classmethod
    def of(cls, error: SplitbrainError) -> Carried:
        """The error, without its traceback."""
        return cls(type(error), error.args, dict(error.__dict__))

    def error(self) -> SplitbrainError:
        """The same error."""
        found = self.kind.__new__(self.kind, *self.args)
        found.__dict__.update(self.state)
        return found
