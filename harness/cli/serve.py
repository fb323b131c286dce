"""`splitbrain serve`: serve the store as a web site."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import options, parsing

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.stores import ServeAnswer


@click.command("serve", cls=parsing.Command)
@options.stored
@click.option(
    "--host",
    default="127.0.0.1",
    callback=parsing.named,
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. Every host that can reach it can read the whole store.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    metavar="N",
    help="0: any free port.",
)
@options.as_json
def command(store: str, host: str, port: int, as_json: bool) -> None:
    """Serve the store as a web site: its runs with findings and files, a comparison of two runs, and after a nightly
    the matrix of workload and nemesis against system and backend, at /matrix.

    Pages show new and finished runs without a restart. Nothing is written. Ctrl-C ends it.
    """
    from splitbrain.results.site.routes import loopback_hosts
    from splitbrain.results.site.server import SiteServer
    from splitbrain.results.stores import check_there

    root = Path(store)
    check_there(root)
    server = SiteServer(root, host, port)

    def stop(_: int, __: object) -> None:
        # `shutdown` waits for the loop to end, and the loop runs in this thread.
        threading.Thread(target=server.shutdown, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if as_json:
            answer: ServeAnswer = {"url": server.url, "store": str(root)}
            click.echo(msgspec.json.encode(answer).decode())
        else:
            click.echo(f"serving {store} at {server.url}  (Ctrl-C ends it)")
        if loopback_hosts(host) is None:
            click.echo(f"note: every host that can reach {host} can read all runs of this store.", err=True)
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)
