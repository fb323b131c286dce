"""elle-cli beside our own checker. A script stands in for the jar: what is tested is how its output is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from splitbrain.harness.cli.main import splitbrain
from splitbrain.harness.cli.oracle import JAR_VARIABLE, Answer, answer_of, ask, command_of, differences
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HarnessError, UsageError
from splitbrain.results.history import Mop, Op

ANALYSIS = """INFO  elle.core - searching
{"valid?":false,
 "anomaly-types":["G1c", "G0"],
 "anomalies":{"G0":[{"cycle":[]}]},
 "not":["read-uncommitted"],
 "also-not":["serializable", "read-committed"]}
"""


def script(folder: Path, body: str) -> list[str]:
    """A stand-in for `java -jar elle-cli.jar`."""
    path = folder / "oracle"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return [str(path)]


def test_an_analysis_is_found_behind_what_libraries_log() -> None:
    expected = Answer("false", ("G0", "G1c"), ("read-uncommitted",), ("read-committed", "serializable"))
    assert answer_of(ANALYSIS) == expected
    assert answer_of('{"valid?":true}\n') == Answer("true")
    assert answer_of('{"valid?":"unknown", "anomaly-types":["empty-transaction-graph"]}').valid == "unknown"
    with pytest.raises(HarnessError, match="printed no analysis"):
        answer_of("history.edn \t false\n")


def test_it_is_given_the_history_as_edn(tmp_path: Path) -> None:
    mops = (Mop("append", "x", 1),)
    ops = [Op(index=at, time=at, process=0, type=kind, f="txn", mops=mops) for at, kind in enumerate(("invoke", "ok"))]
    seen_at = tmp_path / "seen"
    body = f'printf "%s\\n" "$@" > {seen_at}; cat "$7" >> {seen_at}; echo \'{{"valid?":true}}\''
    command = script(tmp_path, body)
    assert ask(command, to_table(ops), "list-append", "serializable") == Answer("true")
    seen = seen_at.read_text()
    assert "--model\nlist-append\n--consistency-models\nserializable\n--output\njson\n" in seen
    assert ':value [[:append "x" 1]]' in seen
    with pytest.raises(HarnessError, match=r"exit code 255: java\.lang\.Error"):
        ask(script(tmp_path, "echo java.lang.Error >&2; exit 255"), to_table(ops), "list-append", "serializable")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    jar = tmp_path / "elle.jar"
    for environment, problem in (
        ({}, f"set {JAR_VARIABLE}"),
        ({JAR_VARIABLE: str(jar)}, "which is no file"),
    ):
        with pytest.raises(UsageError, match=problem):
            command_of(environment)
    jar.touch()
    with pytest.raises(UsageError, match="there is no java"):
        command_of({JAR_VARIABLE: str(jar), "PATH": str(tmp_path)})


def test_differences_are_told_both_ways() -> None:
    answer = Answer("false", ("G0",), ("read-uncommitted",))
    assert differences(answer, "false", ["G0"], ["read-uncommitted"]) == []
    assert differences(answer, "true", ["G1a"], []) == [
        "elle-cli says false, splitbrain says true",
        "only elle-cli names the anomalies G0",
        "only splitbrain names the anomalies G1a",
        "only elle-cli rules out read-uncommitted",
    ]


SKEW = (
    ('[["r","x",null],["append","y",1]]', '[["r","x",[]],["append","y",1]]'),
    ('[["r","y",null],["append","x",1]]', '[["r","y",[]],["append","x",1]]'),
)
SEEN = ('[["r","x",null],["r","y",null]]', '[["r","x",[1]],["r","y",[1]]]')


def history(folder: Path) -> str:
    """A file with a write skew: a violation of serializability, and none of snapshot isolation."""
    ops = [(place, kind, each[kind == "ok"]) for kind in ("invoke", "ok") for place, each in enumerate(SKEW)]
    ops += [(2, "invoke", SEEN[0]), (2, "ok", SEEN[1])]
    lines = [f'{{"process":{place},"type":"{kind}","f":"txn","value":{value}}}' for place, kind, value in ops]
    (folder / "skew.json").write_text(f"[{','.join(lines)}]")
    return str(folder / "skew.json")


@pytest.mark.parametrize(
    ("model", "verdict", "missing", "failed"),
    [("serializable", "INVALID ", 1, 1), ("snapshot-isolation", "valid   ", 254, 255)],
)
def test_our_verdict_is_told_before_what_keeps_elle_cli_from_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, verdict: str, missing: int, failed: int
) -> None:
    arguments = ["check", "--workload", "list-append", "--consistency-model", model, "--oracle", "elle-cli"]
    arguments += ["--no-picture", history(tmp_path)]
    monkeypatch.delenv(JAR_VARIABLE, raising=False)
    found = CliRunner().invoke(splitbrain, arguments)
    assert found.stdout.startswith(verdict)
    assert found.stderr.endswith(
        f"splitbrain: --oracle elle-cli: set {JAR_VARIABLE} to its jar (github.com/ligurio/elle-cli).\n"
    )
    assert found.exit_code == missing
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho java.lang.Error >&2\nexit 255\n")
    java.chmod(0o755)
    monkeypatch.setenv(JAR_VARIABLE, str(java))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = CliRunner().invoke(splitbrain, arguments)
    assert found.stdout.startswith(verdict)
    assert found.stderr.endswith("skew.json: elle-cli failed with exit code 255: java.lang.Error.\n")
    assert found.exit_code == failed


def test_a_version_that_does_not_know_the_new_option_is_asked_with_the_old_one(tmp_path: Path) -> None:
    table = to_table([])
    for refusal in ('echo "Unknown option: \\"--output\\""; exit 1', "echo; echo File not found: json >&2; exit 255"):
        body = f"""case "$*" in
*--verbose*) echo '{{"valid?":true}}';;
*) {refusal};;
esac"""
        assert ask(script(tmp_path, body), table, "list-append", "serializable") == Answer("true")


def test_what_it_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    body = "echo 'Model list-append does not match this history: op at :index 0' >&2; exit 1"
    with pytest.raises(HarnessError, match="does not match this history"):
        ask(script(tmp_path, body), to_table([]), "list-append", "serializable")
    with pytest.raises(HarnessError, match="It says: no output"):
        ask(script(tmp_path, "exit 1"), to_table([]), "list-append", "serializable")
