"""`analyze` of a pushed store: lines as runs are judged, pages as asked for, figures, and no endless waiting."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.checkers.spark import pipeline
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.jobs import LackingPackagesError
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns import afar, many
from splitbrain.harness.campaigns.many import Judged
from splitbrain.harness.cli.main import splitbrain as command
from splitbrain.results.damage import DAMAGE
from splitbrain.results.errors import EngineError, RemoteConnectionError, RemoteStoreError
from splitbrain.results.remote import objects
from splitbrain.results.remote.copies import copies_of
from splitbrain.results.remote.pruning import by_address, candidate, referred_by_others
from splitbrain.results.remote.runs import RemoteRun, RemoteStore
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.test_lines_of_analyze import lay as lay_waiting
from tests.cli.test_lines_of_analyze import started
from tests.spark.support import REGISTER, SET, register_history, set_history, stored

from .s3 import address
from .support import analyze, listed, push, refused, run


def files(there: str, each: RemoteRun) -> set[str]:
    store = RemoteStore(there)
    return {store.name_in(each, file) for file in store.objects.listed(each.folder, deep=True)}


@pytest.mark.slow
def test_a_line_on_a_pushed_run_is_there_before_the_next_one_is_judged(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = tmp_path / "go on"
    lay_waiting(tmp_path, until, before=2)
    monkeypatch.syspath_prepend(tmp_path)
    push(tmp_path / "store", there)
    process = started(tmp_path, "--engine", "inline", store=there)
    assert process.stdout is not None
    first = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [(each["outcome"], len(each["verdicts"])) for each in first] == [("pass", 2)] * 2
    assert process.poll() is None
    until.touch()
    *rest, sums = [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines()]
    assert ([each["kind"] for each in rest], sums["runs"]) == (["run"], 3)


@pytest.mark.slow
def test_runs_that_pass_have_figures_and_pages_only_if_asked_for(tmp_path: Path, there: str) -> None:
    stored(Store(tmp_path), "set", 1, set_history(20), SET)
    push(tmp_path, there)
    (only,) = listed(there)
    analyze(there)
    assert {"verdict.json", "figures.json"} <= files(there, only)
    assert "report.html" not in files(there, only)
    analyze(there, "--again", "--pages", "all")
    assert "report.html" in files(there, only)
    analyze(there, "--again")
    assert not [name for name in files(there, only) if name == "report.html" or name.startswith("plots/")], (
        "it was of a verdict that was made again"
    )
    analyze(there, "--again", only.name)
    assert "report.html" in files(there, only), "its run was named"


@pytest.mark.slow
def test_a_run_that_fails_has_no_page_with_pages_none(tmp_path: Path, there: str) -> None:
    stored(Store(tmp_path), "set", 1, set_history(20, lost=[3]), SET)
    push(tmp_path, there)
    (found,) = analyze(there, "--pages", "none")
    assert found["outcome"] == "violation"
    assert {"figures.json"} <= files(there, listed(there)[0])
    assert "report.html" not in files(there, listed(there)[0])


def test_a_page_that_cannot_be_written_is_a_problem_of_the_run_at_its_address(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(Store(tmp_path), "set", 1, set_history(20, lost=[3]), SET)
    push(tmp_path, there)

    def fails(loaded: many.LoadedRun, *_: object) -> None:
        raise OSError(f"no room for {loaded.folder.path}")

    monkeypatch.setattr(many, "write_pages", fails)
    lines = run("analyze", "--engine", "inline", "--json", "--store", there).stdout.splitlines()
    (problem,) = json.loads(lines[-1])["problems"]
    where = RemoteStore(there).place.below(listed(there)[0].folder)
    assert problem["run"] == where
    assert f"no room for {where}" in problem["problem"]


def test_what_is_unchanged_is_reported_while_its_verdict_is_there_and_an_error_of_the_reader_ends_it(
    tmp_path: Path, there: str
) -> None:
    found = [stored(Store(tmp_path), "set", seed, set_history(20), SET) for seed in range(3)]
    push(tmp_path, there)
    analyze(there)
    store = RemoteStore(there)
    seen: list[str] = []
    with copies_of(store) as copies:

        def on_judged(run: RemoteRun, _: Judged) -> None:
            assert copies.of(run).read_verdicts() is not None
            seen.append(run.name)

        _, known = afar.unchanged_there(copies, store.runs(), DEFAULT, lambda: None, lambda _: None, on_judged)
        assert sorted(seen) == sorted(run.name for run in known)
        assert len(seen) == len(found)

        def gone(*_: object) -> None:
            raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            afar.unchanged_there(copies, store.runs(), DEFAULT, lambda: None, lambda _: None, gone)


def test_a_service_that_takes_connections_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_REQUEST_S", 1.0)
    monkeypatch.setattr(objects, "_ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = refused("analyze", "--store", address(silent.getsockname()[1], "p"))
    assert isinstance(said, RemoteConnectionError)
    assert "does not answer" in str(said)


def test_where_spark_fails_as_a_whole_the_runs_that_are_left_are_judged_without_it(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(Store(tmp_path), "set", 1, set_history(20), SET)
    stored(Store(tmp_path), "set", 2, set_history(20, lost=[3]), SET)
    push(tmp_path, there)

    def after_the_first(runs: list[RemoteRun], *_: object) -> Iterator[tuple[list[RemoteRun], list[afar._Answer]]]:  # pyright: ignore[reportPrivateUsage]
        yield runs[:1], [afar._Answer(outcome=Outcome.PASS)]  # pyright: ignore[reportPrivateUsage]
        raise EngineError("Spark is gone.")

    monkeypatch.setattr(afar, "in_batches", after_the_first)
    warned, shown = list[str](), list[int]()
    store, spark = RemoteStore(there), cast(Any, None)
    with copies_of(store) as copies:
        found = afar.judge_there_with_spark(
            copies, store.runs(), spark, shown.append, warned.append, DEFAULT, None, paged="none"
        )
    assert [each.outcome.value for each in found] == ["pass", "violation"]
    assert shown == [1, 2]
    assert warned == ["Spark is gone. What is left is judged one by one, without Spark (1 run)."]
    assert "verdict.json" in files(there, listed(there)[1])


def test_executors_without_packages_are_no_reason_to_judge_without_them(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(Store(tmp_path), "set", 1, set_history(20), SET)
    push(tmp_path, there)

    def lacking(*_: object) -> Iterator[Any]:
        raise LackingPackagesError("no packages")
        yield

    monkeypatch.setattr(afar, "in_batches", lacking)
    store = RemoteStore(there)
    with copies_of(store) as copies, pytest.raises(LackingPackagesError):
        afar.judge_there_with_spark(copies, store.runs(), cast(Any, None), lambda _: None, print, DEFAULT, None)


def judged_there(tmp_path: Path, there: str) -> tuple[RemoteRun, RemoteStore]:
    """A pushed run that was judged as a pass."""
    stored(Store(tmp_path), "set", 1, set_history(20), SET)
    push(tmp_path, there)
    analyze(there)
    (only,) = listed(there)
    return only, RemoteStore(there)


@pytest.mark.parametrize("engine", ["inline", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_a_pushed_run_that_is_damaged_is_no_pass_until_it_is_restored(tmp_path: Path, there: str, engine: str) -> None:
    names = {stored(Store(tmp_path), "set", number, set_history(20), SET).name: number for number in (1, 2)}
    push(tmp_path, there)
    analyze(there)
    run_there, other = sorted(listed(there), key=lambda each: names[each.name.partition("_")[0]])
    store = RemoteStore(there)
    where = f"{run_there.folder}/history.parquet"
    sound = store.objects.read(where)
    store.objects.write(where, sound[:-9])
    assert outcomes(there, engine) == {"pass": 1, "harness error": 1}
    assert store.place.below(where) in json.loads(store.objects.read(f"{run_there.folder}/{DAMAGE}"))["why"]
    assert [candidate(store, each).outcome for each in (run_there, other)] == ["unjudged", "pass"]
    beside = CliRunner().invoke(command, ["compare", "--store", there, run_there.name, other.name])
    assert "cannot be judged as it is" in str(beside.exception)

    store.objects.write(where, sound)
    assert outcomes(there, engine) == {"pass": 2}
    assert DAMAGE not in files(there, run_there)
    assert [candidate(RemoteStore(there), each).outcome for each in listed(there)] == ["pass", "pass"]


def outcomes(there: str, engine: str) -> dict[str, int]:
    given = ("--engine", engine, *(("--master", "local[1]") if engine == "spark" else ()))
    done = run("analyze", *given, "--json", "--store", there)
    return json.loads(done.stdout.splitlines()[-1])["outcomes"]


def test_a_note_that_cannot_be_written_there_is_a_problem_of_that_run_alone(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        stored(Store(tmp_path), "set", number, set_history(20), SET)
    push(tmp_path, there)
    first = listed(there)[0]
    store = RemoteStore(there)
    where = f"{first.folder}/history.parquet"
    store.objects.write(where, store.objects.read(where)[:-9])
    send = objects.Objects.send

    def no_space(self: objects.Objects, path: str, source: Path) -> None:
        if path.endswith(DAMAGE):
            raise RemoteStoreError(f"{path} cannot be written: no space.")
        send(self, path, source)

    monkeypatch.setattr(objects.Objects, "send", no_space)
    assert outcomes(there, "inline") == {"pass": 2, "harness error": 1}
    assert [candidate(RemoteStore(there), each).outcome for each in listed(there)] == ["unjudged", "pass", "pass"]


def test_damage_that_no_listing_shows_stays_noted_until_the_run_is_compared(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_there, store = judged_there(tmp_path, there)
    where = f"{run_there.folder}/history.parquet"
    content = bytearray(store.objects.read(where))
    content[len(content) // 2] ^= 1
    store.objects.write(where, bytes(content))

    def unchanged(*_: object) -> bool:
        return True

    monkeypatch.setattr(RemoteStore, "_is_as_pushed", unchanged)  # a disk changes no times
    assert analyze(there)[0]["outcome"] == "pass", "nothing shows it"
    assert analyze(there, "--again")[0]["outcome"] == "harness error"
    for _ in range(2):
        assert analyze(there)[0]["outcome"] == "harness error"
    assert DAMAGE in files(there, run_there)


@pytest.mark.parametrize("change", ['"format": 1', '"outcome": "pass"'])
def test_a_verdict_there_of_a_newer_version_or_that_was_changed_never_goes(
    tmp_path: Path, there: str, change: str
) -> None:
    run_there, store = judged_there(tmp_path, there)
    where = f"{run_there.folder}/verdict.json"
    text = store.objects.read(where).decode()
    other = {'"format": 1': '"format": 99', '"outcome": "pass"': '"outcome": "inconclusive"'}[change]
    assert change in text
    store.objects.write(where, text.replace(change, other).encode())
    assert candidate(RemoteStore(there), run_there).outcome is None


def test_a_violation_that_is_sound_again_gets_its_page_where_its_note_cannot_be_removed(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(Store(tmp_path), "set", 1, set_history(20, lost=[7]), SET)
    push(tmp_path, there)
    (run_there,) = listed(there)
    RemoteStore(there).objects.write(f"{run_there.folder}/{DAMAGE}", b'{"why": "a disk"}')
    remove = objects.Objects.remove

    def refuse(self: objects.Objects, path: str) -> None:
        if path.endswith(DAMAGE):
            raise RemoteStoreError(f"{path} cannot be removed: access denied.")
        remove(self, path)

    monkeypatch.setattr(objects.Objects, "remove", refuse)
    done = run("analyze", "--engine", "inline", "--store", there)
    assert "could not be written or removed" in done.stderr
    assert {"verdict.json", "figures.json", "report.html", DAMAGE} <= files(there, run_there)


@pytest.mark.spark
@pytest.mark.slow
def test_a_large_pushed_run_that_spark_judged_is_unchanged_the_next_time(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(Store(tmp_path), "register", 1, register_history(1, 3, 20), REGISTER)
    push(tmp_path, there)
    small = Sizes(run_rows=10)
    there_with_spark: Any = afar.judge_there_with_spark

    def with_small(*given: Any, **named: Any) -> Any:
        return there_with_spark(*given[:6], small, *given[7:], **named)

    monkeypatch.setattr(afar, "judge_there_with_spark", with_small)
    monkeypatch.setattr(pipeline, "judge_apart", partial(pipeline.judge_apart, sizes=small))
    given = ("analyze", "--engine", "spark", "--master", "local[1]", "--json", "--store", there)
    found = [json.loads(run(*given).stdout.splitlines()[0]) for _ in range(2)]
    assert [each["judged"] for each in found] == [True, False]


def test_a_manifest_that_is_damaged_frees_no_run_from_which_its_run_may_be_derived(tmp_path: Path, there: str) -> None:
    first = stored(Store(tmp_path), "set", 1, set_history(20), SET)
    derived = first.path.with_name("run=20991231T000000.000Z-1")
    shutil.copytree(first.path, derived)
    RunDir(derived).amend_test(derived_from=first.name)
    push(tmp_path, there)
    store = RemoteStore(there)
    by_path = by_address(store)
    source, other = sorted(by_path, key=lambda address: by_path[address].name)
    assert referred_by_others(store, by_path, {source}) == {source: other}
    text = store.objects.read(by_path[other].manifest)
    store.objects.write(by_path[other].manifest, text[:-9])
    again = RemoteStore(there)
    assert referred_by_others(again, by_address(again), {source}) == {source: other}
