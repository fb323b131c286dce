"""Commands on pushed stores: what they do there, and the one sentence where they cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from splitbrain.results.errors import RemoteConnectionError, RunNotFoundError, UsageError
from splitbrain.results.remote import pruning
from splitbrain.results.remote.copies import copies_of
from splitbrain.results.remote.runs import RemoteStore
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.spark.support import SET, set_history, stored

from .s3 import BUCKET, address
from .support import analyze, judged, lay, listed, push, refused, run


def run_address(there: str, number: int = 0) -> str:
    store = RemoteStore(there)
    return f"{store.place.below(store.runs()[number].folder)}?{there.partition('?')[2]}"


# --- files that are not what was pushed -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_whose_files_are_not_what_was_pushed_is_named_and_the_others_are_judged(
    tmp_path: Path, there: str
) -> None:
    runs = lay(tmp_path)
    push(tmp_path, there)
    analyze(there)
    store = RemoteStore(there)
    cut, gone, changed = [each for each in store.runs() if each.test_name == "set"]
    history = store.objects.read(f"{cut.folder}/history.parquet")
    store.objects.write(f"{cut.folder}/history.parquet", history[:-100])
    store.objects.remove(f"{gone.folder}/test.json")
    other = bytearray(store.objects.read(f"{changed.folder}/history.parquet"))
    other[len(other) // 2] ^= 1  # the size is the same: only the time tells
    _wait_for_another_second(store, changed.manifest)
    store.objects.write(f"{changed.folder}/history.parquet", bytes(other))
    found = {each["run"]: each for each in analyze(there) if each["judged"]}
    assert set(found) == {store.place.below(each.folder) for each in (cut, gone, changed)}
    for each, file in ((cut, "history.parquet"), (gone, "test.json"), (changed, "history.parquet")):
        said = found[store.place.below(each.folder)]["harness_error"]
        assert f"{store.place.below(each.folder)}/{file}" in said
        assert "push" in said
    became = push(tmp_path, there)
    assert list(became.values()) == ["mended"] * 3 + ["there"] * 2
    analyze(there)
    assert judged(there) == []
    assert len(runs) == 5


def _wait_for_another_second(store: RemoteStore, path: str) -> None:
    """Let the clock of the service go on: it shows whole seconds."""
    written = store.objects.found(path)
    assert written is not None
    while True:
        store.objects.write("clock", b"")
        now = store.objects.found("clock")
        assert now is not None
        assert now.changed is not None
        assert written.changed is not None
        if now.changed > written.changed:
            return


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_check_export_and_compare_read_pushed_runs(tmp_path: Path, there: str) -> None:
    lay(tmp_path)
    push(tmp_path, there)
    analyze(there)
    store = RemoteStore(there)
    lost = next(i for i, each in enumerate(store.runs()) if "Z-2_" in each.name)
    where = run_address(there, lost)
    checked = run("check", "--checker", "set", "--json", where)
    (row,) = json.loads(checked.stdout)
    assert (row["file"], row["valid"], checked.exit_code) == (where, False, 1)
    here = next(each for each in Store(tmp_path).runs() if each.name.endswith("-2"))
    assert run("export", where).stdout == run("export", str(here.path)).stdout
    found = json.loads(run("compare", "--store", there, "--json", "set", "register").stdout)
    assert (len(found["runs_a"]), len(found["runs_b"])) == (3, 2)
    assert found["figures"]
    with pytest.raises(RunNotFoundError):
        raise refused("check", where.replace("Z-2_", "Z-9_"))


@pytest.mark.slow
def test_what_is_pulled_is_what_was_pushed(tmp_path: Path, there: str) -> None:
    runs = lay(tmp_path / "from")
    push(tmp_path / "from", there)
    back = tmp_path / "to"
    stored(Store(back), "set", 1, set_history(3), SET)  # another run of the same name is here
    names = [each.name for each in listed(there)]
    pulled = json.loads(run("pull", *names, "--from", there, "--store", str(back), "--json").stdout)
    assert len(pulled) == len(runs)
    for each in runs:
        ours = {path.relative_to(each.path): path.read_bytes() for path in each.path.rglob("*") if path.is_file()}
        candidates = [Path(path) for path in pulled if Path(path).name.startswith(each.path.name)]
        (copy,) = [path for path in candidates if path.parent.name == each.path.parent.name]
        theirs = {path.relative_to(copy): path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        ours.pop(Path("controller.lock"), None)
        assert theirs == ours
        assert (copy.name == each.path.name) is (each != runs[0])
    assert run("pull", names[0], "--from", there, "--store", str(back)).stdout.endswith("was here already\n")
    assert not list(back.rglob(".creating-*"))
    assert set(push(back, there).values()) == {"there", "new"}, "what was pulled is known there"


@pytest.mark.slow
def test_prune_keeps_what_others_refer_to_and_leaves_young_remains(tmp_path: Path, there: str) -> None:
    store = Store(tmp_path)
    first = stored(store, "set", 1, set_history(20), SET)
    other = stored(store, "set", 2, set_history(20), SET)
    replayed = stored(store, "set", 3, set_history(20, lost=[3]), SET)
    push(tmp_path, there)
    remote = RemoteStore(there)
    source = next(each for each in remote.runs() if "Z-1_" in each.name)
    replayed.amend_test(derived_from=f"run {source.name}")
    again = stored(store, "set", 4, set_history(20), SET)
    again.amend_test(derived_from=f"run {first.name}")
    push(tmp_path, there)
    analyze(there)
    remains = "test=set/run=20260921T141320.000Z-9_000000000000"
    remote.objects.write(f"{remains}/test.json", b"{}")
    dry = json.loads(run("prune", "--store", there, "--keep", "0", "--json", "--dry-run").stdout)
    assert len(listed(there)) == 5
    done = run("prune", "--store", there, "--keep", "0", "--json")
    assert json.loads(done.stdout)["removed"] == dry["removed"]
    left = [each.name.rpartition("_")[0] for each in listed(there)]
    assert left == [first.name, replayed.name, replayed.name], "violations, and what they were derived from"
    [kept] = json.loads(done.stdout)["referred_to"]
    assert kept.endswith(f"run={source.name}")
    assert not remote.objects.listed(f"test=set/run={other.name}", deep=True)
    assert remote.objects.listed(remains), "it may be a push that is under way"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "_LEFT_FOR", -pruning._LEFT_FOR)  # pyright: ignore[reportPrivateUsage]
        run("prune", "--store", there, "--keep", "0")
    assert not remote.objects.listed(remains)
    assert [each.name.rpartition("_")[0] for each in listed(there)] == left
    assert RunDir(first.path).read_verdicts() is None


def test_runs_of_a_shared_disk_are_pushed_and_judged_the_same(tmp_path: Path) -> None:
    found = stored(Store(tmp_path / "here"), "set", 1, set_history(20), SET)
    there = f"file://{tmp_path}/shared"
    assert push(tmp_path / "here", there) == {found.name: "new"}
    assert len(judged(there)) == 1
    assert judged(there) == []
    assert not list((tmp_path / "shared").rglob("*.tmp"))


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["run"], "splitbrain push --to"),
        (["hunt"], "splitbrain push --to"),
        (["demo"], "splitbrain push --to"),
        (["serve"], "splitbrain pull --from"),
        (["clean"], "splitbrain pull --from"),
        (["replay", "latest"], "test=.../run=..."),
        (["shrink", "latest"], "test=.../run=..."),
    ],
)
def test_a_command_that_needs_a_folder_says_what_to_do(command: list[str], advice: str) -> None:
    said = refused(*command, "--store", "s3://bucket/prefix")
    assert isinstance(said, UsageError)
    assert advice in str(said)
    assert "s3://bucket/prefix" in str(said)


def test_an_empty_store_has_no_run(there: str) -> None:
    assert isinstance(refused("analyze", "--store", there), RunNotFoundError)
    assert run("report", "--store", there).exit_code == 254


@pytest.mark.slow
@pytest.mark.parametrize("command", ["push", "analyze", "prune"])
def test_a_service_that_is_not_there_is_one_sentence(command: str, tmp_path: Path) -> None:
    stored(Store(tmp_path), "set", 1, set_history(3), SET)
    nowhere = address(9, "p")
    given = {"push": ["--store", str(tmp_path), "--to"], "analyze": ["--store"], "prune": ["--keep", "1", "--store"]}
    said = refused(command, *given[command], nowhere)
    assert isinstance(said, RemoteConnectionError)
    assert said.exit_code == 255
    assert "does not answer" in str(said)
    assert f"s3://{BUCKET}/p" in str(said)


def test_a_bucket_that_is_not_there_is_named(service: int, tmp_path: Path) -> None:
    stored(Store(tmp_path), "set", 1, set_history(3), SET)
    missing = address(service, "p").replace(BUCKET, "no-such-bucket")
    for command in (["push", "--store", str(tmp_path), "--to"], ["analyze", "--store"]):
        said = refused(*command, missing)
        assert "there is no such bucket" in str(said)
        assert "s3://no-such-bucket/p" in str(said)


def test_runs_in_progress_and_damaged_ones_are_left_out_of_a_push(tmp_path: Path, there: str) -> None:
    store = Store(tmp_path)
    fine = stored(store, "set", 1, set_history(5), SET)
    running = store.create("set", 2, {"checkers": []}, 1_790_000_000_000_000_002)
    running.history_writer()
    damaged = stored(store, "set", 3, set_history(5), SET)
    (damaged.path / "test.json").write_text("{")
    done = run("push", "--store", str(tmp_path), "--to", there)
    assert done.exit_code == 255
    assert f"{damaged.path}/test.json" in done.stderr
    assert "in progress" in done.stderr
    assert [each.name.rpartition("_")[0] for each in listed(there)] == [fine.name]
    running.release()


def test_copies_are_gone_after_a_command(there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    left = tmp_path / "tmp" / "splitbrain-copies-999999999-x"
    left.mkdir()
    with copies_of(RemoteStore(there)) as copies:
        assert copies.root.is_dir()
        assert not left.exists(), "those of a process that was killed go"
    assert list((tmp_path / "tmp").iterdir()) == []
