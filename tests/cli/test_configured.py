"""Defaults of options from splitbrain.toml and pyproject.toml: found, checked, shown, overridden, left out of runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

from splitbrain.harness.campaigns.compose import RunOptions, command_line
from splitbrain.harness.campaigns.configured import find
from splitbrain.harness.campaigns.nightly.cells import Cell, options_of_cell
from splitbrain.harness.cli.main import main, splitbrain
from splitbrain.results.errors import UsageError
from tests.cli.support import only_run


def parsed(*words: str) -> dict[str, object]:
    """The values that the options of a command line have."""
    with splitbrain.make_context("splitbrain", list(words)) as root:
        _, command, rest = splitbrain.resolve_command(root, list(words))
        assert command is not None
        with command.make_context(words[0], rest, parent=root) as context:
            return dict(context.params)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is printed on a command line that is refused."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 254
    return capsys.readouterr().err


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, in whose folder `deep/er` we are."""
    folder = tmp_path / "project"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".git").mkdir()
    monkeypatch.chdir(folder / "deep" / "er")
    return folder


def write(folder: Path, text: str, name: str = "splitbrain.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_command_has_the_defaults_of_its_table_and_the_command_line_overrides_them(project: Path) -> None:
    write(
        project,
        '[run]\nnodes = 3\nnemesis = ["kill", "pause:2"]\nrate = 20\n[hunt]\nnodes = "3,4"\nkeep-going = true\n',
    )
    found = parsed("run")
    assert (found["nodes"], found["nemesis"], found["rate"]) == ("3", "kill,pause:2", 20.0)
    found = parsed("run", "-n", "7", "--nemesis", "power")
    assert (found["nodes"], found["nemesis"], found["rate"]) == ("7", "power", 20.0)
    found = parsed("hunt")
    assert (found["nodes"], found["keep_going"]) == ("3,4", True)


def test_what_concerns_the_machine_holds_for_all_commands_that_have_it(project: Path) -> None:
    (project / "mine").mkdir()
    write(project, f'store = "{project}/mine"\njobs = 1\n[hunt]\njobs = 2\n')
    assert parsed("run")["store"] == f"{project}/mine"
    assert parsed("prune", "--keep", "1")["store"] == f"{project}/mine"
    assert parsed("hunt")["jobs"] == 2
    assert parsed("nightly", "x.toml")["jobs"] == 1


def test_tables_of_commands_in_groups(project: Path) -> None:
    write(project, "[cluster.up]\nnodes = 3\n[cluster.ctl]\ntimeout = 4\n")
    with splitbrain.make_context("splitbrain", ["cluster", "up"]) as root:
        group = splitbrain.get_command(root, "cluster")
        assert isinstance(group, click.Group)
        with group.make_context("cluster", ["up"], parent=root) as inner:
            up = group.get_command(inner, "up")
            ctl = group.get_command(inner, "ctl")
            assert up is not None
            assert ctl is not None
            with up.make_context("up", [], parent=inner) as context:
                assert str(context.params["nodes"]) == "3"
            with ctl.make_context("ctl", ["status"], parent=inner) as context:
                assert context.params["timeout"] == 4


def test_the_nearest_file_holds_and_none_above_the_project(project: Path) -> None:
    write(project.parent, "[run]\nnodes = 9\n")
    assert find() is None
    write(project, '[project]\nname = "x"\n[tool.splitbrain.run]\nnodes = 3\n', "pyproject.toml")
    assert parsed("run")["nodes"] == "3"
    write(project, "[run]\nnodes = 4\n")
    assert parsed("run")["nodes"] == "4"
    write(project / "deep", '[project]\nname = "splitbrain"\n', "pyproject.toml")
    assert parsed("run")["nodes"] == "4"
    write(project / "deep", "[tool.splitbrain]\n", "pyproject.toml")
    assert parsed("run")["nodes"] is None


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (
            "[run]\nnode = 3\n",
            ["run"],
            "splitbrain.toml, line 2: splitbrain run has no option 'node'. Did you mean 'nodes'?",
        ),
        ("[rum]\nnodes = 3\n", ["run"], "splitbrain.toml, line 1: there is no command 'rum'. Did you mean 'run'?"),
        ("nodes = 3\n", ["run"], "line 1: nodes is not an option of all commands: write it below a command"),
        ("[run]\n\nrate = 'fast'\n", ["run"], "line 3: rate = 'fast': give a number."),
        ("[run]\nrate = true\n", ["run"], "line 2: rate = True: give a number."),
        ("[run]\nburst = 1.5\n", ["run"], "line 2: burst = 1.5: give a whole number."),
        ("[run]\nnemesis = {a = 1}\n", ["run"], "line 2: nemesis = {'a': 1}: give a text, a number or a list of them."),
        ("[run]\nnemesis = []\n", ["run"], "line 2: nemesis = []: give a text"),
        ("[hunt]\nkeep-going = 1\n", ["hunt"], "line 2: keep-going = 1: give true or false."),
        (
            "[hunt]\nno-shrink = true\n",
            ["hunt"],
            "line 2: splitbrain hunt has no option 'no-shrink'. Did you mean 'shrink'?",
        ),
        ("[check]\nindependent = 'ja'\n", ["check", "x"], "line 2: independent = 'ja': 'ja' is not one of"),
        ("run = 3\n", ["run"], "line 1: run is a command, so this is a table: write [run]."),
        ("[cluster]\nup = 3\n", ["cluster", "up"], "line 2: up is a command, so this is a table: write [cluster.up]."),
        ("[cluster]\nnodes = 3\n", ["cluster", "up"], "line 2: splitbrain cluster has no option 'nodes'."),
        ("[cluster.ctl.reset]\nyes = true\n", ["cluster", "ctl", "reset", "n1"], "line 2: yes cannot have a default"),
        ("[run]\nbackend = 'sim'\nconcurrency = '5m'\n", ["run"], "(it stands in ../../splitbrain.toml, line 3)"),
        (
            "[run]\nbug = ''\n",
            ["run"],
            "--bug '' is empty: remove it, or give a value. (it stands in ../../splitbrain.toml",
        ),
        ("[analyze]\nconf = ['x=1']\n", ["analyze"], "is no property of Spark: give spark.NAME=VALUE. (it stands in"),
        ("[run]\nnodes = 3\nnodes = 4\n", ["run"], "splitbrain.toml is not TOML"),
    ],
)
def test_a_mistake_is_refused_with_file_line_and_cure(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str], said: str
) -> None:
    write(project, text)
    assert said in refused(capsys, *words)


def test_a_value_of_the_file_that_a_command_refuses_is_named_with_its_place(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, "[run]\nworkload = 'regster'\n")
    assert "splitbrain.toml, line 2" in refused(capsys, "run")
    assert "splitbrain.toml" not in refused(capsys, "run", "--workload", "regster")


def test_help_says_where_a_default_is_from(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, "[run]\nnodes = 3\nrate = 20\n")
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "[default: 3, by ../../splitbrain.toml, line 2]" in text
    assert "[default: 20, by ../../splitbrain.toml, line 3]" in text
    assert "[default: 5, or those of --hosts]" not in text
    assert "[default: 100.0]" not in text


def test_the_file_is_left_out_by_an_option_and_by_a_variable(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, "this is no TOML")
    with pytest.raises(UsageError, match="not TOML"):
        parsed("run")
    with splitbrain.make_context("splitbrain", ["--no-config", "run"]) as root:
        run = splitbrain.get_command(root, "run")
        assert run is not None
        assert run.make_context("run", [], parent=root).params["nodes"] is None
    monkeypatch.setenv("SPLITBRAIN_NO_CONFIG", "1")
    assert parsed("run")["nodes"] is None


def test_a_run_is_stored_with_what_was_in_force_and_its_command_does_not_need_the_file(project: Path) -> None:
    """The command that is printed gives the same test with another file, and with none."""
    file = write(project, '[run]\nbackend = "sim"\nnodes = 3\ntime-limit = 2\nworld = "wan"\nnemesis = "none"\n')
    with pytest.raises(SystemExit):
        main(["run", "--seed", "5", "--store", "first"])
    document = json.loads((only_run(Path("first")) / "test.json").read_text())
    wanted = {"backend": "sim", "nodes": "3", "time_limit": 2.0, "world": "wan", "nemesis": "none", "seed": 5}
    assert document["options"].items() >= wanted.items()
    words = shlex.split(document["command"])
    assert words[:3] == ["splitbrain", "--no-config", "run"]
    file.write_text("[run]\nnodes = 7\nconcurrency = 1\n")
    with pytest.raises(SystemExit):
        main(["second" if each == "first" else each for each in words[1:]])
    again = json.loads((only_run(Path("second")) / "test.json").read_text())
    assert again["options"] == document["options"]
    first, second = (only_run(Path(each)) / "history.parquet" for each in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_what_has_no_effect_beside_the_command_line_is_as_if_it_were_not_in_the_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, '[run]\nkeep-data = "1M"\nworld = "wan"\nbackend = "local"\n')
    with pytest.raises(SystemExit):
        main(["run", "--backend", "sim", "--seed", "5", "--time-limit", "1", "--nodes", "3", "--nemesis", "none"])
    assert "keep-data" not in capsys.readouterr().out
    document = json.loads((only_run(Path("store")) / "test.json").read_text())
    assert (document["options"]["world"], document["options"]["keep_data"]) == ("wan", "256M")


def test_commands_are_printed_plainly_where_no_file_changes_what_they_do(project: Path) -> None:
    options = options_of_cell(Cell("register", "kill"), {}, 1)
    assert isinstance(options, RunOptions)
    assert command_line(options).startswith("splitbrain run ")
    file = write(project, "[hunt]\nnodes = 3\n")
    assert command_line(options).startswith("splitbrain run ")
    file.write_text("[run]\nnodes = 3\n")
    assert options_of_cell(Cell("register", "kill"), {}, 1) == options  # nights and pytest do not read it
    assert command_line(options).startswith("splitbrain --no-config run ")
    file.write_text("[run")
    assert command_line(options).startswith("splitbrain --no-config run ")
