"""`splitbrain compare`: which runs are meant, in the terminal, as JSON and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.results.figures import stored_figures
from splitbrain.results.store import Store
from tests.cli.support import answer, splitbrain
from tests.report.sample import START_WALL_NS
from tests.site.support import HOSTILE, bare_run, small_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compared") / "store"
    small_run(root, "pass", seed=1)
    small_run(root, "pass", seed=2)
    small_run(root, "violation", seed=3)
    bare_run(root, "other", 4, {})
    return root


def compared(store: Path, a: str, b: str) -> Any:
    return answer(splitbrain("compare", a, b, "--store", str(store), "--json", cwd=store.parent))


@pytest.mark.slow
def test_a_run_a_test_a_pattern_and_a_folder_can_be_meant(store: Path) -> None:
    runs = [run for run in Store(store).runs() if run.test_name == "metadata-set"]
    found = compared(store, runs[0].name, "metadata-set")
    assert found["runs_a"] == [f"metadata-set/{runs[0].name}"]
    assert len(found["runs_b"]) == 3
    found = compared(store, "*-[12]", str(store / "test=metadata-set"))
    assert [name.rpartition("-")[2] for name in found["runs_a"]] == ["1", "2"]
    assert len(found["runs_b"]) == 3
    found = compared(store, "metadata-*/*-3", str(store))
    assert [len(found[side]) for side in ("runs_a", "runs_b")] == [1, 4]
    assert found["sentences_a"][0].startswith("Lost: element")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        ("system=metadata", "123"),
        ("bug=none system=metadata", "12"),
        ("bug=M17", "3"),
        ("nemesis=kill  backend=local since=2025-10-09 outcome=pass", "12"),
    ],
)
def test_filters_mean_the_runs_that_the_table_shows(store: Path, filters: str, runs: str) -> None:
    found = compared(store, filters, "latest")
    assert "".join(name.rpartition("-")[2] for name in found["runs_a"]) == runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filters", "words"),
    [("system=etcd", "no run of the store"), ("since=someday", "is no day"), ("colour=red", "no run 'colour=red'")],
)
def test_filters_that_nothing_fits_are_one_line(store: Path, filters: str, words: str) -> None:
    done = splitbrain("compare", filters, "latest", "--store", str(store), cwd=store.parent)
    assert (done.returncode, done.stderr.count("\n")) == (254, 1)
    assert words in done.stderr


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reference", ["nothing", "no-*", ".", "metadata-set/"])
def test_nothing_that_is_meant_is_one_line(store: Path, reference: str) -> None:
    done = splitbrain("compare", reference, "latest", "--store", str(store), cwd=store.parent)
    expected = 0 if reference == "metadata-set/" else 254
    assert done.returncode == expected, done.stderr
    assert done.stderr.count("\n") == (1 if expected else 0)


@pytest.mark.slow
def test_people_read_what_differs_first(store: Path) -> None:
    done = splitbrain("compare", "*-1", "*-3", "--store", str(store), cwd=store.parent)
    assert done.returncode == 0, done.stderr
    assert "This is not the same test on both sides." in done.stdout
    assert done.stdout.index("options.bug") < done.stdout.index("outcomes") < done.stdout.index("latency p99")
    assert done.stdout.rstrip().endswith("drawn over time: --page FILE")
    same = splitbrain("compare", "*-1", "*-2", "--store", str(store), cwd=store.parent)
    assert "The same test on both sides. The seeds differ" in same.stdout


@pytest.mark.slow
def test_nothing_is_folded_in_a_pipe(store: Path) -> None:
    told = compared(store, "*-1", "*-3")
    done = splitbrain("compare", "*-1", "*-3", "--store", str(store), cwd=store.parent)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) > 80
    assert told["flagged"] in lines
    assert all(f"B: {sentence}" in lines for sentence in told["sentences_b"])


@pytest.mark.slow
def test_the_page_stands_by_itself(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = splitbrain("compare", "*-1", "metadata-set", "--store", str(store), "--page", str(page), cwd=store.parent)
    assert done.returncode == 0, done.stderr
    source = page.read_text()
    assert "<style>" in source
    assert "/static/" not in source
    assert 'href="/' not in source
    assert "latency p99" in source
    assert source.count('<svg class="plot"') == 4
    assert "A side of several runs is their median" in source


def test_a_page_that_cannot_be_written_is_one_line(store: Path) -> None:
    done = splitbrain("compare", "*-1", "*-2", "--store", str(store), "--page", "no/such/folder.html", cwd=store.parent)
    assert (done.returncode, done.stderr.count("\n")) == (254, 1)


@pytest.mark.slow
def test_hostile_values_are_text_in_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    run = small_run(tmp_path / "store", "violation", hostile=f"[red]{HOSTILE}")
    other = small_run(tmp_path / "store", "violation", seed=8, hostile=f"[red]{HOSTILE}")
    page = tmp_path / "page.html"
    done = splitbrain("compare", run.name, other.name, "--store", "store", "--page", str(page), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[red]" in done.stdout
    assert "\x07" not in done.stdout
    assert "<script>" not in page.read_text()


def test_judging_a_run_leaves_its_figures(tmp_path: Path) -> None:
    document: dict[str, Any] = {"nodes": ["n1"], "options": {}, "checkers": [{"name": "stats", "options": {}}]}
    run = Store(tmp_path).create("t", 1, document, START_WALL_NS)
    run.history_writer().close()
    run.release()
    judge_inline(run)
    found = stored_figures(run.path)
    assert found is not None
    assert found.ops == 0
