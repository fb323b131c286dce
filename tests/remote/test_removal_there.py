"""A pushed run that is removed is listed whole or not at all, wherever the removal is cut off."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from splitbrain.results.remote import pruning
from splitbrain.results.remote.objects import Objects
from splitbrain.results.remote.runs import RemoteStore
from splitbrain.results.store import Store
from tests.cli.support import analyzed, splitbrain
from tests.spark.support import SET, set_history, stored

from .support import analyze, listed, push, refused, run


def test_a_removal_that_is_cut_off_leaves_no_run_that_is_listed(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(Store(tmp_path), "set", 1, set_history(5), SET)
    push(tmp_path, there)
    store = RemoteStore(there)
    removed: list[str] = []
    for name in ("remove", "remove_folder"):
        before = getattr(Objects, name)

        def cut_off(objects: Objects, path: str, before: object = before) -> None:
            if removed:
                raise ConnectionError
            removed.append(path)
            assert callable(before)
            before(objects, path)

        monkeypatch.setattr(Objects, name, cut_off)
    with pytest.raises(ConnectionError):
        pruning.remove(store, store.runs()[0])
    assert listed(there) == []
    monkeypatch.undo()


@pytest.mark.slow
def test_the_verdict_of_another_run_beside_a_violation_does_not_let_it_go(tmp_path: Path) -> None:
    """Such as one that was put back from a copy, beside the wrong run."""
    for seed, lost in ((1, [7]), (2, [])):
        stored(Store(tmp_path / "store"), "set", seed, set_history(20, lost=lost), SET)
    there = f"file://{tmp_path}/there"
    push(tmp_path / "store", there)
    analyze(there)
    store = RemoteStore(there)
    guilty, other = store.runs()
    assert [pruning.candidate(store, run).outcome for run in (guilty, other)] == ["violation", "pass"]
    store.objects.write(f"{guilty.folder}/verdict.json", store.objects.read(f"{other.folder}/verdict.json"))
    assert [pruning.candidate(store, run).outcome for run in (guilty, other)] == ["unjudged", "pass"]
    assert sorted(each["outcome"] for each in analyze(there)) == ["pass", "violation"]
    assert pruning.candidate(store, guilty).outcome == "violation"


@pytest.mark.slow
def test_no_manifest_brings_a_run_to_another_place_than_the_store(tmp_path: Path) -> None:
    stored(Store(tmp_path / "store"), "set", 1, set_history(20), SET)
    there = f"file://{tmp_path}/there"
    push(tmp_path / "store", there)
    [there_is] = RemoteStore(there).runs()
    file = tmp_path / "there" / there_is.manifest
    known = json.loads(file.read_bytes())
    file.write_text(json.dumps({**known, "recorded_as": "../../../outside/run=x"}))
    error = refused("pull", "latest", "--from", there, "--store", str(tmp_path / "here" / "store"))
    assert f"{there_is.manifest}: damaged: no run that was recorded as '../" in str(error)
    assert not (tmp_path / "outside").exists()
    assert not list((tmp_path / "here").rglob("run=*"))


def test_what_keeps_a_pull_from_writing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(Store(tmp_path / "store"), "set", 1, set_history(20), SET)
    there = f"file://{tmp_path}/there"
    push(tmp_path / "store", there)

    def full(*_: object, **__: object) -> None:
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device")])

    monkeypatch.setattr(shutil, "copytree", full)
    done = run("pull", "latest", "--from", there, "--store", str(tmp_path / "here"))
    assert done.exit_code == 254
    assert "cannot be written: [Errno 28] No space left on device. Choose another" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["verdict.json", "history.parquet"])
def test_a_pipe_in_the_place_of_a_file_keeps_no_command_waiting(tmp_path: Path, name: str) -> None:
    for seed in (1, 2):
        stored(Store(tmp_path / "store"), "set", seed, set_history(20), SET)
    there = f"file://{tmp_path}/there"
    push(tmp_path / "store", there)
    analyze(there)
    piped = tmp_path / "there" / RemoteStore(there).runs()[0].folder / name
    piped.unlink()
    os.mkfifo(piped)
    done = splitbrain("analyze", "--store", there, "--engine", "inline", "--again", "--json", timeout_s=120)
    first, second = analyzed(done.stdout)
    assert (first["outcome"], second["outcome"], done.returncode) == ("harness error", "pass", 255)
    assert "not a plain file" in first["harness_error"]


def test_a_copy_has_the_files_of_nodes_that_judging_packs(tmp_path: Path, there: str) -> None:
    from splitbrain.results.remote.copies import copies_of

    run = stored(Store(tmp_path), "set", 1, set_history(5), SET)
    run.amend_test(telemetry={"n1": "telemetry.jsonl"})
    raw = run.path / "nodes" / "n1"
    raw.mkdir(parents=True)
    (raw / "telemetry.jsonl").write_text("{}\n")
    (raw / "other.log").write_text("not for judging")
    push(tmp_path, there)
    with copies_of(RemoteStore(there)) as copies:
        copy = copies.fetch(copies.store.runs()[0])
        assert (copy.path / "nodes" / "n1" / "telemetry.jsonl").read_text() == "{}\n"
        assert not (copy.path / "nodes" / "n1" / "other.log").exists()
    assert analyze(there)
