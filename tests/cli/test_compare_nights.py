"""`splitbrain compare` of two nights: as text, JSON and page; what it refuses; what it never says too early."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from splitbrain.harness.cli.compare import command
from splitbrain.results import nightcomparison, nights
from splitbrain.results.errors import RunNotFoundError, UsageError
from splitbrain.results.nightcomparison import compare
from splitbrain.results.nights import Night, NotReached, Violation
from splitbrain.results.nighttables import NightTable
from tests.results.nightsupport import night, night_document, rows
from tests.site.test_nights import night_store

CELL = "register/kill/metadata/default/sim/none"
LOST, TWICE, RARE = "set/lost/-/kill", "set/duplicate/-/none", "set/late/-/none"


def _violation(seed: int, signature: str) -> Violation:
    return Violation(
        cell=CELL,
        seed=seed,
        classification="new",
        signatures=(signature,),
        sentence=f"It was {signature}.",
        command="splitbrain run",
        replay=f"splitbrain run --seed {seed}",
    )


def _side(name: str, violations: list[Violation], **more: Any) -> tuple[Night, NightTable]:
    listed = rows(name, np.random.default_rng(1), runs=40)
    document = night_document(name, listed, violations=tuple(violations), **more)
    return document, night(name, np.random.default_rng(1), runs=40)


def test_what_is_gone_is_fixed_only_if_it_would_have_come_up() -> None:
    many = [_violation(seed, LOST) for seed in range(8)]
    a, table_a = _side("1", [*many, _violation(9, RARE), _violation(10, TWICE)])
    b, table_b = _side("2", [_violation(11, TWICE), _violation(12, "set/other/-/none")])
    found = compare(a, b, table_a, table_b)
    assert [each.signature for each in found.fixed] == [LOST]
    assert found.fixed[0].chance == pytest.approx(0.8**40, rel=0.01)
    assert [(each.signature, each.chance) for each in found.gone] == [(RARE, pytest.approx((39 / 40) ** 40, rel=0.01))]
    assert [each.signature for each in found.new] == ["set/other/-/none"]
    assert [(each.signature, each.runs_a, each.runs_b) for each in found.both] == [(TWICE, 1, 1)]


def test_a_cell_that_was_not_run_again_fixes_nothing_and_marks_are_those_that_only_one_reached() -> None:
    a, table_a = _side("1", [_violation(seed, LOST) for seed in range(20)], not_reached=NotReached(marks=("x", "y")))
    listed = rows("2", np.random.default_rng(2), runs=40, cells=[("set", "partition")])
    b = night_document("2", listed, not_reached=NotReached(marks=("y", "z")))
    found = compare(a, b, table_a, night("2", np.random.default_rng(2), cells=[("set", "partition")]))
    assert (found.fixed, [each.tried_b for each in found.gone]) == ((), [0])
    assert found.only_a == (CELL,)
    assert (found.marks_only_a, found.marks_only_b) == (("z",), ("x",))


def test_the_same_night_twice_has_no_change_and_few_runs_say_nothing() -> None:
    a, table = _side("1", [])
    found = compare(a, a, table, table)
    assert found.changes == ()
    assert {each.says for each in found.figures if each.figure == "p99_ms"} == {"no change seen"}
    few = [night(name, np.random.default_rng(int(name)), runs=2, slower=float(name)) for name in ("1", "2")]
    found = compare(a, a, *few)
    assert found.changes == ()
    assert {each.says for each in found.figures} == {"too few to say"}


def test_nights_are_named_by_folder_name_or_beginning(tmp_path: Path) -> None:
    names = night_store(tmp_path, 3)
    folders = [tmp_path / nights.FOLDER / name for name in names]
    assert nightcomparison.find(names[0], tmp_path) == folders[0]
    assert nightcomparison.find(str(folders[1]), tmp_path / "elsewhere") == folders[1]
    assert nightcomparison.find("night:latest", tmp_path) == folders[2]
    assert nightcomparison.find("night:20260102", tmp_path) == folders[1]
    assert nightcomparison.find("latest", tmp_path) is None
    with pytest.raises(UsageError, match="beginning of 3 nights"):
        nightcomparison.find("night:2026", tmp_path)
    with pytest.raises(RunNotFoundError):
        nightcomparison.find("night:1999", tmp_path)


def _ran(*words: str) -> Any:
    return CliRunner().invoke(command, list(words))


def test_text_json_and_page_say_the_same(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first, *_, last = night_store(store)
    page = tmp_path / "page.html"
    text = _ran(first, "night:latest", "--store", str(store), "--page", str(page))
    assert text.exit_code == 0, text.output
    line = next(line for line in text.output.splitlines() if line.startswith("changed: "))
    assert line.startswith("changed: after kill: a majority answers (s)")
    assert f"since {last}" in line
    document = json.loads(_ran(first, last, "--store", str(store), "--json").output)
    assert (document["kind"], document["format"], document["a"], document["b"]) == ("nights", 1, first, last)
    assert [change["figure"] for change in document["changes"]] == ["recovery/kill/start/majority"]
    html = page.read_text()
    assert line.removeprefix("changed: ").split(":")[0] in html
    assert "/static/" not in html
    assert "default-src 'none'" in html


def test_a_night_is_compared_with_another_night_only(tmp_path: Path) -> None:
    [name] = night_store(tmp_path, 1)
    for other in ("latest", name, f"night:{name}"):
        done = _ran(name, other, "--store", str(tmp_path))
        assert isinstance(done.exception, UsageError), done.output
    path = tmp_path / nights.FOLDER / "20270101"
    path.mkdir()
    done = _ran(name, "20270101", "--store", str(tmp_path))
    assert isinstance(done.exception, RunNotFoundError)
    (path / nights.FILE).write_bytes(msgspec.json.encode(night_document("20270101", [])))
    without = _ran(name, "20270101", "--store", str(tmp_path))
    assert without.exit_code == 0
    assert "20270101: it has no table of figures" in without.output
