"""The matrix file: which cells it makes, and that each mistake in it is refused with its line."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from splitbrain.harness.campaigns.nightly.budget import Shares
from splitbrain.harness.campaigns.nightly.cells import Cell, fresh_seeds, impossible
from splitbrain.harness.campaigns.nightly.matrix import Matrix, load_matrix
from splitbrain.results.baseline import Baseline
from splitbrain.results.errors import UsageError

TEXT = """format = 1
budget = "30m"
fixed-after = 2

[axes]
workload = ["register", "set"]
nemesis = ["kill", "partition"]
version = ["default", "snapshots"]
backend = ["sim", "local"]

[options]
nodes = "3"
time-limit = 5

[versions.snapshots]
settings = "snapshot-interval=16"
rate = 20

[seeds]
fixed = [1, 2]

[[exclude]]
backend = "local"
nemesis = ["kill"]

[[weight]]
backend = "local"
weight = 3

[[weight]]
workload = "set"
weight = 0.5
"""


def _load(tmp_path: Path, text: str = TEXT) -> Matrix:
    path = tmp_path / "night.toml"
    path.write_text(text)
    return load_matrix(path)


def test_the_files_in_the_documentation_are_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "nightly.md").read_text()
    matrix, known = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "known.toml").write_text(known)
    found = _load(tmp_path, matrix)
    assert len(found.cells) == 3 * 3 * 2 * 2 - 3 * 2
    assert found.baseline == tmp_path / "known.toml"
    assert all(impossible(found.options(cell, 1)) is None for cell in found.cells if cell.backend == "sim")
    [entry] = Baseline.load(tmp_path / "known.toml").entries
    assert entry.beside == ("quorum-progress/*",)


def test_the_cells_are_all_combinations_without_those_that_are_left_out(tmp_path: Path) -> None:
    matrix = _load(tmp_path)
    assert len(matrix.cells) == 2 * 2 * 2 * 2 - 4
    assert not [cell for cell in matrix.cells if cell.backend == "local" and cell.nemesis == "kill"]
    assert matrix.cells[0].name == "register/kill/metadata/default/sim/none"
    assert (matrix.budget_s, matrix.file.fixed_after, matrix.disk_bytes) == (1800.0, 2, 2 << 30)


def test_a_version_is_a_set_of_options_and_weights_multiply(tmp_path: Path) -> None:
    matrix = _load(tmp_path)
    plain = matrix.options(Cell("set", "kill"), 7)
    assert (plain.nodes, plain.time_limit, plain.rate, plain.settings, plain.bug, plain.seed) == (
        "3",
        5,
        100,
        "",
        "",
        7,
    )
    version = matrix.options(Cell("set", "kill", version="snapshots", bug="M23"), 7)
    assert (version.settings, version.rate, version.bug) == ("snapshot-interval=16", 20, "M23")
    assert impossible(version) is None
    assert matrix.weight(Cell("set", "partition", backend="local")) == 1.5


def test_numbers_of_nodes_and_clients_are_written_as_numbers_or_texts(tmp_path: Path) -> None:
    matrix = _load(tmp_path, TEXT.replace('nodes = "3"', "nodes = 3\nconcurrency = 4"))
    found = matrix.options(Cell("set", "kill"), 7)
    assert (found.nodes, found.concurrency) == ("3", "4")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"30m"', '"soon"', "line 2: budget 'soon' is no age"),
        ('"30m"', '"0s"', "line 2: budget '0s' is nothing"),
        ("fixed-after = 2", "fixed_after = 2", "line 3: Object contains unknown field `fixed_after`"),
        ("fixed-after = 2", "fixed-after = 0", "line 3: Expected `int` >= 1"),
        ('["register", "set"]', "[]", "line 6: workload needs one value or more"),
        ('["register", "set"]', '["set", "set"]', "line 6: workload needs one value or more, each once"),
        ('["register", "set"]', '["set", " "]', "line 6: workload needs"),
        ('["kill", "partition"]', "7", "line 7: Expected `str | array`"),
        ('nodes = "3"', 'nods = "3"', "line 12: nods is no option of a run here. There are: availability,"),
        ('nodes = "3"', "seed = 3", "line 12: seed is no option of a run here"),
        ("rate = 20", 'rate = "fast"', "line 17: rate = 'fast': Expected `float`"),
        ('"default", "snapshots"', '"default", "old"', "line 8: there is no [versions.old]"),
        # A part that does not exist would be listed among what cannot be run, every night.
        ('["register", "set"]', '["set", "sett"]', "line 6: there is no workload 'sett'. Did you mean 'set'?"),
        ('["register", "set"]', '["re:no"]', "line 6: workload 're:no' cannot be imported"),
        ('["kill", "partition"]', '["kill", "kil,pause"]', "line 7: there is no nemesis 'kil'. Did you mean 'kill'?"),
        ('["sim", "local"]', '["sim", "locl", "local"]', "line 9: there is no backend 'locl'. Did you mean 'local'?"),
        ("[axes]", '[axes]\nbug = ["none", "M999"]', "line 6: there is no bug 'M999'."),
        ("[axes]", '[axes]\nsystem = ["etdc"]', "line 6: there is no system 'etdc'. Did you mean 'etcd'?"),
        ("[1, 2]", "[-1]", "line 20: Expected `int` >= 0"),
        ("fixed = [1, 2]", "fresh = false", "line 20: there are no seeds"),
        ('nemesis = ["kill"]', 'nemesis = ["kil"]', "line 24: 'kil' is not on the axis nemesis (kill, partition)"),
        ("weight = 3", "weight = 0", "line 28: Expected `float` > 0"),
        ('backend = "local"\nweight = 3', "weight = 3", "line 26: it names no axis"),
        ('backend = "local"\nnemesis = ["kill"]', 'workload = ["register", "set"]', "every combination is left out"),
    ],
)
def test_a_mistake_in_the_matrix_is_refused_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as refused:
        _load(tmp_path, TEXT.replace(old, new, 1))
    assert says in str(refused.value)


def test_what_cannot_be_run_is_named_and_what_this_machine_lacks_is_not_such(tmp_path: Path) -> None:
    matrix = _load(tmp_path)
    assert "M999" in str(impossible(matrix.options(Cell("set", "kill", bug="M999"), 0)))
    assert impossible(matrix.options(Cell("set", "kill"), 0)) is None


def test_fresh_seeds_are_those_of_the_night_and_the_cell() -> None:
    def some(night: int, cell: Cell) -> list[int]:
        return list(itertools.islice(fresh_seeds(night, cell), 3))

    one, other = Cell("set", "kill"), Cell("set", "pause")
    assert some(1, one) == some(1, one)
    assert not {*some(1, one)} & {*some(2, one), *some(1, other)}


# --- shares -----------------------------------------------------------------------------------------------------------


def _ran(shares: Shares, seconds: dict[str, float], runs: int) -> list[str]:
    """The workloads of so many runs, one after the other, each as long as a run of its cell is."""
    found: list[str] = []
    for _ in range(runs):
        chosen = shares.next(simulated=True)
        assert chosen is not None
        found.append(chosen[0].workload)
        shares.ended(chosen[0], seconds[chosen[0].workload])
    return found


def _shares(weights: dict[str, float], neglected: tuple[str, ...] = ()) -> Shares:
    cells = [Cell(name, "kill") for name in weights]
    shares = Shares(cells, lambda cell: weights[cell.workload], neglected)
    for cell in cells:
        shares.plan(cell, iter(range(10_000)))
    return shares


def test_cells_get_equal_time_and_not_equal_runs_and_weights_count() -> None:
    ran = _ran(_shares({"a": 1, "b": 1, "c": 2}), {"a": 1.0, "b": 4.0, "c": 1.0}, 400)
    time_s = {"a": ran.count("a") * 1.0, "b": ran.count("b") * 4.0, "c": ran.count("c") * 1.0}
    assert abs(time_s["a"] - time_s["b"]) <= 4
    assert abs(time_s["c"] - 2 * time_s["a"]) <= 8


def test_each_cell_is_run_once_before_one_is_run_twice_those_that_were_neglected_first() -> None:
    weights = dict.fromkeys("abcdef", 1.0)
    neglected = (Cell("d", "kill").name, Cell("f", "kill").name)
    assert _ran(_shares(weights, neglected), dict.fromkeys("abcdef", 100.0), 6) == list("dfabce")


def test_a_run_under_way_counts_so_that_two_workers_do_not_take_the_same_cell() -> None:
    shares = _shares({"a": 1, "b": 1})
    first, second = shares.next(simulated=True), shares.next(simulated=True)
    assert first is not None
    assert second is not None
    assert (first[0].workload, second[0].workload) == ("a", "b")


def test_a_cell_without_seeds_left_is_done_and_real_cells_are_apart() -> None:
    cell = Cell("a", "kill", backend="local")
    shares = Shares([cell], lambda _: 1.0, ())
    shares.plan(cell, iter([3]))
    assert shares.next(simulated=True) is None
    assert shares.next(simulated=False) == (cell, 3)
    assert shares.next(simulated=False) is None
