"""The plug-in for pytest: what a failing test prints is enough to repeat it, with xdist too; markers and options."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.harness.campaigns.pytesting import runs
from splitbrain.harness.campaigns.pytesting.combining import combinations, run_options, seed_of
from splitbrain.results.errors import UsageError
from splitbrain.results.stores import STORE
from tests.cli.support import ROOT, answer, splitbrain

pytest_plugins = ["pytester"]

PLUGIN = "splitbrain.harness.campaigns.pytesting.plugin"
INSTALLED = any(each.value == PLUGIN for each in importlib.metadata.entry_points(group="pytest11"))
LOAD = [] if INSTALLED else ["-p", PLUGIN]
"""In an environment that was installed before there was an entry point, the plug-in is named."""

SUITE = """
import pytest

QUICK = dict(nodes="3", rate=50, time_limit=6, interval=2)

@pytest.mark.splitbrain(workload="register", nemesis="partition-leader", bug=["", "M23"], seeds=[1], **QUICK)
def test_reads(splitbrain):
    splitbrain.run()

@pytest.mark.splitbrain(workload="register", nemesis="none", **QUICK)
def test_by_name(splitbrain, request):
    conclusion = splitbrain.run(check=False, time_limit=2)
    assert conclusion.run.read_test()["seed"] == splitbrain.seed

def test_program(splitbrain):
    from splitbrain.harness.campaigns.compose import compose
    from splitbrain.harness.campaigns.pytesting.combining import run_options
    test = compose(run_options(dict(QUICK, nemesis="none", time_limit=0.01), 7))
    splitbrain.run(splitbrain.with_seed(test))

def test_other():
    pass
"""


@pytest.mark.slow
def test_the_output_of_a_failing_test_is_enough_to_repeat_it_with_xdist(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_own=SUITE)
    found = pytester.runpytest_subprocess(*LOAD, "-n", "1", "--junitxml=junit.xml", "-rs", "-p", "no:cacheprovider")
    found.assert_outcomes(passed=3, failed=1, skipped=1)
    said = found.stdout.str()
    found.stdout.fnmatch_lines(
        [
            "*_ test_reads?M23? _*",
            "Read without a majority*",
            "*Not linearizable*",
            "witness of read-majority:",
            "witness of linearizable:",
            "  op *  read key * -> *",
            "signature *",
        ]
    )
    assert "Traceback" not in said
    assert re.search(r"SKIPPED .*Inconclusive", said)

    replay = re.search(r"^replay +(splitbrain .*)$", said, re.MULTILINE)
    again = re.search(r"^again +(splitbrain .*)$", said, re.MULTILINE)
    assert replay is not None
    assert again is not None
    repeated = answer(splitbrain(*shlex.split(replay[1])[1:], "--json"))
    assert (repeated["outcome"], repeated["same"]) == ("violation", 1)
    run = answer(splitbrain(*shlex.split(again[1])[1:], "--json"))
    assert run["outcome"] == "violation"

    cases = {case.get("name"): case for case in ET.parse(pytester.path / "junit.xml").getroot().iter("testcase")}
    properties = {each.get("name"): str(each.get("value")) for each in cases["test_reads[M23]"].iter("property")}
    assert Path(properties["report"]).is_file()
    assert Path(properties["report"]).is_relative_to(pytester.path / STORE)
    assert properties["replay"] == replay[1].strip()
    assert properties["signature"] == "read-majority/read-without-majority/leader/none"
    assert "property" not in ET.tostring(cases["test_other"], encoding="unicode")


@pytest.mark.slow
def test_a_wrong_marker_is_refused_at_collection_and_a_spent_budget_skips(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(
        test_wrong="import pytest\n@pytest.mark.splitbrain(wrkload='set')\ndef test_a(splitbrain): pass",
        test_budget="def test_b(splitbrain):\n    splitbrain.run()",
    )
    found = pytester.runpytest_subprocess(*LOAD, "test_wrong.py")
    found.stdout.fnmatch_lines(["*the marker splitbrain has no 'wrkload'. There are: *"])
    found = pytester.runpytest_subprocess(*LOAD, "test_budget.py", "--splitbrain-budget", "0.000001s", "-rs")
    found.assert_outcomes(skipped=1)
    found.stdout.fnmatch_lines(["*the budget of 1e-06 s is spent*"])


def test_the_plug_in_loads_nothing_heavy_and_adds_nothing_to_a_project_that_does_not_use_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    heavy = {"numpy", "pyarrow", "numba", "msgspec", "click", "jinja2", "splitbrain.results"}
    pytester.makepyfile(f"import sys\ndef test_a(): assert not {heavy!r} & set(sys.modules)")
    found = pytester.runpytest_subprocess(*LOAD, "-W", "error", "--junitxml=junit.xml")
    found.assert_outcomes(passed=1)
    assert "property" not in (pytester.path / "junit.xml").read_text()
    assert not (pytester.path / STORE).exists()


# --- what is run ------------------------------------------------------------------------------------------------------


def _given(**options: Any) -> Any:
    named = ("seed", "seeds", "backend", "budget", "store", "inconclusive")
    return SimpleNamespace(**{f"splitbrain_{name}": options.get(name) for name in named})


def _marker(*args: Any, **kwargs: Any) -> Any:
    return SimpleNamespace(args=args, kwargs=kwargs)


def _combined(*markers: Any, root: Path = Path(), **options: Any) -> list[tuple[str, int]]:
    found = combinations(markers, _given(**options), "t.py::test_a", root, always=True)
    return [(each.id, each.seed) for each in found or []]


def test_lists_of_a_marker_are_combined_with_seeds_and_the_command_line_decides() -> None:
    marker = _marker(workload=["register", "set"], nemesis=["kill"], seeds=[1, 2], backend="local")
    expected = [
        ("register-kill-seed1", 1),
        ("register-kill-seed2", 2),
        ("set-kill-seed1", 1),
        ("set-kill-seed2", 2),
    ]
    assert _combined(marker) == expected
    assert _combined(marker, seed="9") == [("register-kill", 9), ("set-kill", 9)]
    found = combinations([marker], _given(backend="sim", inconclusive="fail", budget="2m"), "t", Path())
    assert found is not None
    assert {(each.options["backend"], each.inconclusive, each.budget_s) for each in found} == {("sim", "fail", 120.0)}


def test_seeds_follow_from_the_name_of_the_test_so_that_all_processes_collect_the_same() -> None:
    assert _combined(seeds=2) == [
        (f"seed{seed}", seed) for seed in (seed_of("t.py::test_a", 0), seed_of("t.py::test_a", 1))
    ]
    assert _combined() == _combined()
    assert seed_of("t.py::test_a", 0) != seed_of("t.py::test_b", 0)
    assert combinations([], _given(), "t", Path()) is None


def test_the_nearest_marker_wins_and_adds_to_the_others() -> None:
    found = combinations(
        [_marker(workload="set"), _marker(workload="bank", nodes="3")], _given(), "t", Path(), always=True
    )
    assert found is not None
    assert found[0].options == {"workload": "set", "nodes": "3"}


def test_the_cells_of_a_nightly_matrix_are_tests(tmp_path: Path) -> None:
    text = '[axes]\nworkload = ["register", "set"]\nnemesis = "kill"\n[options]\nnodes = "3"\n'
    (tmp_path / "night.toml").write_text(text)
    marker = _marker(matrix="night.toml", seeds=[4], time_limit=2)
    ends = "kill-metadata-default-sim-none"
    assert _combined(marker, root=tmp_path) == [(f"register-{ends}", 4), (f"set-{ends}", 4)]
    found = combinations([marker], _given(), "t", tmp_path)
    assert found is not None
    options = run_options(found[1].options, found[1].seed)
    assert (options.workload, options.nodes, options.time_limit, options.seed) == ("set", "3", 2, 4)


@pytest.mark.parametrize(("given", "backend"), [(None, "docker"), ("local", "local")])
def test_a_backend_can_be_named_where_a_test_is_run_and_the_command_line_decides(
    monkeypatch: pytest.MonkeyPatch, given: str | None, backend: str
) -> None:
    class ComposedError(Exception):
        pass

    def compose(options: RunOptions) -> None:
        raise ComposedError(options.backend)

    monkeypatch.setattr(runs, "compose", compose)
    [chosen] = combinations([], _given(backend=given), "t", Path(), always=True) or []
    own = runs.Splitbrain(chosen, _given(backend=given), cast("pytest.Item", None), Path(), 0.0)
    with pytest.raises(ComposedError, match=backend):
        own.run(backend="docker")
    with pytest.raises(UsageError, match="backend='docker': a test needs a backend itself"):
        own.run(cast("Any", object()), backend="docker")


@pytest.mark.parametrize(
    ("marker", "options", "says"),
    [
        (_marker("register"), {}, "takes names only"),
        (_marker(seed=1), {}, "has no 'seed'"),
        (_marker(workload=[]), {}, r"workload=\[\] is empty"),
        (_marker(seeds=0), {}, "seeds=0: give a number from 1"),
        (_marker(seeds=True), {}, "seeds=True"),
        (_marker(seeds=[]), {}, "seeds is empty"),
        (_marker(seeds=[1, 1]), {}, "each once"),
        (_marker(), {"seed": "x"}, "--splitbrain-seed x"),
        (_marker(), {"seed": str(2**31)}, "from 0 to"),
        (_marker(inconclusive="pass"), {}, "give 'skip' or 'fail'"),
        (_marker(), {"budget": "soon"}, "no age"),
        (_marker(matrix="nope.toml"), {}, "cannot be read"),
    ],
)
def test_wrong_markers_and_options_are_refused(marker: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        _combined(marker, **options)


def test_a_wrong_option_of_a_run_is_refused() -> None:
    with pytest.raises(UsageError, match="an option of splitbrain is wrong"):
        run_options({"rate": "fast"}, 1)
