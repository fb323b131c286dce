"""`splitbrain clean`: remove what killed controllers left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.harness.backends.shared.leftovers import Cleaned
    from splitbrain.harness.cli.answers.stores import CleanAnswer


@click.command("clean", cls=parsing.Command)
@options.stored
@options.hosts
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    store: str,
    hosts: str | None,
    known_hosts: str | None,
    ssh_key: str | None,
    ssh_user: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove what killed controllers left behind: processes, containers, networks, mounts, control groups, images of
    disks.

    Removes only what carries splitbrain's label and whose controller is dead; running tests are not affected. Each run
    does the same when it starts, except for the images of disks, which are in the store. With --hosts the hosts are
    cleaned, not this machine.

    \b
    Examples:
      splitbrain clean --dry-run
      splitbrain clean --store nightly
      splitbrain clean --hosts @lab.hosts --known-hosts lab.keys --ssh-key ~/.ssh/lab
    """
    from splitbrain.harness.backends import catalogue
    from splitbrain.harness.backends.ssh.inventory import KNOWN_HOSTS, Inventory

    if hosts is None:
        options.check_hosts(ctx, "it needs --hosts: add --hosts, or remove this option.")
        cleaned = catalogue.clean_here(Path(store), dry_run=dry_run)
    else:
        if options.given(ctx, "store"):
            raise UsageError("--store is on this machine, and --hosts cleans hosts: remove one of them.")
        options.check_user(hosts, ssh_user)
        inventory = Inventory.of(hosts, known_hosts or KNOWN_HOSTS, ssh_key, ssh_user)
        cleaned = catalogue.clean_hosts(inventory, dry_run=dry_run)
    _report(cleaned, dry_run, as_json)


def _report(cleaned: Cleaned, dry_run: bool, as_json: bool) -> None:
    if as_json:
        document: CleanAnswer = {"dry_run": dry_run, "removed": cleaned.removed, "notes": cleaned.notes}
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
        return
    for line in cleaned.removed:
        click.echo(line)
    for line in cleaned.notes:
        click.echo(line, err=True)
    if not cleaned.removed:
        click.echo("killed controllers left nothing behind")
