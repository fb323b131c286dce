"""TOML files that people write: read into typed values, and errors that name the file, the line and the cure.

`tomllib` says nothing of lines once a file is read. So the line of what is wrong is looked for in the text: the heading
of its table, and below that its key.
"""

from __future__ import annotations

import re
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from splitbrain.results.errors import UsageError
from splitbrain.results.plainfile import refuse_others

T = TypeVar("T")

_HEADING: Final = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"^\s*([A-Za-z0-9_-]+|\"[^\"]*\")\s*(?:=|\.)")
_PLACE: Final = re.compile(r" - at `\$\.?(.*)`$")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_UNKNOWN: Final = re.compile(r"unknown field `(.*?)`")

Step = str | int


class TomlText:
    """A file that is TOML.

    Attributes:
        path: as it was given.
        text: of the file.
        data: what is in it.
    """

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            UsageError: it cannot be read, or is no TOML.
        """
        self.path = path
        try:
            refuse_others(path)
            self.text = path.read_bytes().decode()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is not UTF-8 text: write it in UTF-8.") from error
        try:
            self.data: dict[str, Any] = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path} is not TOML: {error}. Correct that line.") from error

    def fail(self, steps: tuple[Step, ...], problem: str) -> NoReturn:
        """Refuse what stands at a place in the file.

        Args:
            steps: names of tables and keys, and numbers of elements (from 0), from the top.
            problem: what is wrong and what to do, as sentences.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{self.path}, line {self.line_of(steps)}: {problem}")

    def line_of(self, steps: tuple[Step, ...]) -> int:
        """The line on which something stands, from 1; that of what it is in if it is not found by itself."""
        best, deepest = 1, 0
        table: tuple[Step, ...] = ()
        seen: dict[str, int] = {}
        for number, line in enumerate(self.text.splitlines(), 1):
            heading, key = _HEADING.match(line), _KEY.match(line)
            if heading is not None:
                name = heading[2].strip().strip('"')
                names: tuple[Step, ...] = tuple(part.strip().strip('"') for part in name.split("."))
                if heading[1] == "[[":
                    seen[name] = seen.get(name, -1) + 1
                    names = (*names, seen[name])
                table = names
                here = table
            elif key is not None:
                here = (*table, key[1].strip('"'))
            else:
                continue
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(steps, here, strict=False)))
            if shared > deepest:
                best, deepest = number, shared
        return best


class TomlFile(TomlText, Generic[T]):
    """A file that was read into a typed value.

    Attributes:
        value: what is in it.
    """

    def __init__(self, path: Path, wanted: type[T], format_version: int) -> None:
        """Read a file.

        Args:
            path: of the file.
            wanted: what is in it: a struct that forbids unknown fields; its `format` is checked here.
            format_version: the version of the format that is read.

        Raises:
            UsageError: it cannot be read, is no TOML, or is of another shape.
        """
        super().__init__(path)
        if self.data.get("format", format_version) != format_version:
            found = self.data["format"]
            self.fail(("format",), f"format {found!r} is not known: this splitbrain reads {format_version}.")
        try:
            self.value = msgspec.convert(self.data, wanted)
        except msgspec.ValidationError as error:
            steps, what = _read(str(error))
            self.fail(steps, f"{what}. {_cure(what)}")


def _read(message: str) -> tuple[tuple[Step, ...], str]:
    """Where a value is of another shape, and what is wrong with it."""
    found = _PLACE.search(message)
    what = message if found is None else message[: found.start()]
    steps: list[Step] = []
    for name, index in _STEP.findall("" if found is None else found[1]):
        steps.append(name or int(index))
    unknown = _UNKNOWN.search(what)
    if unknown is not None:
        steps.append(unknown[1])
    return tuple(steps), what


def _cure(what: str) -> str:
    if "unknown field" in what:
        return "Correct its name, or remove it (docs/nightly.md lists the fields)."
    if "missing required field" in what:
        return "Add it."
    return "Correct its value (docs/nightly.md shows how it is written)."
