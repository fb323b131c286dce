"""`splitbrain new`: write a small working package with a part of your own."""

from __future__ import annotations

from pathlib import Path

import click

from splitbrain.harness.cli import completing, parsing

KINDS = ("workload", "nemesis", "system", "model", "checker")


@click.command("new", cls=parsing.Command)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--into",
    default=".",
    show_default=True,
    metavar="FOLDER",
    help="The folder in which the package is created.",
    shell_complete=completing.folder,
)
def command(kind: str, name: str, into: str) -> None:
    """Write a package NAME with a KIND of your own, or add it to that package. It works, has a test, can be installed.

    \b
    Examples:
      splitbrain new workload shop      then: splitbrain run --workload shop
      splitbrain new nemesis doze       then: splitbrain run --nemesis doze,kill --backend sim
      splitbrain new system mine        then: splitbrain hunt --system mine
    """
    from splitbrain.harness.campaigns import starters

    files = starters.create(kind, name, Path(into))
    for path in files:
        click.echo(path)
    folder, module = Path(into) / name, name.replace("-", "_")
    click.echo(f"\ntest it      cd {folder} && python -m pytest")
    click.echo(f"install it   pip install --editable {folder}")
    click.echo(f"use it       {_use(kind, name, module)}")


def _use(kind: str, name: str, module: str) -> str:
    return {
        "workload": f"splitbrain run --workload {name} --backend sim",
        "nemesis": f"splitbrain run --nemesis {name} --backend sim",
        "system": f"splitbrain hunt --system {name} --runs 20",
        "model": f"splitbrain check --model {name} HISTORY",
        "checker": f'CheckerSpec("{name}") in the checkers of a workload ({module}.checker)',
    }[kind]
