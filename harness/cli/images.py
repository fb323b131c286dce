"""`splitbrain images`: the container images of nodes and of systems under test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click
import msgspec

from splitbrain.harness.cli import options, parsing

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.stores import ImagesAnswer
    from splitbrain.harness.images.build import Built
    from splitbrain.harness.images.catalogue import Image

_WIDTH: Final = 100
_PLAIN_S = 5.0
"""Seconds between two lines where there is no terminal."""


@click.group("images", cls=parsing.Group)
def command() -> None:
    """Build the container images of nodes and of systems under test.

    The docker backend runs them. They are built from Debian packages, which needs root and debootstrap, or with --base
    from an image of a registry.

    \b
    Examples:
      splitbrain images build
      splitbrain images build node etcd --base debian:trixie-slim
      splitbrain images list
      splitbrain images prune --dry-run
    """


@command.command("build")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--base",
    default=None,
    callback=parsing.named,
    metavar="REF",
    help="Build on this Debian image of a registry instead of packages.",
)
@click.option(
    "--suite",
    default=None,
    callback=parsing.named,
    metavar="NAME",
    help="Build on packages of this Debian suite: bookworm or trixie.  [default: that of the last build, else trixie]",
)
@click.option(
    "--rebuild", is_flag=True, help="Build images again with current packages, also those that are up to date."
)
def build(names: tuple[str, ...], base: str | None, suite: str | None, rebuild: bool) -> None:
    """Build images that are not up to date, and the images that they need. Without a NAME: all on the same Debian."""
    from splitbrain.harness.images.build import build as build_images
    from splitbrain.harness.images.build import choose_foundation
    from splitbrain.harness.images.catalogue import find, usual
    from splitbrain.harness.images.connection import engine
    from splitbrain.harness.images.debian import check_suite
    from splitbrain.results.errors import UsageError

    if base is not None and suite is not None:
        raise UsageError("--base and --suite exclude each other: an image of a registry has its suite already.")
    parsing.refuse_twice("NAME", names)
    if suite is not None:
        check_suite(suite)
    wanted = [find(name).name for name in names] or usual()
    with closing(engine()) as client, _Screen() as screen:
        foundation = choose_foundation(client, base, suite)
        build_images(client, wanted, foundation, screen.begin, screen.done, rebuild=rebuild)


@command.command("list")
@options.as_json
def list_images(as_json: bool) -> None:
    """Every image: whether the engine has it, and whether it is up to date with this checkout; then stale ones."""
    from splitbrain.harness.images.connection import engine
    from splitbrain.harness.images.stale import stale_images
    from splitbrain.harness.images.survey import survey

    with closing(engine()) as client:
        states, stale = survey(client), stale_images(client)
    if as_json:
        answer: ImagesAnswer = {"images": list(states), "stale": list(stale)}
        click.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())
        return
    for each in states:
        size = f"{each.size_bytes / 1e6:.0f} MB" if each.tag else ""
        click.echo(f"{each.name:13} {each.state:12} {size:>7}  {each.tag or '-':32} {each.summary}")
    for each in stale:
        kept = f"kept by {each.kept}" if each.kept else "splitbrain images prune removes it"
        click.echo(f"{each.name:13} {'stale':12} {each.size_bytes / 1e6:>4.0f} MB  {each.tag:32} {kept}")


@command.command("prune")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
def prune(names: tuple[str, ...], dry_run: bool) -> None:
    """Remove images that were built from other files than this checkout's. Without a NAME: all such images.

    Images that containers or other kept images need are kept, and the latest of each name, from which its next build
    begins.
    """
    from splitbrain.harness.images.connection import engine
    from splitbrain.harness.images.stale import prune as prune_images
    from splitbrain.harness.images.stale import stale_images

    parsing.refuse_twice("NAME", names)
    with closing(engine()) as client:
        found = stale_images(client, names) if dry_run else prune_images(client, names)
    for each in found:
        if each.kept:
            click.echo(f"kept {each.tag}: {each.kept}")
        else:
            click.echo(f"{'would remove' if dry_run else 'removed'} {each.tag}")
    if not found:
        click.echo("nothing is stale")


class _Screen:
    """Shows a build: on a terminal one line that changes; elsewhere a line per step, and one every few seconds in a
    long step.
    """

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("checking existing images") if self._console.is_terminal else None
        self._begun = time.monotonic()
        self._about = ("", "checking existing images")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="progress", daemon=True)

    def _repeat(self) -> None:
        """Print the current step at intervals, until the end."""
        while not self._ended.wait(_PLAIN_S):
            image, text = self._about
            click.echo(f"{image or 'images'}: {time.monotonic() - self._begun:.0f} s  {text}", err=True)

    def __enter__(self) -> _Screen:
        if self._status is not None:
            self._status.start()
        else:
            click.echo("images: checking existing images", err=True)
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._status is not None:
            self._status.stop()

    def begin(self, image: Image) -> Callable[[str], None]:
        """The build of an image begins; returns the function that takes its output."""

        def say(line: str) -> None:
            text = " ".join(line.split())[:_WIDTH]
            if self._status is not None:
                from rich.markup import escape

                self._status.update(f"{image.name}: {time.monotonic() - self._begun:.0f} s  [dim]{escape(text)}[/]")
                return
            if text:
                self._about = (image.name, text)
            if text.startswith(("Step ", "importing ", "begins")):
                click.echo(f"{image.name}: {text}", err=True)

        say("begins")
        return say

    def done(self, built: Built) -> None:
        """An image is up to date."""
        now = time.monotonic()
        took = f"built in {now - self._begun:.1f} s" if built.fresh else "up to date"
        self._begun, self._about = now, ("", f"{built.name} is ready")
        click.echo(f"{built.name:8} {took:18} {built.tag}")
