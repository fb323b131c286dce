#!/usr/bin/env python3
"""Show that a plan gives one history everywhere; docs/determinism.json keeps what was seen.

usage: tools/determinism.py [--times N] [--shrunk BUG,...] [--jobs N]
       tools/determinism.py --play PLAN...         one line for each plan: its history, its randomness, how many ops

Six tests that a hunt draws, by seeds 1 to 6, are recorded as plans. Each plan is played by every Python here
(`tools/pythons` makes the environments) with four hash seeds: history, randomness and number of ops must be the same.
Then some bugs are hunted and shrunk, and each smallest plan is replayed `--times` times (100); with `--shrunk ""` what
is known of them stays. Exit code 1: a difference.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = ROOT / "docs" / "determinism.json"

SEEDS: Final = range(1, 7)
HASH_SEEDS: Final = (0, 1, 2, 3)
BUGS: Final = ("M01", "M23", "M36")
SPLITBRAIN: Final = Path(sys.executable).with_name("splitbrain")


# --- in each Python: what a small environment has is enough -----------------------------------------------------------


def play(files: Sequence[str]) -> None:
    """Print a line for each plan."""
    from splitbrain.harness.campaigns.planned import options_of, simulated
    from splitbrain.harness.campaigns.planned import test_of as composed
    from splitbrain.harness.running.plan import load
    from splitbrain.harness.running.simulate import simulate

    for file in files:
        plan = load(file)
        options = simulated(options_of(plan.options, file))
        found = simulate(composed(options, plan), world=options.world)
        if found.failure is not None:
            raise found.failure
        print(found.history_hash, found.fingerprint, len(found.ops))


def pythons() -> list[Path]:
    """This interpreter, and those for which `tools/pythons` made an environment."""
    return [Path(sys.executable), *sorted(ROOT.glob(".venv-3.*/bin/python"))]


def lines(python: Path, hash_seed: int, plans: Sequence[Path]) -> list[str]:
    """What a Python prints of some plans.

    Raises:
        SystemExit: it could not play them.
    """
    done = subprocess.run(
        [str(python), __file__, "--play", *map(str, plans)],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{python} cannot play the plans: {done.stderr.strip()[-2000:]}")
    return done.stdout.splitlines()


# --- six plans --------------------------------------------------------------------------------------------------------


def recorded(folder: Path) -> Iterator[tuple[str, Path]]:
    """The plans of the six tests, each with the command that runs the test."""
    from splitbrain.harness.campaigns.compose import command_line, compose
    from splitbrain.harness.campaigns.swarm import asked_for, draw
    from splitbrain.harness.running.plan import encode, plan_of
    from splitbrain.harness.running.simulate import simulate

    asked = asked_for(workload=None, nemesis=None, nodes=None, system="metadata", bug="", world="swarm")
    for seed in SEEDS:
        options = draw(seed, asked)
        test = compose(options)
        plan = plan_of(simulate(test, world=options.world).ops, test)
        file = folder / f"{seed}.json"
        file.write_bytes(encode(plan))
        yield command_line(options), file


def everywhere(folder: Path, jobs: int) -> list[dict[str, Any]]:
    """Play the six plans in every Python with every hash seed; a row for each plan."""
    plans = list(recorded(folder))
    files = [file for _, file in plans]
    seen: list[dict[str, list[str]]] = [{} for _ in plans]
    places = list(itertools.product(pythons(), HASH_SEEDS))

    def played(place: tuple[Path, int]) -> list[str]:
        return lines(*place, files)

    with ThreadPoolExecutor(jobs) as pool:
        for (python, hash_seed), found in zip(places, pool.map(played, places), strict=True):
            where = f"Python {version(python)}, hash seed {hash_seed}"
            print(f"{where}: played", flush=True)
            for row, line in zip(seen, found, strict=True):
                row.setdefault(line, []).append(where)
    return [{"command": command, "seen": row} for (command, _), row in zip(plans, seen, strict=True)]


def version(python: Path) -> str:
    """Of a Python."""
    said = subprocess.check_output([str(python), "-c", "import platform; print(platform.python_version())"], text=True)
    return said.strip()


# --- shrunk plans -----------------------------------------------------------------------------------------------------


def again(bug: str, times: int, store: Path) -> dict[str, Any]:
    """Hunt a bug, shrink it, and replay the smallest plan.

    Raises:
        SystemExit: it was not found, or not shrunk.
    """
    hunted = _answer(["hunt", "--bug", bug, "--seed", "1", "--store", str(store)])
    smaller = hunted["smaller"]
    if not smaller or smaller["plan"] is None:
        raise SystemExit(f"{bug}: it was not found and shrunk: {smaller}")
    replayed = _answer(["replay", smaller["plan"], "--times", str(times)])
    print(f"{bug}: {smaller['after']['ops']} ops, {replayed['same']} of {times} the same", flush=True)
    return {"bug": bug, "plan": smaller["after"], "times": times, "same": replayed["same"]}


def _answer(words: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run([str(SPLITBRAIN), *words, "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"splitbrain {' '.join(words)} gave no answer: {done.stderr.strip()}")
    return json.loads(done.stdout)


# --- the command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str]) -> int:
    """Play and replay; the exit code."""
    given = _parser().parse_args(words)
    if given.play:
        play(given.play)
        return 0
    with tempfile.TemporaryDirectory(prefix="determinism-") as temporary:
        plans = everywhere(Path(temporary), given.jobs)
        shrunk = [again(bug, given.times, Path(temporary) / "store") for bug in given.shrunk.split(",") if bug]
    before: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    seen = {"plans": plans, "shrunk": shrunk or before.get("shrunk", [])}
    DATA.write_text(json.dumps(seen, indent=1) + "\n")
    one_each = all(len(row["seen"]) == 1 for row in plans)
    all_same = all(row["same"] == row["times"] for row in shrunk)
    print(f"{sum(len(row['seen']) == 1 for row in plans)} of {len(plans)} plans gave one history everywhere")
    return 0 if one_each and all_same else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("--play", nargs="+", metavar="PLAN")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--shrunk", default=",".join(BUGS))
    parser.add_argument("--jobs", type=int, default=2)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
