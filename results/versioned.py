"""JSON documents of a store that carry the version of their format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec

from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import HistoryFormatError, StoreVersionError
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.values import NOT_JSON

FORMAT: Final = 1
"""The version of test.json and verdict.json. A higher one is refused, never touched."""

T = TypeVar("T")


class _Versioned(msgspec.Struct):
    format: Annotated[int, msgspec.Meta(ge=1)]


def read_document(path: Path, kind: type[T], otherwise: str = "") -> T | None:
    """A JSON file of this splitbrain's format, None if there is none.

    Args:
        path: the file.
        kind: what it holds.
        otherwise: what to do with a damaged one of which there is no copy, as the end of a sentence.

    Raises:
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: it is damaged, or cannot be read.
    """
    refuse_others(path, DOCUMENT_BYTES)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error
    try:
        version = msgspec.json.decode(text, type=_Versioned).format
        if version > FORMAT:
            raise StoreVersionError(
                f"{path} is in format {version}, this splitbrain reads up to {FORMAT}: upgrade "
                f"splitbrain; nothing was changed."
            )
        return msgspec.json.decode(text, type=kind)
    except NOT_JSON as error:
        raise HistoryFormatError(str(path), f"damaged: {error}. Restore it from a copy{otherwise}") from error


def write_document(path: Path, document: Any) -> None:
    """Replace a JSON file; the document carries its own `format`."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    replace_file(path, lambda aside: aside.write_bytes(text + b"\n"))
