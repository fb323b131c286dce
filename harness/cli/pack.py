"""`splitbrain pack`: what the executors of a Spark cluster need, in one archive."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import options, parsing

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.stores import PackAnswer


@click.command("pack", cls=parsing.Command)
@click.argument("output", metavar="OUT.tar.gz")
@click.option(
    "--module",
    "modules",
    multiple=True,
    metavar="NAME",
    help="Pack also this module or package, with checkers and models of your own; any number of times.",
)
@click.option(
    "--only-ours", is_flag=True, help="Leave libraries out (numpy, numba, pyarrow, ...): the executors have them."
)
@options.as_json
def command(output: str, modules: tuple[str, ...], only_ours: bool, as_json: bool) -> None:
    """Pack what executors of a Spark cluster need and may lack, and print how to hand it to analyze.

    The executors need a Python of the same minor version, on the same kind of processor, and no package in it. The
    archive holds splitbrain, the libraries that checkers import, and the modules that are named.

    \b
    Examples:
      splitbrain pack packed.tar.gz
      splitbrain pack packed.tar.gz --module my_checkers
    """
    from splitbrain.checkers.spark.packing import pack
    from splitbrain.results.quantities import shown

    parsing.refuse_twice("--module", modules)
    packed = pack(Path(output), modules, only_ours=only_ours)
    if as_json:
        answer: PackAnswer = {
            "path": packed.path,
            "size_bytes": packed.size_bytes,
            "contents": packed.contents,
            "properties": packed.properties,
        }
        click.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())
        return
    click.echo(f"packed {packed.path} ({shown(packed.size_bytes)}): {', '.join(packed.contents)}")
    words = [word for key, value in packed.properties.items() for word in ("--conf", f"{key}={value}")]
    click.echo(f"splitbrain analyze --master spark://HOST:7077 {shlex.join(words)}")
