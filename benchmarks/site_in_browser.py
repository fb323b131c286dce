"""The site of a store with 5,000 runs in a real browser: how long the table, its filters, the matrix and trends take.

One small test is simulated and judged; its documents are written as often as there are to be runs, with other seeds,
times, workloads, nemeses and outcomes, and each is a run of one of thirty nights. A headless Chromium then opens each
page of the real server some times. What counts is the time from the navigation until the page is loaded and drawn, in
the browser's own clock: the fastest one, the median, and the first visit, for which the server reads all runs. A page
with next to nothing on it is measured too: on a machine that does other things as well it says what these cost.

    python benchmarks/site_in_browser.py [--runs 5000] [--nights 30] [--visits 7]

Exits 1 if no visit of a page takes less than a second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.campaigns.nightly.cells import Cell, options_of_cell
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.results import nights, runfigures
from splitbrain.results.figures import figures_of
from splitbrain.results.nights import CellOfNight, Night, NotReached
from splitbrain.results.site.server import SiteServer
from tests.report.chromium import Browser, chromium

LIMIT_S: Final = 1.0
BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
WORKLOADS: Final = ("register", "set", "list-append", "bank", "counter")
NEMESES: Final = ("partition", "kill", "pause", "power", "kill,partition", "packet")
OUTCOMES: Final = ("pass",) * 46 + ("violation", "inconclusive", "harness error", "pass")

PAGES: Final = {
    "an empty page": "/night/none",
    "table": "/",
    "table, filtered": "/?outcome=violation&workload=set",
    "table, text": "/?text=register+kill",
    "table, sorted": "/?sort=p99&down=1",
    "table, one test": "/?test=register-kill",
    "matrix": "/matrix",
    "matrix, 30 days": "/matrix?days=30",
    "trends": "/trends",
    "trends, filtered": "/trends?cell=register/kill",
    "night": "/night/{night}",
    "night, filtered": "/night/{night}?outcome=violation",
    "two nights": "/nights?a={before}&b={night}",
}


def main() -> int:
    """Make the store, open the pages, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--visits", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        names = make_store(store, options.runs, options.nights)
        print(f"{options.runs} runs, {len(names)} nights", flush=True)
        return _measure(store, names, options.visits)


def make_store(root: Path, runs: int, nights_: int) -> list[str]:
    """A store with so many runs, each of one of so many nights; the names of the nights."""
    test = compose(options_of_cell(Cell("register", "kill"), {"nodes": "3", "time_limit": 8.0, "rate": 20.0}, 1))
    with tempfile.TemporaryDirectory() as folder:
        run = run_and_judge(test, SimBackend(), Path(folder)).run
        documents = {
            name: json.loads((run.path / name).read_bytes()) for name in ("test.json", "verdict.json", "figures.json")
        }
        figures = figures_of(run)
    draw = random.Random(1)
    rows: dict[str, list[dict[str, Any]]] = {}
    for number in range(runs):
        night_began = BEGAN + timedelta(days=number * nights_ // runs)
        began = night_began + timedelta(seconds=number % (runs // nights_ + 1))
        night = f"{night_began:%Y%m%dT%H%M%S}.000Z"
        workload, nemesis = draw.choice(WORKLOADS), draw.choice(NEMESES)
        outcome = draw.choice(OUTCOMES)
        factor = draw.uniform(0.8, 1.2)
        path = root / f"test={workload}-{nemesis}" / f"run={began:%Y%m%dT%H%M%S}.{number % 1000:03d}Z-{number}"
        path.mkdir(parents=True)
        options = documents["test.json"]["options"] | {"workload": workload, "nemesis": nemesis}
        changed = {
            "test.json": documents["test.json"] | {"options": options, "seed": number, "start": began.isoformat()},
            "verdict.json": documents["verdict.json"] | {"outcome": outcome},
            "figures.json": documents["figures.json"] | {"ok_per_s": figures.ok_per_s * factor},
        }
        for name, document in changed.items():
            (path / name).write_text(json.dumps(document))
        (path / "history.parquet").write_bytes(b"")
        found = msgspec.structs.replace(
            runfigures.run_figures(figures, 0.3 * factor, 10 * factor), ok_per_s=figures.ok_per_s * factor
        )
        what = {
            "night": night,
            "began": night_began,
            "cell": f"{workload}/{nemesis}/metadata/default/sim/none",
            "workload": workload,
            "nemesis": nemesis,
            "system": "metadata",
            "version": "default",
            "backend": "sim",
            "bug": "none",
            "seed": number,
            "outcome": outcome,
            "folder": str(path.relative_to(root)),
        }
        rows.setdefault(night, []).append(runfigures.row(found, what))
    for name, listed in rows.items():
        runfigures.write(root, name, listed)
        folder = root / nights.FOLDER / name
        folder.mkdir(parents=True)
        (folder / nights.FILE).write_bytes(msgspec.json.encode(_document(name, listed)))
    return sorted(rows)


def _document(name: str, rows: list[dict[str, Any]]) -> Night:
    cells: dict[str, dict[str, int]] = {}
    for row in rows:
        outcomes = cells.setdefault(row["cell"], {})
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    parts = ("workload", "nemesis", "system", "version", "backend", "bug")
    return Night(
        name=name,
        matrix="nightly.toml",
        matrix_digest="x",
        began=name,
        ended=name,
        ended_by="budget",
        budget_s=1800.0,
        elapsed_s=1800.0,
        outcome="pass",
        exit_code=0,
        strict=False,
        outcomes={"pass": len(rows)},
        cells=tuple(
            CellOfNight(
                name=cell, **dict(zip(parts, cell.split("/"), strict=True)), outcomes=found, seconds=1.0, weight=1.0
            )
            for cell, found in cells.items()
        ),
        violations=(),
        errors=(),
        fixed=(),
        expired=(),
        not_reached=NotReached(),
        stored_bytes=0,
    )


def _measure(store: Path, names: list[str], visits: int) -> int:
    server = SiteServer(store, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    slow: list[str] = []
    with chromium() as browser:
        for what, path in PAGES.items():
            url = server.url.rstrip("/") + path.format(night=names[-1], before=names[-2])
            first_s = _visit(browser, url)
            server_s, browser_s = time.process_time(), _cpu_of_browsers_s()
            found = [_visit(browser, url) for _ in range(visits)]
            server_s = (time.process_time() - server_s) / visits
            browser_s = (_cpu_of_browsers_s() - browser_s) / visits
            slow += [what] if min(found) >= LIMIT_S else []
            print(
                f"{what:18} drawn after {min(found):.3f} s (fastest), {statistics.median(found):.3f} s (median), "
                f"{first_s:.3f} s (first visit); CPU s a visit: server {server_s:.3f}, browser {browser_s:.3f}",
                flush=True,
            )
    server.shutdown()
    server.server_close()
    print(f"never below a second: {', '.join(slow)}" if slow else "the fastest visit of each page is below a second")
    return 1 if slow else 0


def _cpu_of_browsers_s() -> float:
    """CPU seconds of all processes that this one started, with theirs: the browser."""
    parents: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"))
    ours, total = {os.getpid()}, 0.0
    while found := {pid for pid, (parent, _) in parents.items() if parent in ours and pid not in ours}:
        ours |= found
        total += sum(parents[pid][1] for pid in found)
    return total


def _visit(browser: Browser, url: str) -> float:
    """Seconds from the beginning of a navigation until the page is loaded and drawn, in the browser's clock."""
    browser.send("Page.navigate", url="about:blank")
    browser.send("Page.navigate", url=url)
    browser.wait_until(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")
    drawn_ms = browser.run(
        "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done("
        "Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd,"
        " ...performance.getEntriesByType('paint').map((e) => e.startTime))))))"
    )
    return drawn_ms / 1000


if __name__ == "__main__":
    sys.exit(main())
