"""Nights go into a pushed store with their records and figures; compare reads them there, pull brings them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from splitbrain.harness.cli.compare import command as compare
from splitbrain.harness.cli.pull import command as pull
from splitbrain.harness.cli.push import command as push
from splitbrain.results import nights
from splitbrain.results.errors import HarnessError, RunNotFoundError, UsageError
from splitbrain.results.remote import nights as pushed
from splitbrain.results.remote.runs import RemoteStore
from splitbrain.results.site.nightly import Nights
from tests.site.test_nights import night_store


def _store(folder: Path, number: int = 2) -> list[str]:
    names = night_store(folder, number)
    for name in names:
        (folder / nights.FOLDER / name / pushed.JOURNAL).write_text(f'{{"began": "{name}"}}\n')
    return names


def _said(command: Any, *words: str) -> Any:
    found = CliRunner().invoke(command, words, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout) if "--json" in words else found.stdout


def _address(folder: Path) -> str:
    return f"file://{folder / 'there'}"


def test_all_nights_of_a_store_are_pushed_once_and_those_under_way_are_left_out(tmp_path: Path) -> None:
    here, there = tmp_path / "here", _address(tmp_path)
    names = _store(here)
    under_way = here / nights.FOLDER / "20991231T000000.000Z"
    under_way.mkdir()
    (under_way / pushed.JOURNAL).write_text('{"began": "now"}\n')
    words = ("--to", there, "--store", str(here), "--json")
    rows = _said(push, *words)
    assert [(row["kind"], Path(row["run"]).name, row["became"]) for row in rows] == [
        ("night", name, "new") for name in names
    ]
    assert all(row["bytes"] for row in rows)
    assert [row["became"] for row in _said(push, *words)] == ["there", "there"]
    assert _said(push, *words[:-1]).startswith("0 runs and 0 nights pushed")
    table = f"{tmp_path / 'there'}/figures/*.parquet"
    query = f"select night, count(*) from read_parquet('{table}') group by 1 order by 1"
    counted = duckdb.connect().execute(query).fetchall()
    assert [night for night, _ in counted] == names


@pytest.mark.parametrize("kind", ["folder", "S3"])
def test_nights_are_compared_at_their_address_and_a_pulled_one_is_served(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    here, there = tmp_path / "here", _address(tmp_path) if kind == "folder" else request.getfixturevalue("there")
    names = _store(here)
    _said(push, "--to", there, "--store", str(here))
    local = _said(compare, f"night:{names[0]}", "night:latest", "--store", str(here), "--json")
    assert _said(compare, f"night:{names[0]}", "night:latest", "--store", there, "--json") == local
    assert local["figures"]
    back = tmp_path / "back"
    [folder] = _said(pull, "night:latest", "--from", there, "--store", str(back), "--json")
    assert Path(folder) == back / nights.FOLDER / names[1]
    assert [shown.name for shown in Nights(back).latest()] == [names[1]]
    assert Nights(back).latest()[0].table is not None
    assert "was here already" in _said(pull, "night:latest", "--from", there, "--store", str(back))


def test_a_night_that_was_continued_is_pushed_again_and_another_of_its_name_stays_out(tmp_path: Path) -> None:
    here, store = tmp_path / "here", RemoteStore(_address(tmp_path))
    [name] = _store(here, 1)
    folder = here / nights.FOLDER / name
    assert pushed.push(folder, store).became == "new"
    journal = folder / pushed.JOURNAL
    journal.write_text(journal.read_text() + '{"ran": 1}\n')
    assert pushed.push(folder, store).became == "longer"
    assert store.objects.read(f"{pushed.folder_of(name)}/{pushed.JOURNAL}") == journal.read_bytes()
    journal.write_text('{"began": "elsewhere"}\n')
    with pytest.raises(HarnessError, match="is another night, and stays"):
        pushed.push(folder, store)
    with pytest.raises(UsageError, match="is another night, and stays"):
        pushed.pull(name, store, here)
    (folder / nights.FILE).unlink()
    with pytest.raises(UsageError, match="continue it with --resume"):
        pushed.push(folder, store)


def test_a_push_that_was_killed_leaves_no_night_and_the_next_one_sends_all_of_it(tmp_path: Path) -> None:
    here, store = tmp_path / "here", RemoteStore(_address(tmp_path))
    [name] = _store(here, 1)
    folder = here / nights.FOLDER / name
    store.objects.write(f"{pushed.folder_of(name)}/{pushed.JOURNAL}", (folder / pushed.JOURNAL).read_bytes())
    assert pushed.names(store) == []
    assert pushed.push(folder, store).became == "new"
    assert pushed.names(store) == [name]


def test_after_a_push_of_a_continued_night_that_was_killed_the_next_one_sends_all_of_it(tmp_path: Path) -> None:
    here, store = tmp_path / "here", RemoteStore(_address(tmp_path))
    [name] = _store(here, 1)
    folder = here / nights.FOLDER / name
    pushed.push(folder, store)
    journal, document = folder / pushed.JOURNAL, folder / nights.FILE
    journal.write_text(journal.read_text() + '{"ran": 1}\n')
    document.write_bytes(document.read_bytes() + b"\n")
    store.objects.write(f"{pushed.folder_of(name)}/{pushed.JOURNAL}", journal.read_bytes())
    assert pushed.push(folder, store).became == "longer"
    assert store.objects.read(f"{pushed.folder_of(name)}/{nights.FILE}") == document.read_bytes()
    assert pushed.push(folder, store).became == "there"


def test_after_a_pull_that_was_killed_the_next_one_brings_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, back, store = tmp_path / "here", tmp_path / "back", RemoteStore(_address(tmp_path))
    [name] = _store(here, 1)
    pushed.push(here / nights.FOLDER / name, store)

    def killed(path: Path, content: bytes) -> None:
        if path.name == nights.FILE:
            raise KeyboardInterrupt
        put(path, content)

    put = pushed._put  # pyright: ignore[reportPrivateUsage]
    with monkeypatch.context() as within:
        within.setattr(pushed, "_put", killed)
        with pytest.raises(KeyboardInterrupt):
            pushed.pull(name, store, back)
    assert pushed.pull(name, store, back)[1] is True
    assert nights.read(back / nights.FOLDER / name) is not None


@pytest.mark.parametrize("reference", ["night:latest", "night:2026"])
def test_a_night_of_a_store_that_has_none_is_an_answer_that_says_what_to_do(tmp_path: Path, reference: str) -> None:
    (tmp_path / "store").mkdir()
    words = [reference, "night:2025", "--store", str(tmp_path / "store")]
    with pytest.raises(RunNotFoundError, match=r"there is no night in the store .*store: splitbrain nightly"):
        CliRunner().invoke(compare, words, catch_exceptions=False)


def test_a_night_that_is_not_there_is_an_answer_that_names_the_latest(tmp_path: Path) -> None:
    names = _store(tmp_path)
    with pytest.raises(RunNotFoundError, match=f"begins so. The latest is night:{names[1]}"):
        nights.chosen("night:2019", names, str(tmp_path))
    with pytest.raises(UsageError, match="is the beginning of 2 nights"):
        nights.chosen("night:2", names, str(tmp_path))
    assert nights.chosen("latest", names, str(tmp_path)) is None
