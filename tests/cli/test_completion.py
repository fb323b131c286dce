"""What shells offer: in process, and asked by a real bash through the script that users install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem

from splitbrain.harness.cli.main import main, splitbrain
from splitbrain.harness.cli.shells import Bash
from splitbrain.workloads.catalogue import WORKLOADS
from tests.cli.support import SPLITBRAIN, environment

HEAVY = ("numpy", "pyarrow", "pyspark", "pandas", "numba", "rich", "asyncio", "docker")


def items(line: str) -> list[CompletionItem[str]]:
    """What is offered at the end of a command line, by a shell that leaves words whole."""
    words = line.split(" ")
    return Bash(splitbrain, {}, "splitbrain", "_SPLITBRAIN_COMPLETE").get_completions(words[1:-1], words[-1])


def offered(line: str) -> list[str]:
    return [each.value for each in items(line)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs, nights, plans and a matrix."""
    for test, run in (
        ("metadata-kill", "20260101T000000.000Z-1"),
        ("metadata-kill", "20260103T000000.000Z-3"),
        ("etcd-pause", "20260102T000000.000Z-2"),
    ):
        (tmp_path / "store" / f"test={test}" / f"run={run}").mkdir(parents=True)
    (tmp_path / "other" / "test=x" / "run=20250101T000000.000Z-9").mkdir(parents=True)
    (tmp_path / "store" / "nights" / "20260104T000000.000Z").mkdir(parents=True)
    (tmp_path / "stale.json").write_text('{"format": 1, "ops": []}')
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "night.toml").write_text("[axes]\n")
    (tmp_path / "known.toml").write_text("format = 1\n")
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_and_options() -> None:
    assert offered("splitbrain nig") == ["nightly"]
    assert {"run", "check", "completion"} <= set(offered("splitbrain "))
    assert "--no-config" in offered("splitbrain --no")
    assert "--workload" in offered("splitbrain run --work")
    assert "status" in offered("splitbrain cluster ctl sta")


def test_every_workload_is_offered_with_its_line() -> None:
    assert set(offered("splitbrain run --workload ")) == set(WORKLOADS)
    [item] = items("splitbrain run -w list-a")
    assert (item.value, item.help) == ("list-append", WORKLOADS["list-append"][1])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("splitbrain run --nemesis partition-ri", ["partition-ring"]),
        ("splitbrain run --nemesis kill,partition-ri", ["kill,partition-ring"]),
        ("splitbrain run --nemesis partition:2,kill-al", ["partition:2,kill-all"]),
        ("splitbrain hunt --workload set,ban", ["set,bank"]),
        ("splitbrain hunt --nemesis=kill,partition-ri", ["kill,partition-ring"]),
        ("splitbrain run --system etc", ["etcd"]),
        ("splitbrain run --backend doc", ["docker"]),
        ("splitbrain run --world slow-c", ["slow-cpu"]),
        ("splitbrain run --bug M2,M3", [f"M2,{each}" for each in ("M30", "M31", "M32", "M32B", "M32C", "M33", "M34")]),
        ("splitbrain run --settings snapshot-i", ["snapshot-interval="]),
        ("splitbrain run --system postgresql --isolation read", ["read-committed"]),
        ("splitbrain run --consistency-model serializable,snapshot", ["serializable,snapshot-isolation"]),
        ("splitbrain run --engine s", ["spark"]),
        ("splitbrain run --system etcd --read-mode s", ["serializable"]),
        ("splitbrain check --model cas-", ["cas-register"]),
        ("splitbrain check --checker votes", ["votes"]),
        ("splitbrain check --format por", ["porcupine"]),
        ("splitbrain list nem", ["nemeses"]),
        ("splitbrain completion f", ["fish"]),
    ],
)
def test_values(line: str, wanted: list[str]) -> None:
    found = offered(line)
    assert found[: len(wanted)] == wanted
    last = line.rpartition(" ")[2].partition("=")[2] if "=" in line else line.rpartition(" ")[2]
    assert all(each.startswith(last) for each in found)


def test_what_a_list_has_already_is_not_offered_again() -> None:
    assert "kill,kill" not in offered("splitbrain run --nemesis kill,")
    assert "kill:2,kill" not in offered("splitbrain run --nemesis kill:2,")


def test_bugs_are_those_of_the_system_that_is_named() -> None:
    assert "M23" in offered("splitbrain run --bug ")
    assert "M23" not in offered("splitbrain run --system etcd --bug ")


@pytest.mark.usefixtures("folder")
def test_runs_of_the_store_that_is_named_the_latest_first() -> None:
    runs = ["latest", "20260103T000000.000Z-3", "20260102T000000.000Z-2", "20260101T000000.000Z-1"]
    for command in ("replay", "shrink", "analyze", "report", "check", "export", "push"):
        assert offered(f"splitbrain {command} ")[:4] == runs
    assert offered("splitbrain analyze --store other 2025") == ["20250101T000000.000Z-9"]
    assert items("splitbrain replay 20260102")[0].help == "etcd-pause"


@pytest.mark.usefixtures("folder")
def test_plans_nights_tests_and_matrices() -> None:
    assert offered("splitbrain replay st") == ["stale.json"]
    assert "package.json" not in offered("splitbrain replay ")
    assert offered("splitbrain nightly ") == ["night.toml"]
    assert offered("splitbrain compare etcd") == ["etcd-pause"]
    for command in ("compare", "push"):
        assert offered(f"splitbrain {command} night:") == ["night:latest", "night:20260104T000000.000Z"]
    assert [each.type for each in items("splitbrain compare store/n")] == ["file"]
    assert "night:latest" not in offered("splitbrain push --store other ")


@pytest.mark.usefixtures("folder")
def test_a_file_is_left_to_the_shell() -> None:
    for line in ("splitbrain replay ./x", "splitbrain run --schedule ", "splitbrain nightly night.toml --baseline "):
        assert [each.type for each in items(line)] == ["file"]
    assert [each.type for each in items("splitbrain run --store ")] == ["dir"]


@pytest.mark.usefixtures("folder")
def test_a_store_of_the_file_with_defaults_counts_and_a_broken_file_harms_nothing(folder: Path) -> None:
    (folder / "splitbrain.toml").write_text('store = "other"\n')
    assert offered("splitbrain analyze 2") == ["20250101T000000.000Z-9"]
    (folder / "splitbrain.toml").write_text("[run]\nnope = 1\n")
    assert offered("splitbrain run --backend si") == ["sim"]


def test_a_wrong_line_is_completed_all_the_same() -> None:
    assert offered("splitbrain run --nodes 3 --nodes 4 --backend si") == ["sim"]
    assert offered("splitbrain nope --backend si") == []


# --- a real bash ------------------------------------------------------------------------------------------------------


def program(tmp_path: Path) -> Path:
    """A folder with the program."""
    file = tmp_path / "bin" / "splitbrain"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\nexec {sys.executable} {SPLITBRAIN[0]} '{SPLITBRAIN[1]}' \"$@\"\n")
    file.chmod(0o755)
    return file.parent


def by_bash(tmp_path: Path, line: str) -> list[str]:
    """What bash puts into COMPREPLY for a command line, through the script that it has sourced."""
    folder = program(tmp_path)
    source = f"""
    compopt() {{ echo "compopt $*" >&2; }}
    eval "$(splitbrain completion bash)"
    COMP_LINE='{line}' COMP_POINT={len(line)}
    COMP_WORDS=({line}) COMP_CWORD=0
    _splitbrain_completion splitbrain '' ''
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", source],
        cwd=tmp_path,
        env=environment(PATH=f"{folder}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        check=True,
    )
    return [*done.stdout.split(), *done.stderr.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("splitbrain run --workload list-a", ["list-append"]),
        ("splitbrain run --nemesis kill,partition-ri", ["kill,partition-ring", "compopt -o nospace"]),
        # bash replaces what follows its word breaks : and =
        ("splitbrain run --nemesis partition:2,kill-al", ["2,kill-all", "compopt -o nospace"]),
        ("splitbrain compare night:la", ["latest"]),
        ("splitbrain run --nemesis=pause-al", ["pause-all", "compopt -o nospace"]),
        ("splitbrain run --settings snapshot-interval=4,wal-b", ["4,wal-bytes=", "compopt -o nospace"]),
        ("splitbrain run --schedule ", ["compopt -o default"]),
        ("splitbrain run --nodes 3 --nodes 4 --backend si", ["sim"]),
        ("splitbrain replay la", ["latest"]),
    ],
)
def test_bash_completes_values(tmp_path: Path, line: str, wanted: list[str]) -> None:
    (tmp_path / "store" / "nights" / "20260104T000000.000Z").mkdir(parents=True)
    assert by_bash(tmp_path, line) == wanted


def ask(words: str, cword: str, shell: str) -> subprocess.CompletedProcess[str]:
    """Ask as the scripts of click do."""
    return subprocess.run(
        [sys.executable, *SPLITBRAIN],
        env=environment(_SPLITBRAIN_COMPLETE=f"{shell}_complete", COMP_WORDS=words, COMP_CWORD=cword),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_zsh_and_fish_get_values_with_their_lines() -> None:
    done = ask("splitbrain run --workload list-a", "3", "zsh")
    assert done.returncode == 0
    assert done.stdout.split("\n")[:3] == ["plain", "list-append", WORKLOADS["list-append"][1]]
    done = ask("splitbrain run --nemesis kill,partition-ri", "kill,partition-ri", "fish")
    assert done.stdout.splitlines()[0].startswith("plain,kill,partition-ring\tevery node sees a majority")
    done = ask("splitbrain run --workload=list-a", "--workload=list-a", "fish")
    assert done.stdout.startswith("plain,--workload=list-append\t")


@pytest.mark.parametrize(
    ("shell", "line"), [("bash", "complete -o nosort"), ("zsh", "compdef"), ("fish", "complete --")]
)
def test_each_shell_gets_its_script(shell: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert line in text
    assert f"_SPLITBRAIN_COMPLETE={shell}_complete" in text
    if shell == "fish":  # a value may have commas
        assert 'string split -m 1 ","' in text


@pytest.mark.slow
def test_a_completion_imports_nothing_heavy_and_is_soon_there(tmp_path: Path) -> None:
    program = f"""
import sys
from splitbrain.harness.cli.main import main
try:
    main()
except SystemExit as ended:
    print("exit", ended.code)
print("loaded", sorted({set(HEAVY)!r} & set(sys.modules)))
"""
    for words in ("splitbrain run --nemesis kill,pa", "splitbrain replay la", "splitbrain run --system etcd --bug M"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=environment(
                _SPLITBRAIN_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1)
            ),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-2:] == ["exit 0", "loaded []"]
