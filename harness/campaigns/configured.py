"""The file that has defaults of options for a folder: `splitbrain.toml`, or `[tool.splitbrain]` of `pyproject.toml`.

It is looked for in the current folder and in those above it, up to one with `.git`. Only the command line takes options
from it (`splitbrain.harness.cli.defaults`): a test that the library or pytest runs is what its code says. But every
command that is printed to repeat a run must mean the same wherever there is such a file, so `overridden` is known here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, cast

from splitbrain.results.errors import SplitbrainError, UsageError
from splitbrain.results.tomlfile import Step, TomlText

OWN: Final = "splitbrain.toml"
SHARED_FILE: Final = "pyproject.toml"
_SECTION: Final = ("tool", "splitbrain")
_MARK: Final = b"splitbrain"
"""A pyproject.toml without this word has no such section, and need not be parsed."""


class Configured:
    """A file with defaults of options.

    Attributes:
        file: what was read.
        section: names of the tables that lead to the defaults, from the top of the file.
        table: what is in it: values for all commands, and a table for each command that has some.
    """

    def __init__(self, file: TomlText, section: tuple[str, ...]) -> None:
        self.file, self.section = file, section
        found: Any = file.data
        for number, name in enumerate(section):
            found = cast("dict[str, Any]", found)[name]
            if not isinstance(found, dict):
                file.fail(section[: number + 1], f"{name} must be a table: write [{'.'.join(section)}].")
        self.table = cast("dict[str, Any]", found)

    def where(self, steps: tuple[Step, ...]) -> str:
        """The file and the line on which something stands."""
        return f"{self.file.path}, line {self.file.line_of((*self.section, *steps))}"

    def refuse(self, steps: tuple[Step, ...], problem: str) -> UsageError:
        """The error for what stands there."""
        return UsageError(f"{self.where(steps)}: {problem}")


def find(start: Path | None = None) -> Configured | None:
    """The file that holds for a folder, None if there is none; in a folder that has both, splitbrain.toml holds.

    Args:
        start: the folder; the current one if it is left out.

    Raises:
        UsageError: it cannot be read, or is no TOML.
    """
    folder = (start or Path.cwd()).absolute()
    for each in (folder, *folder.parents):
        if (each / OWN).is_file():
            return Configured(TomlText(_short(each / OWN)), ())
        shared = each / SHARED_FILE
        if shared.is_file() and _names_us(shared):
            file = TomlText(_short(shared))
            tools = file.data.get(_SECTION[0])
            if isinstance(tools, dict) and _SECTION[1] in tools:
                return Configured(file, _SECTION)
        if (each / ".git").exists():
            return None
    return None


def overridden() -> bool:
    """Whether a file holds for the current folder that may change what `splitbrain run` does there."""
    try:
        found = find()
    except (SplitbrainError, OSError):
        return True  # a command would be refused because of it
    return found is not None and any(name == "run" or not isinstance(each, dict) for name, each in found.table.items())


def _names_us(path: Path) -> bool:
    try:
        return _MARK in path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _short(path: Path) -> Path:
    """A path from the current folder, if that is shorter."""
    return min(path, Path(os.path.relpath(path)), key=lambda each: len(str(each)))
