"""A pushed store is judged as the local one is; many may push at once, and push again at any time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.harness.campaigns.many import judge_one_by_one
from splitbrain.results.errors import RemoteConnectionError
from splitbrain.results.remote.runs import RemoteStore
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.support import SPLITBRAIN, environment
from tests.spark.support import SET, set_history, stored

from .s3 import Relay, address
from .support import analyze, judged, lay, listed, push, refused, run, timeless

ALL = ["set", "set", "set", "register", "register"]


def inline(runs: list[RunDir]) -> dict[str, object]:
    """The verdicts of runs that are judged on this machine, by their names."""
    judge_one_by_one(runs, lambda _: None, lambda _: None, limits=DEFAULT)
    kept = {each.name: each.read_verdicts() for each in runs}
    return {
        name: [found.outcome, timeless(found.verdicts), found.harness_error]
        for name, found in kept.items()
        if found is not None
    }


@pytest.mark.slow
def test_a_pushed_store_gets_the_verdicts_of_the_local_one(tmp_path: Path, there: str) -> None:
    runs = lay(tmp_path)
    became = push(tmp_path, there)
    assert set(became.values()) == {"new"}
    assert [each.test_name for each in listed(there)] == sorted(ALL, reverse=True)
    found = analyze(there)
    assert all(each["judged"] for each in found)
    remote = {
        each["run"].rpartition("run=")[2].rpartition("_")[0]: [
            each["outcome"],
            timeless(each["verdicts"]),
            each["harness_error"],
        ]
        for each in found
    }
    assert remote == inline(runs)
    assert [each["outcome"] for each in found].count("violation") == 2
    assert judged(there) == [], "nothing changed, nothing is judged"
    one = listed(there)[0].name
    assert judged(there, one) == []
    assert judged(there, "--again", one) == [one]


@pytest.mark.slow
def test_only_what_did_not_pass_has_a_page_and_report_makes_the_others(tmp_path: Path, there: str) -> None:
    lay(tmp_path)
    push(tmp_path, there)
    found = {each["run"]: each["outcome"] for each in analyze(there)}
    store = RemoteStore(there)
    for each in store.runs():
        names = {store.name_in(each, file) for file in store.objects.listed(each.folder, deep=True)}
        assert ("report.html" in names) is (found[store.place.below(each.folder)] != "pass")
    violation = next(each for each in store.runs() if each.name.partition("Z-")[2].startswith("2_"))
    page = store.objects.read(f"{violation.folder}/report.html").decode()
    assert store.runs()[0].name in page, "a page knows the other runs of its test"
    passed = next(each for each in store.runs() if found[store.place.below(each.folder)] == "pass")
    assert run("report", "--store", there, passed.name).stdout.strip().endswith(f"run={passed.name}/report.html")
    assert b"<html" in store.objects.read(f"{passed.folder}/report.html")


@pytest.mark.slow
def test_pushing_again_does_nothing_and_mends_what_is_missing(tmp_path: Path, there: str) -> None:
    runs = lay(tmp_path)
    push(tmp_path, there)
    before = {each.path: each.changed for each in RemoteStore(there).objects.listed("", deep=True)}
    assert set(push(tmp_path, there).values()) == {"there"}
    assert {each.path: each.changed for each in RemoteStore(there).objects.listed("", deep=True)} == before
    store = RemoteStore(there)
    first, second, third, *_ = [each for each in store.runs() if each.test_name == "set"]
    store.objects.remove(f"{first.folder}/history.parquet")
    store.objects.write(second.manifest, b"{")
    assert push(tmp_path, there) == {
        runs[0].name: "mended",
        runs[1].name: "new",
        **{each.name: "there" for each in runs[2:]},
    }
    assert len(judged(there)) == len(runs)
    assert third in listed(there)


def test_a_verdict_goes_along_and_what_was_judged_there_stays(tmp_path: Path, there: str) -> None:
    found = stored(Store(tmp_path), "set", 1, set_history(20), SET)
    push(tmp_path, there)
    inline([found])
    assert push(tmp_path, there) == {found.name: "judged"}
    assert judged(there) == [], "what was judged here need not be judged there"
    (pushed,) = listed(there)
    store = RemoteStore(there)
    store.objects.write(f"{pushed.folder}/verdict.json", b'{"outcome": "of another"}')
    assert push(tmp_path, there) == {found.name: "there"}
    assert b"of another" in store.objects.read(f"{pushed.folder}/verdict.json")


@pytest.mark.parametrize("damage", [b"{", b"", b"[]"])
def test_a_damaged_verdict_is_named_and_nothing_of_its_run_is_pushed(tmp_path: Path, there: str, damage: bytes) -> None:
    found = stored(Store(tmp_path), "set", 1, set_history(20), SET)
    inline([found])
    (found.path / "verdict.json").write_bytes(damage)
    done = run("push", "--store", str(tmp_path), "--to", there)
    assert (done.exit_code, "verdict.json: damaged" in done.output) == (254, True), done.output
    assert listed(there) == []


@pytest.mark.slow
def test_many_push_at_once_and_runs_of_one_name_do_not_collide(tmp_path: Path, there: str) -> None:
    """Two pushers of the same runs, and one whose runs have the same names and are others."""
    lay(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    mine = lay(tmp_path / "c")
    for each in mine:
        each.amend_test(machine="another")
    commands = [
        subprocess.Popen(
            [sys.executable, *SPLITBRAIN, "push", "--store", str(tmp_path / name), "--to", there],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("a", "b", "c")
    ]
    said = [each.communicate(timeout=120)[0] for each in commands]
    assert [each.returncode for each in commands] == [0, 0, 0], said
    names = [each.name.rpartition("_")[0] for each in listed(there)]
    assert sorted(names) == sorted(each.name for each in mine for _ in range(2))
    assert set(push(tmp_path / "a", there).values()) == set(push(tmp_path / "c", there).values()) == {"there"}


@pytest.mark.slow
def test_a_killed_pusher_leaves_nothing_listed_and_the_next_push_mends(
    tmp_path: Path, there: str, service: int
) -> None:
    found = stored(Store(tmp_path), "set", 1, set_history(20), SET)
    (found.path / "splitbrain.log").write_bytes(os.urandom(1 << 20))
    prefix = there.partition("?")[0].rpartition("/")[2]
    with Relay(service, after_bytes=200_000, hang=True) as relay:
        hanging = address(relay.port, f"nights/{prefix}")
        pusher = subprocess.Popen(
            [sys.executable, *SPLITBRAIN, "push", "--store", str(tmp_path), "--to", hanging], env=environment()
        )
        assert relay.full.wait(60)
        pusher.kill()
        pusher.wait()
    store = RemoteStore(there)
    assert store.objects.listed("", deep=True), "a part is there"
    assert listed(there) == []
    assert push(tmp_path, there) == {found.name: "new"}
    assert len(judged(there)) == 1


@pytest.mark.slow
def test_a_connection_that_breaks_is_one_sentence_and_loses_nothing(tmp_path: Path, there: str, service: int) -> None:
    runs = lay(tmp_path)
    prefix = there.partition("?")[0].removeprefix("s3://runs/")
    with Relay(service, after_bytes=60_000) as relay:
        broken = refused("push", "--store", str(tmp_path), "--to", address(relay.port, prefix))
        assert isinstance(broken, RemoteConnectionError)
        assert "connection broke" in str(broken)
        relay.heal()
        assert len(push(tmp_path, address(relay.port, prefix))) == len(runs)
    with Relay(service, after_bytes=30_000) as relay:
        broken = refused("analyze", "--engine", "inline", "--store", address(relay.port, prefix))
        assert isinstance(broken, RemoteConnectionError)
    assert len(listed(there)) == len(runs)
    analyze(there)
    assert judged(there) == []
