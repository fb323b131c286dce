"""`splitbrain completion`: the script with which a shell completes commands, options and values."""

from __future__ import annotations

import click

from splitbrain.harness.cli import parsing

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=parsing.Command)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands, options and their values: names of parts, runs, files.

    \b
    Once for this shell, or as a line of ~/.bashrc (bash 4.4 or later) or ~/.zshrc:
      eval "$(splitbrain completion bash)"
      eval "$(splitbrain completion zsh)"

    \b
    For fish:
      splitbrain completion fish > ~/.config/fish/completions/splitbrain.fish
    """
    from splitbrain.harness.cli.shells import script

    click.echo(script(ctx.find_root().command, shell), nl=False)
