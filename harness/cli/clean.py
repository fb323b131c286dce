"""`splitbrain clean`: remove what controllers left that were killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.harness.backends.cleaning import Cleaned


@click.command("clean", cls=parsing.Command)
@options.stored
@options.hosts
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
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
    """Remove what killed controllers left: processes, containers, networks, mounts, control groups, images of disks.

    Only what carries splitbrain's label goes, and only if its controller is dead; runs that go on lose nothing. Each
    run does the same when it starts, but for the images of disks, which lie in the store. With --hosts hosts are
    cleaned, and not this machine.

    \b
    Examples:
      splitbrain clean --dry-run
      splitbrain clean --store nightly
      splitbrain clean --hosts @lab.hosts --known-hosts lab.keys --ssh-key ~/.ssh/lab
    """
    from splitbrain.harness.backends import cleaning
    from splitbrain.harness.backends.ssh.inventory import KNOWN_HOSTS, Inventory

    if hosts is None:
        options.check_hosts(ctx, "which hosts? Add --hosts, or leave it out.")
        cleaned = cleaning.clean_here(Path(store), dry_run=dry_run)
    else:
        if options.given(ctx, "store"):
            raise UsageError("--store is on this machine, and --hosts cleans hosts: leave out one of them.")
        options.check_user(hosts, ssh_user)
        inventory = Inventory.of(hosts, known_hosts or KNOWN_HOSTS, ssh_key, ssh_user)
        cleaned = cleaning.clean_hosts(inventory, dry_run=dry_run)
    _tell(cleaned, dry_run, as_json)


def _tell(cleaned: Cleaned, dry_run: bool, as_json: bool) -> None:
    if as_json:
        document = {"dry_run": dry_run, "removed": cleaned.removed, "notes": cleaned.notes}
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
        return
    for line in cleaned.removed:
        click.echo(line)
    for line in cleaned.notes:
        click.echo(line, err=True)
    if not cleaned.removed:
        click.echo("nothing is left of killed controllers")
