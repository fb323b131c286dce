"""Pages of nights: trends with change points that lead to runs, the runs of a night, two nights side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from splitbrain.results import nights, runfigures
from splitbrain.results.changes import trends_of
from splitbrain.results.nights import Ran
from splitbrain.results.nighttables import NightTable, read_nights
from tests.results.nightsupport import night_document, rows
from tests.site.support import HOSTILE, bare_run, document, get, text

CELL = "register/kill/metadata/default/sim/none"


def night_store(root: Path, count: int = 4, **more: Any) -> list[str]:
    """A store with some nights, the last of which has slower elections."""
    generator = np.random.default_rng(1)
    tables: list[NightTable] = []
    found: list[str] = []
    for number in range(count):
        name = f"2026010{number + 1}T000000.000Z"
        listed = rows(name, generator, runs=60, slower=1.3 if number == count - 1 else 1.0, **more)
        tables += read_nights([runfigures.write(root, name, listed)])
        folder = root / nights.FOLDER / name
        folder.mkdir(parents=True)
        made = night_document(name, listed, trends=trends_of(tables[-1], tables[:-1], ()))
        (folder / nights.FILE).write_bytes(msgspec.json.encode(made))
        found.append(name)
    return found


def test_trends_have_a_dot_for_each_night_that_leads_to_its_runs_and_a_mark_where_it_changed(tmp_path: Path) -> None:
    names = night_store(tmp_path)
    page = text(get(tmp_path, "/trends"))
    [figure] = re.findall(r"<figure><figcaption>after kill: a majority answers \(s\).*?</figure>", page, re.DOTALL)
    assert re.findall(r'<a href="/night/([^"]+)">', figure) == names
    assert figure.count('class="change"') == 1
    assert "since 20260104T000000.000Z" in figure
    assert page.count('class="change"') == 1
    assert "<script>" not in page


def test_trends_of_a_cell_are_those_of_its_runs(tmp_path: Path) -> None:
    names = night_store(tmp_path)
    every, one = (document(get(tmp_path, "/api/trends", cell=cell)) for cell in ("", "register/kill"))
    figures = {each["figure"]: each["versions"]["default"] for each in one["figures"]}
    assert [each["night"] for each in figures["p99_ms"]] == names
    assert {each["quantiles"]["runs"] for each in figures["p99_ms"]} == {60}
    assert {each["quantiles"]["runs"] for each in every["figures"][0]["versions"]["default"]} == {120}
    table = read_nights([tmp_path / "figures" / f"{names[0]}.parquet"])[0]
    figure = next(each for each in table.figures if each.name == "p99_ms")
    cell = next(each for each in table.cells if each.workload == "register")
    values = np.sort(table.series(figure, cell).values)
    assert figures["p99_ms"][0]["quantiles"]["median"] == values[30]
    assert get(tmp_path, "/trends", cell="nothing/kill").status == 400


def test_the_runs_of_a_night_can_be_chosen_and_lead_to_stored_ones(tmp_path: Path) -> None:
    stored = bare_run(tmp_path, "t", 1, {})
    [name] = night_store(tmp_path, 1)
    listed = rows(name, np.random.default_rng(1), runs=60)
    listed[0]["folder"] = f"test={stored.test_name}/run={stored.name}"
    listed[1]["folder"] = "test=gone/run=gone"
    listed[2]["outcome"] = "violation"
    runfigures.write(tmp_path, name, listed)
    ran = Ran(cell=CELL, seed=listed[3]["seed"], why="fresh", outcome="pass", command="splitbrain run <again> --seed 3")
    journal = tmp_path / nights.FOLDER / name / "journal.jsonl"
    journal.write_bytes(msgspec.json.encode(ran) + b"\n")
    page = text(get(tmp_path, f"/night/{name}"))
    assert re.findall(r"<summary>(\d+)</summary><code class=.command.>([^<]+)<", page) == [
        (str(ran.seed), "splitbrain run &lt;again&gt; --seed 3")
    ]
    assert re.findall(r'<a href="(/run/[^"]+)">run</a>', page) == [f"/run/{stored.test_name}/{stored.name}"]
    assert "120 runs, page 1 of 2" in page
    assert page.count("<tr>") == 101
    chosen = text(get(tmp_path, f"/night/{name}", outcome="violation", cell=CELL))
    assert "1 of 120 runs" in chosen
    assert chosen.count("<tr>") == 2
    assert get(tmp_path, "/night/none").status == 404
    assert get(tmp_path, f"/night/{name}", page="x").status == 400


def test_two_nights_are_a_page_and_a_document(tmp_path: Path) -> None:
    first, *_, last = night_store(tmp_path)
    found = document(get(tmp_path, "/api/nights", a=first, b=last))
    assert [change["figure"] for change in found["changes"]] == ["recovery/kill/start/majority"]
    says = {each["figure"]: each["says"] for each in found["figures"]}
    assert says["recovery/kill/start/majority"] == "changed"
    assert says["p99_ms"] == "no change seen"
    assert says["sim_speed"] == "too few to say"
    assert "after kill: a majority answers" in text(get(tmp_path, "/nights", a=first, b=last))
    assert get(tmp_path, "/nights", a=first, b="none").status == 404


def test_a_store_without_nights_and_damaged_ones_have_pages(tmp_path: Path) -> None:
    assert "no figures of nights yet" in text(get(tmp_path, "/trends"))
    names = night_store(tmp_path)
    (tmp_path / "figures" / f"{names[0]}.parquet").write_bytes(b"PAR1")
    (tmp_path / "nights" / names[1] / "night.json").write_bytes(b"{")
    page = text(get(tmp_path, "/trends"))
    assert page.count("damaged</span>") == 1
    assert "0 runs" in text(get(tmp_path, f"/night/{names[0]}"))
    assert get(tmp_path, "/nights", a=names[1], b=names[2]).status == 400


def test_a_violation_without_a_signature_costs_its_own_night_only(tmp_path: Path) -> None:
    names = night_store(tmp_path)
    file = tmp_path / "nights" / names[1] / "night.json"
    lost = nights.Violation(
        cell=CELL, seed=1, classification="new", signatures=(), sentence="", command="splitbrain run", replay=""
    )
    made = msgspec.json.decode(file.read_bytes(), type=nights.Night)
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(made, violations=(lost,))))
    page = get(tmp_path, "/trends")
    assert (page.status, text(page).count("damaged</span>")) == (200, 1)
    assert get(tmp_path, f"/night/{names[1]}").status == 200


def test_links_are_not_followed(tmp_path: Path) -> None:
    [name] = night_store(tmp_path / "elsewhere", 1)
    store = tmp_path / "store"
    (store / "figures").mkdir(parents=True)
    (store / "nights").mkdir()
    (store / "nights" / name).symlink_to(tmp_path / "elsewhere" / "nights" / name)
    (store / "figures" / f"{name}.parquet").symlink_to(tmp_path / "elsewhere" / "figures" / f"{name}.parquet")
    assert "no figures of nights yet" in text(get(store, "/trends"))


def test_hostile_names_are_text(tmp_path: Path) -> None:
    hostile = HOSTILE.replace("/", "")
    names = night_store(tmp_path, cells=[(hostile, "kill"), ("set", hostile)])
    for page in ("/trends", f"/night/{names[-1]}", f"/nights?a={names[0]}&b={names[-1]}"):
        path, _, query = page.partition("?")
        given = dict(each.split("=") for each in query.split("&")) if query else {}
        found = text(get(tmp_path, path, **given))
        assert "<script>document" not in found
        assert "<img" not in found
        assert "&lt;img" in found or "&lt;script" in found
