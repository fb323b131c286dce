"""`analyze` judges what is new or has changed, and nothing else; what it does not judge counts as if it had been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from splitbrain.checkers import judgecode, stored
from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.campaigns import many
from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.harness.cli.main import splitbrain as command
from splitbrain.results.arrow import TELEMETRY_SCHEMA, read_parquet, write_parquet
from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.madefrom import Basis, are_within, digest, hold_with, record_of, seal
from splitbrain.results.report import past
from splitbrain.results.rundir import RunDir
from splitbrain.results.site.rows import Index
from splitbrain.results.store import Store
from tests.cli.support import OWN, SPLITBRAIN, analyzed, answer, environment, only_run, splitbrain
from tests.spark.support import REGISTER, SET, WALL_NS, crashed, register_history, set_history
from tests.spark.support import stored as lay

FINE = set_history(20)
LOST = set_history(20, lost=[7])


def analyze(root: Path, *given: str) -> Result:
    pages = [] if "--pages" in given else ["--pages", "all"]
    return CliRunner().invoke(
        command, ["analyze", "--engine", "inline", "--json", "--store", str(root), *pages, *given]
    )


def judged(root: Path, *given: str) -> list[str]:
    """Names of the runs that an analysis judged."""
    return [Path(each["run"]).name for each in analyzed(analyze(root, *given).stdout) if each["judged"]]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run that was judged."""
    found = lay(Store(tmp_path), "t", 1, FINE, SET)
    assert judged(tmp_path) == [found.path.name]
    assert judged(tmp_path) == []
    return found


@pytest.fixture
def settled_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code that was written while this process ran counts as known, as in a process that began after that."""
    monkeypatch.setattr(judgecode, "_BEGAN_NS", 1 << 63)
    forget_code()
    yield
    forget_code()


def forget_code() -> None:
    """As another process, which has not looked at the code yet."""
    judgecode._own.cache_clear()  # pyright: ignore[reportPrivateUsage]
    judgecode._of_package.cache_clear()  # pyright: ignore[reportPrivateUsage]


# --- what has changed -------------------------------------------------------------------------------------------------


def with_note(run: RunDir) -> None:
    (run.path / CHECKSUMS).unlink()
    write_parquet(read_parquet(run.history_path), run.history_path, {b"note": b"new"})


def same_size_and_time(run: RunDir) -> None:
    """Another content that neither size nor time of change tells."""
    (run.path / CHECKSUMS).unlink()
    path = run.path / "test.json"
    before, content = path.stat(), path.read_bytes()
    path.write_bytes(content.replace(b'"n3"', b'"n4"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert path.read_bytes() != content


def other_option(run: RunDir) -> None:
    run.amend_test(checkers=[CheckerSpec("set"), CheckerSpec("stats", {"rate": 5.0})])


CHANGES: list[Callable[[RunDir], object]] = [
    lambda run: run.amend_test(noted="anything"),
    same_size_and_time,
    other_option,
    with_note,
    lambda run: run.wal_path.write_bytes(b"left by a backup"),
    lambda run: run.write_marks({"elected": 1}),
    lambda run: run.write_telemetry(TELEMETRY_SCHEMA.empty_table()),
]
NAMES = ["test.json", "test.json, size and time kept", "option", "history", "write-ahead file", "marks", "telemetry"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", CHANGES, ids=NAMES)
def test_a_run_is_judged_again_once_when_a_file_of_it_is_another(
    run: RunDir, tmp_path: Path, change: Callable[[RunDir], object]
) -> None:
    other = lay(Store(tmp_path), "t", 2, FINE, SET)
    assert judged(tmp_path) == [other.path.name]
    change(run)
    assert judged(tmp_path) == [run.path.name]
    assert judged(tmp_path) == []


def test_files_with_the_same_content_are_the_same_wherever_they_come_from(run: RunDir, tmp_path: Path) -> None:
    for path in run.path.iterdir():
        if path.is_file():
            path.write_bytes(path.read_bytes())
            os.utime(path, (1, 1))
    assert judged(tmp_path) == []
    elsewhere = tmp_path / "elsewhere" / run.path.parent.name
    elsewhere.mkdir(parents=True)
    run.path.rename(elsewhere / run.path.name)
    assert judged(tmp_path / "elsewhere") == []


def test_raw_telemetry_counts_as_long_as_no_table_has_any_of_it(tmp_path: Path) -> None:
    run = lay(Store(tmp_path), "t", 1, FINE, SET)
    run.amend_test(telemetry={"n1": "nodes/n1/telemetry.jsonl"}, began_wall_ns=WALL_NS)
    assert judged(tmp_path) == [run.path.name]
    assert judged(tmp_path) == []
    raw = run.node_dir("n1") / "telemetry.jsonl"
    raw.write_text("")
    assert judged(tmp_path) == [run.path.name]
    assert judged(tmp_path) == []


def test_other_code_of_splitbrain_or_of_a_library_judges_again(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = judgecode.code_of(())
    assert {"splitbrain", "python", "numpy", "pyarrow"} <= set(own)
    for name in ("splitbrain", "numpy"):
        other = {**own, name: "another"}

        def code_of(_: Any, other: Any = other) -> Any:
            return other

        monkeypatch.setattr(stored, "code_of", code_of)
        assert judged(tmp_path) == [run.path.name]
        assert judged(tmp_path) == []


def test_code_that_was_changed_while_the_process_runs_is_none_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some.py"
    file.write_text("a = 1\n")
    found = judgecode._digest  # pyright: ignore[reportPrivateUsage]
    assert found({file: "some.py"}) is None
    monkeypatch.setattr(judgecode, "_BEGAN_NS", 1 << 63)
    first = found({file: "some.py"})
    file.write_text("a = 2\n")
    second = found({file: "some.py"})
    assert None is not first != second is not None
    assert found({}) is None


@pytest.mark.slow
def test_another_code_of_a_checker_of_ones_own_judges_again_what_it_judged(tmp_path: Path) -> None:
    folder, store = tmp_path / "code", tmp_path / "store"
    folder.mkdir()
    (folder / "its_helper.py").write_text("WORD = 1\n")
    (folder / "my_checkers.py").write_text(f"import its_helper\n{OWN}")
    mine = lay(Store(store), "t", 1, FINE, [CheckerSpec("my_checkers:Mine")])
    lay(Store(store), "t", 2, FINE, SET)

    def now_judged() -> list[str]:
        words = [sys.executable, *SPLITBRAIN, "analyze", "--json", "--store", str(store)]
        path = os.pathsep.join([environment()["PYTHONPATH"], str(folder)])
        done = subprocess.run(words, env=environment(PYTHONPATH=path), capture_output=True, text=True, check=True)
        return [Path(each["run"]).name for each in analyzed(done.stdout) if each["judged"]]

    assert len(now_judged()) == 2
    assert now_judged() == []
    (folder / "my_checkers.py").write_text(f"import its_helper\n{OWN.replace('FIRST', 'SECOND')}")
    assert now_judged() == [mine.path.name]
    found = mine.read_verdicts()
    assert found is not None
    assert found.verdicts[0]["sentence"] == "SECOND"
    (folder / "its_helper.py").write_text("WORD = 2\n")
    assert now_judged() == [mine.path.name]
    assert now_judged() == []


def test_a_model_that_an_option_names_is_code_that_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_code: None
) -> None:
    (tmp_path / "my_model_of_increments.py").write_text("class Model: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("my_model_of_increments:Model", 'my_model_of_increments:Model("a")'):
        forget_code()
        assert "my_model_of_increments" in judgecode.code_of([CheckerSpec("linearizable", {"model": text})])
    assert "my_model_of_increments" not in sys.modules, "its code may end the process that imports it"
    for text in ("cas-register", "semaphore(2)", "no_such_module_at_all:Model"):
        assert judgecode.code_of([CheckerSpec("linearizable", {"model": text})]) == judgecode.code_of(())


def test_only_a_lower_limit_can_change_a_verdict_that_met_none(run: RunDir, tmp_path: Path) -> None:
    assert judged(tmp_path, "--checker-time", "1900") == []
    assert judged(tmp_path, "--checker-time", "900") == [run.path.name]
    assert judged(tmp_path, "--checker-time", "900") == []
    assert judged(tmp_path, "--checker-time", "900", "--checker-memory", "900") == [run.path.name]
    assert judged(tmp_path, "--checker-time", "901", "--checker-memory", "901") == []


def test_limits_hold_with_others_that_are_no_smaller() -> None:
    one: dict[str, float | None] = {"cpu_s": 5.0, "memory_mb": None}
    assert hold_with(one, {**one, "cpu_s": 6.0})
    assert not hold_with(one, {**one, "cpu_s": 4.0})
    assert not hold_with(one, {**one, "memory_mb": 100.0})
    assert not hold_with({**one, "memory_mb": 100.0}, one)
    assert not hold_with({"cpu_s": 5.0}, one)


# --- the record -------------------------------------------------------------------------------------------------------


def without(document: dict[str, Any]) -> None:
    del document["made_from"]


def other_kind(document: dict[str, Any]) -> None:
    document["made_from"] = ["what", "is", "this"]


def later_format(document: dict[str, Any]) -> None:
    document["made_from"]["format"] = 99


def of_another_verdict(document: dict[str, Any]) -> None:
    document["verdicts"][0]["figures"] = {"forged": 1}


def other_outcome(document: dict[str, Any]) -> None:
    document["outcome"] = "violation"


def fewer_inputs(document: dict[str, Any]) -> None:
    del document["made_from"]["inputs"]["history.parquet"]


def other_input(document: dict[str, Any]) -> None:
    document["made_from"]["inputs"]["history.parquet"] = "0" * 32


def outside(document: dict[str, Any]) -> None:
    document["made_from"]["inputs"]["../../../../../../etc/hostname"] = None


def other_code(document: dict[str, Any]) -> None:
    document["made_from"]["code"]["splitbrain"] = "0"


def other_checkers(document: dict[str, Any]) -> None:
    document["made_from"]["checkers"] = []


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "damage",
    [
        without,
        other_kind,
        later_format,
        fewer_inputs,
        other_input,
        outside,
        other_code,
        other_checkers,
    ],
)
def test_a_record_that_is_damaged_is_none(
    run: RunDir, tmp_path: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    path = run.path / "verdict.json"
    document = json.loads(path.read_bytes())
    damage(document)
    path.write_text(json.dumps(document))
    done = analyze(tmp_path)
    [found] = analyzed(done.stdout)
    assert (found["judged"], found["outcome"], done.exit_code) == (True, "pass", 0)
    assert judged(tmp_path) == []


@pytest.mark.parametrize("damage", [of_another_verdict, other_outcome])
def test_a_verdict_that_was_changed_is_named_until_it_is_gone(
    run: RunDir, tmp_path: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    """With it goes what went wrong in the run itself: nothing else has that."""
    path = run.path / "verdict.json"
    document = json.loads(path.read_bytes())
    damage(document)
    path.write_text(json.dumps(document))
    done = analyze(tmp_path)
    [found] = analyzed(done.stdout)
    assert (found["outcome"], found["verdicts"], done.exit_code) == ("harness error", [], 255)
    assert f"{path}: it was damaged or changed" in found["harness_error"]
    [row] = Index(tmp_path).rows()
    assert (row.state, "its seal is another" in row.says) == ("damaged", True)
    path.unlink()
    assert analyze(tmp_path).exit_code == 0


def test_a_verdict_of_a_version_without_records_is_made_again(tmp_path: Path) -> None:
    run = lay(Store(tmp_path), "t", 1, FINE, SET)
    run.write_verdicts([], "violation")
    assert judged(tmp_path) == [run.path.name]
    found = run.read_verdicts()
    assert found is not None
    assert found.outcome == "pass"


def test_the_record_is_of_what_is_read_back(run: RunDir) -> None:
    found = run.read_verdicts()
    assert found is not None
    made = record_of(found)
    assert made is not None
    assert made.seal == seal(found)
    assert made.inputs["history.parquet"] == digest(run.history_path)
    assert made.checkers == [{"name": "set", "options": {}}, {"name": "stats", "options": {}}]
    assert made.limits["cpu_s"] == DEFAULT.cpu_s
    assert record_of(msgspec.structs.replace(found, engine="spark")) is None


def test_names_that_lead_out_of_a_run_are_no_inputs() -> None:
    assert are_within({"test.json": 0, "nodes/n1/telemetry.jsonl": 0})
    for name in ("/etc/passwd", "../test.json", "nodes/../../x", "a\0b"):
        assert not are_within({name: 0}), name


# --- what counts ------------------------------------------------------------------------------------------------------


def test_what_is_unchanged_counts_for_the_exit_code_and_nothing_is_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fine, lost = lay(store, "fine", 1, FINE, SET), lay(store, "lost", 2, LOST, SET)
    idle = lay(store, "idle", 3, register_history(1, 1, 2), REGISTER)
    broken = lay(store, "broken", 4, FINE, SET)
    judge_inline(broken, "a fault could not be healed")
    codes = {fine: (0, "pass"), lost: (1, "violation"), idle: (2, "inconclusive"), broken: (255, "harness error")}
    assert analyze(tmp_path).exit_code == 1
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = analyze(tmp_path)
    assert done.exit_code == 1
    assert "0 runs judged, 4 unchanged since 20" in done.stderr
    for run, (code, outcome) in codes.items():
        one = analyze(tmp_path, run.name)
        [found] = analyzed(one.stdout)
        assert (found["judged"], found["outcome"], one.exit_code) == (False, outcome, code)
        assert found["unchanged_since"].endswith("+00:00")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == written


def test_the_table_has_what_is_unchanged_too(run: RunDir, tmp_path: Path) -> None:
    new = lay(Store(tmp_path), "t", 2, LOST, SET)
    done = CliRunner().invoke(command, ["analyze", "--engine", "inline", "--store", str(tmp_path)])
    assert run.name in done.stdout
    assert new.name in done.stdout
    assert "1 run judged, 1 unchanged since 20" in done.stdout


def test_a_damaged_run_is_an_error_each_time(run: RunDir, tmp_path: Path) -> None:
    run.history_path.write_bytes(run.history_path.read_bytes()[:-9])
    for _ in range(2):
        done = analyze(tmp_path)
        [found] = analyzed(done.stdout)
        assert (found["judged"], found["outcome"], done.exit_code) == (True, "harness error", 255)
        assert str(run.history_path) in found["harness_error"]


def test_again_judges_everything(run: RunDir, tmp_path: Path) -> None:
    lay(Store(tmp_path), "t", 2, FINE, SET)
    analyze(tmp_path)
    assert judged(tmp_path) == []
    assert len(judged(tmp_path, "--again")) == 2
    assert judged(tmp_path, "--again", run.name) == [run.path.name]
    assert judged(tmp_path) == []


FRAIL = """
import os
import sys
from splitbrain.checkers.verdict import Verdict


class Frail:
    name = "frail"
    partition = "run"

    def check(self, history, options):
        if not os.path.exists(options["well"]):
            if options["how"] == "killed":
                os.kill(os.getpid(), 9)
            raise OSError(28, "No space left on device") if options["how"] == "full" else MemoryError
        return Verdict(checker="frail", valid="true", sentence="well")

    def merge(self, verdicts, options):
        return next(iter(verdicts))
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["killed", "full", "memory"])
def test_a_checker_that_breaks_is_tried_again_each_time_until_it_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_code: None, how: str
) -> None:
    (tmp_path / "frail_of_increments.py").write_text(FRAIL)
    monkeypatch.syspath_prepend(tmp_path)
    well, store = tmp_path / "well", tmp_path / "store"
    spec = CheckerSpec("frail_of_increments:Frail", {"well": str(well), "how": how})
    run = lay(Store(store), "t", 1, FINE, [spec, *SET])
    for _ in range(2):
        assert analyze(store).exit_code == 255
        assert judged(store) == [run.path.name]
    well.touch()
    done = analyze(store)
    [found] = analyzed(done.stdout)
    assert (found["judged"], found["outcome"], done.exit_code) == (True, "pass", 0)
    assert found["harness_error"] is None
    assert judged(store) == []


def test_what_went_wrong_in_the_run_itself_stays_when_it_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_code: None
) -> None:
    (tmp_path / "frail_of_increments.py").write_text(FRAIL)
    monkeypatch.syspath_prepend(tmp_path)
    well = tmp_path / "well"
    spec = CheckerSpec("frail_of_increments:Frail", {"well": str(well), "how": "full"})
    run = lay(Store(tmp_path / "store"), "t", 1, FINE, [spec, *SET])
    judge_inline(run, "a fault could not be healed")
    well.touch()
    [found] = analyzed(analyze(tmp_path / "store").stdout)
    assert (found["judged"], found["harness_error"]) == (True, "a fault could not be healed")


# --- who judged -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_run_has_judged_need_not_be_judged_by_analyze(tmp_path: Path) -> None:
    words = [
        "run",
        "--backend",
        "sim",
        "--nemesis",
        "kill",
        "-n",
        "3",
        "--rate",
        "20",
        "--time-limit",
        "4",
        "--seed",
        "5",
    ]
    ran = splitbrain(*words, "--store", str(tmp_path), "--json")
    run = only_run(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    done = splitbrain("analyze", "--json", "--store", str(tmp_path))
    [found] = analyzed(done.stdout)
    assert (found["judged"], found["outcome"], done.returncode) == (False, answer(ran)["outcome"], ran.returncode)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    (run / "telemetry.parquet").unlink()
    [found] = analyzed(analyze(tmp_path).stdout)
    assert "telemetry.parquet: it is gone" in found["harness_error"], (
        "the nodes' files from which it was made are packed"
    )


def test_without_anything_to_judge_spark_is_not_started(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_session(*_: Any, **__: Any) -> Any:
        raise AssertionError("Spark")

    monkeypatch.setattr("splitbrain.checkers.spark.session.session", no_session)
    words = ["analyze", "--store", str(tmp_path), "--json", "--engine", "spark", "--pages", "all"]
    done = CliRunner().invoke(command, words)
    assert (done.exit_code, done.exception) == (0, None)
    assert "Spark" not in done.stderr
    assert isinstance(CliRunner().invoke(command, [*words, "--again"]).exception, AssertionError)


# --- two at once ------------------------------------------------------------------------------------------------------


def test_a_run_that_another_process_finishes_meanwhile_is_recorded_as_it_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = crashed(Store(tmp_path), "t", 1, FINE, SET)
    basis_of, finished = stored.basis_of, list[LoadedRun]()

    def and_then_finished(*given: Any) -> Basis | None:
        found = basis_of(*given)
        if not finished:
            finished.append(stored.loaded(RunDir(run.path)))
        return found

    monkeypatch.setattr(stored, "basis_of", and_then_finished)
    _, basis = stored.loaded_on_basis(run, DEFAULT)
    assert basis is not None
    assert stored.is_basis(run, run.read_test(), basis, DEFAULT)


@pytest.mark.slow
def test_two_at_once_lose_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seed in range(1, 9):
        laid = crashed if seed % 2 else lay
        run = laid(store, f"t{seed % 3}", seed, LOST if seed == 4 else FINE, SET)
        run.amend_test(telemetry={"n1": "nodes/n1/telemetry.jsonl"}, began_wall_ns=WALL_NS)
        data = run.node_dir("n1") / "data"
        data.mkdir()
        for number in range(20):
            (data / f"segment-{number}").write_bytes(os.urandom(20_000))
    words = [
        sys.executable,
        *SPLITBRAIN,
        "analyze",
        "--again",
        "--json",
        "--pages",
        "all",
        "--engine",
        "inline",
        "--store",
        str(tmp_path),
    ]
    both = [
        subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for each in both:
        out, err = each.communicate(timeout=300)
        assert each.returncode == 1, err
        outcomes = [found["outcome"] for found in analyzed(out)]
        assert sorted(set(outcomes)) == ["inconclusive", "pass", "violation"], err
        assert outcomes.count("violation") == 1
    for run in store.runs():
        kept = run.read_verdicts()
        assert kept is not None
        assert record_of(kept) is not None
        assert (run.path / "report.html").read_text().rstrip().endswith("</html>")
        assert (run.path / "nodes" / "n1" / "data.tar.gz").exists()
        assert not (run.path / "nodes" / "n1" / "data").exists()
        listed = subprocess.run(
            ["tar", "-tzf", run.path / "nodes" / "n1" / "data.tar.gz"], capture_output=True, check=True
        )
        assert listed.stdout.count(b"segment-") == 20
        assert not run.wal_path.exists()
    assert list(tmp_path.rglob("*.tmp")) == []
    assert judged(tmp_path) == []


# --- pages ------------------------------------------------------------------------------------------------------------


def pages(root: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in root.glob("test=*/run=*/report.html")}


def rewritten(root: Path, before: dict[str, int]) -> set[str]:
    return {name for name, changed in pages(root).items() if before.get(name) != changed}


def test_pages_are_written_of_what_was_judged_and_of_its_siblings(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one, two = lay(store, "t", 1, LOST, SET), lay(store, "t", 2, FINE, SET)
    lay(store, "another", 3, FINE, SET)
    analyze(tmp_path)
    before = pages(tmp_path)
    assert len(before) == 3
    analyze(tmp_path)
    assert rewritten(tmp_path, before) == set()
    new = lay(store, "t", 4, LOST, SET)
    assert judged(tmp_path) == [new.path.name]
    assert rewritten(tmp_path, before) == {one.path.name, two.path.name, new.path.name}
    for run in (one, two):
        assert f"../run={new.name}/report.html" in (run.path / "report.html").read_text()
    before = pages(tmp_path)
    assert judged(tmp_path) == []
    assert rewritten(tmp_path, before) == set()


def cut_off(page: Path) -> None:
    page.write_text("cut off")


def remove(page: Path) -> None:
    page.unlink()


@pytest.mark.parametrize("spoil", [remove, cut_off])
def test_a_page_that_is_not_that_of_the_verdict_is_written_without_judging(
    run: RunDir, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    page = run.path / "report.html"
    before = page.read_text()
    spoil(page)
    assert judged(tmp_path) == []
    assert page.read_text() == before


def test_a_page_that_cannot_be_written_is_an_error_each_time_and_no_reason_to_judge(
    run: RunDir, tmp_path: Path
) -> None:
    (run.path / "report.html").unlink()
    (run.path / "report.html").mkdir()
    for _ in range(2):
        done = analyze(tmp_path)
        [found] = analyzed(done.stdout)
        assert (found["judged"], done.exit_code) == (False, 255)
        assert "could not be written" in done.stderr
    (run.path / "report.html").rmdir()
    assert analyze(tmp_path).exit_code == 0
    assert (run.path / "report.html").is_file()


@pytest.mark.slow
def test_siblings_are_read_once_for_all_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    runs = [lay(store, "t", seed, FINE, SET) for seed in range(1, 13)]
    analyze(tmp_path)
    read: list[Path] = []
    look: Callable[[Path], Any] = past._look  # pyright: ignore[reportPrivateUsage]

    def noted(path: Path) -> Any:
        read.append(path)
        return look(path)

    monkeypatch.setattr(past, "_look", noted)
    assert judged(tmp_path) == []
    assert sorted(read) == sorted(run.path for run in runs)


@pytest.mark.slow
def test_what_is_known_of_a_run_is_the_same_by_itself_and_among_all(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = [lay(store, "t", seed, LOST if seed % 2 else FINE, SET) for seed in range(1, 7)]
    analyze(tmp_path)
    siblings = past.Siblings(run.path for run in runs)
    for run in runs:
        view = past_view(run)
        assert past.past_of(view) == siblings.past_of(run.path)


def past_view(run: RunDir) -> Any:
    from splitbrain.results.report.run_view import load

    return load(run.path)


def test_a_run_whose_files_are_no_files_is_never_unchanged(run: RunDir) -> None:
    assert many.unchanged(run, DEFAULT) is not None
    (run.path / "marks.json").unlink(missing_ok=True)
    os.mkfifo(run.path / "marks.json")
    assert many.unchanged(run, DEFAULT) is None
    (run.path / "marks.json").unlink()
    (run.path / "marks.json").symlink_to("nowhere")
    assert many.unchanged(run, DEFAULT) is None
