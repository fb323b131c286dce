"""JSON lines: one op a line, an object with the fields of `results.history.Op` (process, type and f at least)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from results.errors import HistoryFormatError
from results.formats import whole_lines
from results.history import Op


def read(lines: Iterable[str], source: str) -> Iterator[Op]:
    """The ops of a file; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is not an op.
    """
    decode = msgspec.json.Decoder(Op).decode
    for number, line in whole_lines(lines, source):
        try:
            yield decode(line)
        except msgspec.MsgspecError as error:
            raise HistoryFormatError(
                source, f"expected an op as a JSON object with process, type and f: {error}.", line=number
            ) from error
