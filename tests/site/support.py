"""Stores to be shown, and requests to a site without a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from splitbrain.results.figures import write_figures
from splitbrain.results.loaded import load
from splitbrain.results.rundir import RunDir
from splitbrain.results.site.messages import Request, Response
from splitbrain.results.site.routes import Site, split_path
from splitbrain.results.site.server import SiteServer
from splitbrain.results.store import Store
from tests.report.sample import START_WALL_NS, State, sample_run

HOSTILE = "\"'><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">{{7*7}}\u202e\x07"


def small_run(root: Path, state: State = "pass", *, seed: int = 7, hostile: str | None = None) -> RunDir:
    """A short run with all its files."""
    run = sample_run(root, state, seconds=30.0, rate=80.0, seed=seed, hostile=hostile)
    if run.read_verdicts() is not None:
        write_figures(load(run), run.read_verdicts())
    return run


def bare_run(root: Path, test: str, seed: int, options: dict[str, Any], *, held: bool = False) -> RunDir:
    """A run of which nothing is recorded yet."""
    run = Store(root).create(test, seed, {"options": options, "nodes": ["n1"]}, START_WALL_NS + seed * 1_000_000_000)
    if not held:
        run.release()
    return run


def get(root: Path, path: str, **query: str) -> Response:
    """What the site of a store answers."""
    return Site(root, None).respond(Request(parts=tuple(split_path(path)), query=query))


def body(response: Response) -> bytes:
    """All of a body."""
    try:
        return response.body if isinstance(response.body, bytes) else b"".join(response.body)
    finally:
        response.close()


def text(response: Response) -> str:
    """A body that is text."""
    return body(response).decode()


def document(response: Response) -> Any:
    """A body that is JSON."""
    return json.loads(body(response))


def address(run: RunDir) -> str:
    """Where a run's page is."""
    return f"/run/{run.test_name}/{run.name}"


@contextmanager
def served(root: Path) -> Generator[SiteServer]:
    """The real server on a free port of this machine."""
    server = SiteServer(root, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
