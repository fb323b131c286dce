"""`splitbrain manifest`: the table of a store."""

from __future__ import annotations

from pathlib import Path

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.results.quantities import counted


@click.command("manifest", cls=parsing.Command)
@options.stored
def command(store: str) -> None:
    """Write the table of a store into it: runs.parquet, a row for each run, for pandas, DuckDB, Polars and Spark.

    The columns are described in docs/schema.md. It shows the store as it is now: write it again after analyze or
    prune.
    """
    from splitbrain.results.errors import HarnessError
    from splitbrain.results.manifest import MANIFEST, write_manifest
    from splitbrain.results.stores import check_there

    root = Path(store)
    check_there(root)
    try:
        runs = write_manifest(root)
    except OSError as error:
        raise HarnessError(f"{root / MANIFEST} cannot be written: {error.strerror}.") from error
    click.echo(f"{root / MANIFEST}: {counted(runs, 'run')}")
