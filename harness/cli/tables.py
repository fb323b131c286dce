"""Tables of text: fitted to a terminal; elsewhere (a pipe, a file) one line per row, of any length."""

from __future__ import annotations

import io
import sys
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE: Final = 1_000_000


def print_whole(what: Table | Text) -> None:
    """Print to standard output. If it is not a terminal, lines are neither folded nor cut, so that they can be
    searched.
    """
    if sys.stdout.isatty():
        Console(highlight=False).print(what)
        return
    text = io.StringIO()
    Console(file=text, width=_WIDE, color_system=None).print(what)
    for line in text.getvalue().splitlines():
        click.echo(line.rstrip())
