"""Nights made up of numbers: runs with the figures that a test wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from splitbrain.results import runfigures
from splitbrain.results.nights import CellOfNight, Night, NotReached
from splitbrain.results.nighttables import Cell, NightTable
from splitbrain.results.runfigures import RunFigures, Took


def rows(
    night: str,
    generator: np.random.Generator,
    *,
    cells: Sequence[tuple[str, str]] = (("register", "kill"), ("set", "partition")),
    runs: int = 20,
    slower: float = 1.0,
    only: str = "",
    speed: float = 10.0,
    fixed: int = 0,
    backend: str = "sim",
) -> list[dict[str, Any]]:
    """The rows of a night whose elections are that much slower, in all cells or in those of one workload.

    Runs with a fixed seed are the same in each night, but for what is slower.
    """
    found: list[dict[str, Any]] = []
    for workload, nemesis in cells:
        factor = slower if only in ("", workload) else 1.0
        for number in range(runs):
            known = number < fixed
            seed = number if known else _seed(generator)
            draw = np.random.default_rng(seed) if known else generator
            took = tuple(
                Took("kill", "start", 0.1, round(factor * float(draw.uniform(0.7, 1.5)), 6), None) for _ in range(3)
            )
            figures = RunFigures(
                duration_s=30.0,
                ops=3000,
                ok=2990,
                ok_per_s=round(float(draw.normal(100, 1)), 6),
                p50_ms=round(float(draw.lognormal(1, 0.2)), 6),
                p99_ms=round(float(draw.lognormal(3, 0.5)), 6),
                available=round(float(draw.uniform(0.9, 1.0)), 6),
                leader_changes=int(draw.poisson(0.2)),
                marks=int(draw.integers(30, 40)),
                checking_s=round(float(draw.lognormal(-1, 0.1)), 6),
                sim_s_per_cpu_s=round(speed * float(draw.lognormal(0, 0.05)), 6),
                recoveries=took,
            )
            what: dict[str, Any] = {
                "night": night,
                "cell": f"{workload}/{nemesis}/metadata/default/{backend}/none",
                "workload": workload,
                "nemesis": nemesis,
                "system": "metadata",
                "version": "default",
                "backend": backend,
                "bug": "none",
                "revision": "abc",
                "seed": seed,
                "outcome": "pass",
            }
            found.append(runfigures.row(figures, what))
    return found


def _seed(generator: Any) -> int:
    return int(generator.integers(1000, 2**31))


def night_document(name: str, listed: Sequence[dict[str, Any]], **more: Any) -> Night:
    """The document of a night with these rows."""
    cells: dict[str, Counter[str]] = {}
    for row in listed:
        cells.setdefault(row["cell"], Counter())[row["outcome"]] += 1
    made: dict[str, Any] = {
        "name": name,
        "matrix": "nightly.toml",
        "matrix_digest": "x",
        "began": "2026-01-01T00:00:00.000+00:00",
        "ended": "2026-01-01T01:00:00.000+00:00",
        "ended_by": "budget",
        "budget_s": 3600.0,
        "elapsed_s": 3600.0,
        "outcome": "pass",
        "exit_code": 0,
        "strict": False,
        "outcomes": dict(sum(cells.values(), Counter[str]())),
        "cells": tuple(
            CellOfNight(
                name=cell,
                **dict(zip(Cell._fields, cell.split("/"), strict=True)),
                outcomes=dict(found),
                seconds=1.0,
                weight=1.0,
            )
            for cell, found in cells.items()
        ),
        "violations": (),
        "errors": (),
        "fixed": (),
        "expired": (),
        "not_reached": NotReached(),
        "stored_bytes": 0,
    }
    return Night(**{**made, **more})


def night(name: str, generator: np.random.Generator, **more: Any) -> NightTable:
    """A night in memory."""
    return NightTable(name, pa.Table.from_pylist(rows(name, generator, **more), runfigures.SCHEMA))
