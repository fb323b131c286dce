"""Wrong requests: one clear line, exit code 254, nothing written and nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, client_count, command_line, compose, node_names
from splitbrain.nemesis.schedule import Schedule
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from splitbrain.results.store import Store
from tests.cli.support import SPLITBRAIN, environment, lines, splitbrain

OPTIONS = {
    "workload": "register",
    "nemesis": "partition,kill",
    "system": "metadata",
    "backend": "local",
    "bug": "",
    "nodes": "5",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 30.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 7,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--workload", "registre"], "Did you mean 'register'?"),
        (["run", "--nemesis", "partition,earthquake"], "there is no nemesis 'earthquake'"),
        (["run", "--bug", "M999"], "there is no bug 'M999' of system 'metadata'"),
        (["run", "--nemesis", ""], "--nemesis is empty"),
        (["run", "--engine", "spark", "--master", "moon"], "'moon' is no Spark master"),
        (["run", "--system", "oracle"], "there is no system 'oracle'"),
        (["run", "--backend", "moon"], "there is no backend 'moon'"),
        (["run", "--nodes", "0"], "a test needs 1 to 100 nodes"),
        (["run", "--nodes", "n1,n1"], "names 'n1' twice"),
        (["run", "--concurrency", "0"], "--concurrency 0"),
        (["run", "--rate", "-5"], "rate must be positive"),
        (["run", "--nodes", ""], "a test needs at least one node"),
        (["run", "--rate", "nan"], "rate must be positive, not nan"),
        (["run", "--rate", "inf"], "rate must be at most 1,000,000, not inf"),
        (["run", "--burst", "9" * 400], "burst must be at most 10,000, not far more"),
        (["run", "--time-limit", "nan"], "time limit must be positive, not nan"),
        (["run", "--time-limit", "1e12"], "time limit must be at most 1,000,000"),
        (["run", "--op-timeout", "inf"], "op timeout must be at most"),
        (["run", "--recovery", "nan"], "recovery must be positive"),
        (["run", "--progress-bound", "0"], "progress bound must be positive"),
        (["run", "--availability", "95"], "give a share of the seconds, 0 to 1"),
        (["run", "--availability", "nan"], "give a share of the seconds, 0 to 1"),
        (["run", "--concurrency", "99999999"], "concurrency must be at most 1,000"),
        (["run", "--seed", "9" * 30], "the seed must be a whole number from 0 to 2^63 - 1"),
        (["cluster", "ctl"], "Missing command"),
        (["cluster", "ctl", "gte", "/x"], "No such command 'gte'"),
        (["cluster", "ctl", "get", "/x", "1"], "unexpected extra argument"),
        (["check", "--format", "jsonl", os.devnull], "has no client operation"),
        (["check", "faults.jsonl"], "faults.jsonl: has no client operation: there is nothing to judge"),
        (["run", "--time-limit", "soon"], "'soon' is not a valid float"),
        (["run", "--engine", "abacus"], "'abacus' is not one of"),
        (["explode"], "No such command 'explode'"),
        (["analyze"], "there is no run"),
        (["analyze", "yesterday"], "there is no run"),
        (["report"], "there is no run"),
        (["check", "nothing.jsonl"], "nothing.jsonl: there is no such file"),
        (["check", "--model", "regster", "history.jsonl"], "there is no model 'regster'"),
        (["check", "--checker", "cheker", "history.jsonl"], "there is no checker 'cheker'"),
        (["cluster", "status"], "no cluster is up"),
        (["list", "wrokloads"], "'wrokloads' is not one of"),
    ],
)
def test_a_wrong_request_is_one_clear_line_and_writes_nothing(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "history.jsonl").write_text('{"process":0,"type":"invoke","f":"read"}\n')
    (tmp_path / "faults.jsonl").write_text('{"process":"nemesis","type":"info","f":"kill"}\n')
    done = splitbrain(*arguments, cwd=tmp_path)
    assert done.returncode == 254, done.stderr
    assert says in done.stderr
    assert len(lines(done.stderr)) == 1
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["faults.jsonl", "history.jsonl"]


def test_an_answer_that_nobody_reads_is_no_violation(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, *SPLITBRAIN, "list", "workloads"],
        cwd=tmp_path,
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode == 255
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_fault_that_the_backend_cannot_inject_is_refused_before_anything_starts(tmp_path: Path) -> None:
    program = (
        "from splitbrain.harness.backends.local import LocalBackend\n"
        "from splitbrain.harness.contract.faults import Support\n"
        "real = LocalBackend.support\n"
        "LocalBackend.support = lambda self: {**real(self), 'cut': Support(False, 'no nftables')}\n"
        "from splitbrain.harness.cli.main import main; main(['run', '--nemesis', 'partition', '--time-limit', '5'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 254
    assert "the local backend cannot inject 'cut' here: no nftables. Leave partition out of --nemesis." in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_history_file_cut_in_half_is_named_with_its_line(tmp_path: Path) -> None:
    whole = '{"process":0,"type":"invoke","f":"read"}\n{"process":0,"type":"ok","f":"read","value":3}\n'
    (tmp_path / "half.jsonl").write_text(whole[:-9])
    done = splitbrain("check", "half.jsonl", cwd=tmp_path)
    assert done.returncode == 254
    assert "half.jsonl:2:" in done.stderr
    assert len(lines(done.stderr)) == 1


@pytest.mark.slow
def test_a_parquet_file_cut_in_half_is_refused_and_kept(tmp_path: Path) -> None:
    run = _stored_run(tmp_path)
    content = (run / "history.parquet").read_bytes()
    (run / "history.parquet").write_bytes(content[: len(content) // 2])
    for arguments, code in ((["check", str(run / "history.parquet")], 254), (["analyze", "--engine", "inline"], 255)):
        done = splitbrain(*arguments, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert "history.parquet" in done.stderr
        assert (run / "history.parquet").read_bytes() == content[: len(content) // 2]
        assert not (run / "verdict.json").exists()


@pytest.mark.slow
def test_a_run_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    run = _stored_run(tmp_path)
    document = json.loads((run / "test.json").read_text())
    (run / "test.json").write_text(json.dumps({**document, "format": 99}))
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    for arguments, code in ((["analyze", "--engine", "inline"], 255), (["report"], 254), (["check", str(run)], 254)):
        done = splitbrain(*arguments, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert "format 99" in done.stderr
        assert "upgrade splitbrain" in done.stderr
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def _stored_run(folder: Path) -> Path:
    document: dict[str, Any] = {"checkers": [{"name": "stats", "options": {}}]}
    run = Store(folder / "store").create("example", 1, document, 10**18)
    writer = run.history_writer()
    for index in range(200):
        writer.record(Op(index=index, time=index, process=0, type="ok" if index % 2 else "invoke", f="read"))
    run.finish_history()
    run.release()
    return run.path


def test_help_teaches_without_loading_anything_heavy() -> None:
    program = (
        "import sys\n"
        "from splitbrain.harness.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as exit: assert exit.code == 0\n"
        "heavy = {'numpy', 'pyarrow', 'numba', 'pyspark', 'pandas', 'rich', 'msgspec', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for command in ("run", "check", "analyze", "list", "doctor", "report", "cluster"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.slow
def test_every_command_has_help_of_its_own() -> None:
    for command in ("run", "check", "analyze", "list", "doctor", "report", "cluster", "demo", "prepare"):
        done = splitbrain(command, "--help")
        assert done.returncode == 0, done.stderr
        assert f"Usage: splitbrain {command}" in done.stdout


def test_the_printed_command_composes_the_same_test_again() -> None:
    chosen = RunOptions.of(**{**OPTIONS, "bug": "M17,M23", "nodes": "a,b,c", "rate": 12.5, "interval": 2.0})
    words = command_line(chosen).split()
    assert words[:2] == ["splitbrain", "run"]
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given["--bug"] == "M17,M23"
    assert given["--nodes"] == "a,b,c"
    assert given["--rate"] == "12.5"
    assert given["--interval"] == "2"
    assert given["--seed"] == "7"
    assert "--backend" not in given


def test_the_printed_command_leads_into_the_same_store_and_to_the_same_judge() -> None:
    chosen = RunOptions.of(**OPTIONS)
    assert command_line(chosen, "store") == command_line(chosen)
    given = command_line(chosen, Path("/data/my runs"), "spark", "local[2]")
    assert given == f"{command_line(chosen)} --store '/data/my runs' --engine spark --master 'local[2]'"


def test_a_test_is_composed_as_the_options_say() -> None:
    test = compose(RunOptions.of(**{**OPTIONS, "bug": "M23", "nodes": "3"}))
    assert test.nodes == ("n1", "n2", "n3")
    assert test.concurrency == 6
    assert test.bugs == ("M23",)
    assert test.name == "metadata-register-partition+kill-M23"
    assert test.nemesis.faults == {"cut", "kill"}


@pytest.mark.parametrize(
    ("asked", "models", "called"),
    [
        ("", ["strict-serializable"], "metadata-rw_register-partition+kill"),
        ("PL-2,causal", ["PL-2", "causal"], "metadata-PL_2-causal-rw_register-partition+kill"),
    ],
)
def test_transactions_are_judged_by_what_the_system_promises_or_by_what_is_asked_for(
    asked: str, models: list[str], called: str
) -> None:
    options = RunOptions.of(**{**OPTIONS, "workload": "rw-register", "consistency_model": asked})
    test = compose(options)
    (spec,) = [spec for spec in test.workload.checkers if spec.name == "rw-register"]
    assert spec.options["consistency_models"] == models
    assert test.name == called
    assert (f"--consistency-model {asked}" in command_line(options)) == bool(asked)


@pytest.mark.parametrize(
    ("workload", "model", "told"),
    [
        ("list-append", "serialisable", "there is no consistency model 'serialisable'"),
        ("list-append", "linearizable", "transactions cannot be judged by it"),
        ("predicates", "serializable,sequential", "transactions cannot be judged by it"),
        ("bank", "serializable", "is judged by a property of its own"),
        ("causal", "serializable", "is judged by a property of its own"),
    ],
)
def test_consistency_models_that_do_not_exist_or_do_not_apply_are_refused(workload: str, model: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        compose(RunOptions.of(**{**OPTIONS, "workload": workload, "consistency_model": model}))


@pytest.mark.parametrize(
    ("given", "fs"),
    [
        ({}, ["read", "write", "cas"]),
        ({"system": "etcd", "nemesis": "kill"}, ["read", "write", "cas"]),
        ({"system": "etcd", "nemesis": "kill", "read_mode": "serializable"}, ["write", "cas"]),
    ],
)
def test_who_has_elections_is_judged_by_quorum_progress_but_not_for_what_a_node_answers_alone(
    given: dict[str, Any], fs: list[str]
) -> None:
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    (spec,) = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
    assert spec.options["fs"] == fs
    assert spec.options["nodes"] == list(test.nodes)
    assert spec.options["election_timeout_s"] == test.system.election_timeout_s
    assert spec.options["op_timeout_s"] == test.op_timeout_s


def test_the_bounds_of_quorum_progress_are_the_tests_to_set_and_part_of_its_command() -> None:
    chosen = RunOptions.of(**{**OPTIONS, "progress_bound": 3.5, "availability": 0.95})
    test = compose(chosen)
    (spec,) = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
    assert spec.options["recovery_bound_s"] == 3.5
    assert test.quiet_s == 3.5, "members are waited for as long as they are judged by"
    assert spec.options["availability"] == 0.95
    assert "--progress-bound 3.5 --availability 0.95" in command_line(chosen)


def test_what_outages_add_is_the_systems_to_say_unless_the_test_sets_a_bound() -> None:
    etcd = {**OPTIONS, "system": "etcd", "nemesis": "kill"}
    for given, per_outage in ((OPTIONS, None), (etcd, 1.0), ({**etcd, "progress_bound": 3.5}, None)):
        test = compose(RunOptions.of(**given))
        (spec,) = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
        assert spec.options.get("recovery_per_outage") == per_outage


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 4.0),
        ({"nemesis": "partition,kill,pause,restart", "time_limit": 30.0}, 3.0),
        ({"nemesis": "partition,kill,pause,restart", "time_limit": 1.0}, 2.0),
        ({"nemesis": "partition,kill,pause,restart", "time_limit": 30.0, "backend": "sim"}, 4.0),
        ({"nemesis": "partition,kill,pause,restart", "time_limit": 30.0, "interval": 9.0}, 9.0),
    ],
)
def test_each_kind_of_fault_has_its_turn_in_a_short_run_on_real_nodes(given: dict[str, Any], seconds: float) -> None:
    schedule = compose(RunOptions.of(**{**OPTIONS, **given})).nemesis.generator
    assert isinstance(schedule, Schedule)
    assert schedule.interval_ns == seconds * 1e9


def test_a_seed_is_drawn_where_none_is_given() -> None:
    assert RunOptions.of(**{**OPTIONS, "seed": None}).seed != RunOptions.of(**{**OPTIONS, "seed": None}).seed


def test_node_names_and_client_counts() -> None:
    assert node_names("2") == ("n1", "n2")
    assert node_names("alpha, beta") == ("alpha", "beta")
    assert client_count("3n", 5) == 15
    assert client_count("7", 5) == 7
    for wrong in ("n-1", "../x", "1a,b"):
        with pytest.raises(UsageError):
            node_names(wrong)
    for wrong in ("n", "2m", "-1", ""):
        with pytest.raises(UsageError):
            client_count(wrong, 5)


def test_a_model_of_ones_own_is_found_in_the_folder_where_the_command_is_given(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from splitbrain.checkers.models import Register\nclass Mine(Register):\n    name = 'mine'\n"
    )
    (tmp_path / "history.jsonl").write_text(
        '{"process":0,"type":"invoke","f":"write","value":1}\n{"process":0,"type":"ok","f":"write","value":1}\n'
        '{"process":0,"type":"invoke","f":"read"}\n{"process":0,"type":"ok","f":"read","value":2}\n'
    )
    done = splitbrain("check", "--json", "--model", "mine:Mine", "history.jsonl", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)[0]["valid"] is False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["analyze", "report", "prune --keep 1", "clean", "replay latest", "shrink latest"])
def test_a_store_of_an_impossible_name_is_one_line(command: str, tmp_path: Path) -> None:
    done = splitbrain(*command.split(), "--store", "x" * 300, cwd=tmp_path)
    assert done.returncode == 254, done.stderr
    [line] = done.stderr.splitlines()
    assert "File name too long" in line


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["check", "report", "export", "replay", "shrink"])
def test_a_file_or_run_of_an_impossible_name_is_one_line(command: str, tmp_path: Path) -> None:
    done = splitbrain(command, "x" * 300, cwd=tmp_path)
    assert done.returncode == 254, done.stderr
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def test_a_folder_that_is_gone_is_named_as_that(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    program = f"import os; os.rmdir({str(here)!r}); {SPLITBRAIN[1]}"
    done = subprocess.run(
        [sys.executable, "-c", program, "list", "backends"],
        cwd=here,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = "splitbrain: the current folder is not there any more: change to another one.\n"
    assert (done.returncode, done.stderr, done.stdout) == (254, said, "")
