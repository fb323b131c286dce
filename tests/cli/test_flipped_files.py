"""A file of a run that is cut off or has other bytes: a clear error that names it, or the verdict that it had."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from splitbrain.checkers.isolation.judging import Judge, judge
from splitbrain.checkers.isolation.limits import Limits
from splitbrain.harness.campaigns import many
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.rundir import RunDir
from tests.cli.damaged_store import timeless

EXAMPLES = int(os.environ.get("SPLITBRAIN_FLIPS", "60"))
"""More with this variable: a few thousand take minutes."""

RUN = ["run", "--backend", "sim", "--workload", "register", "--nemesis", "kill", "-n", "3", "--rate", "10"]


@dataclass(frozen=True)
class Change:
    """What happens to a file: at a place, as a share of its length, bytes are others; or it ends there."""

    file: int
    at: float
    others: bytes | None

    def of(self, content: bytes) -> bytes:
        begin = int(self.at * len(content))
        if self.others is None:
            return content[:begin]
        changed = bytes(old ^ new for old, new in zip(content[begin:], self.others, strict=False))
        return content[:begin] + changed + content[begin + len(changed) :]


changes = st.builds(
    Change,
    st.integers(0, 30),
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.none(), st.binary(min_size=1, max_size=1), st.binary(min_size=1, max_size=40)),
)


class Judged:
    """A judged run, copies of which are changed and judged again by one process."""

    def __init__(self, root: Path, by: Judge) -> None:
        assert CliRunner().invoke(splitbrain, [*RUN, "--time-limit", "4", "--seed", "5", "--store", str(root)]).stdout
        [self.run] = root.glob("test=*/run=*")
        self.files = sorted(path.relative_to(self.run) for path in self.run.rglob("*") if path.is_file())
        self._by = by
        self._copy = root / "copies" / self.run.parent.name / self.run.name
        self._copy.parent.mkdir(parents=True)
        self.expected = self.judged(self.run)

    def judged(self, path: Path) -> Any:
        """The verdicts of a run, or why there are none."""
        warned: list[str] = []
        done = many.judge_one(self._by, RunDir(path), warned.append)
        if done.damaged or warned:
            return [*warned, done.said][0]
        document = json.loads((path / "verdict.json").read_bytes())
        return timeless({name: document[name] for name in ("outcome", "harness_error", "verdicts")})

    def changed(self, change: Change) -> tuple[Path, Path]:
        """A copy of the run, and the file of it that was changed."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.run, self._copy)
        file = self._copy / self.files[change.file % len(self.files)]
        file.write_bytes(change.of(file.read_bytes()))
        return self._copy, file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with judge(Limits(cpu_s=20.0, memory_mb=1024)) as by:
        yield Judged(tmp_path_factory.mktemp("flipped"), by)


several = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@pytest.mark.slow
@several
@given(changes)
def test_analyze_names_the_file_or_finds_what_it_found(run: Judged, change: Change) -> None:
    path, file = run.changed(change)
    found = run.judged(path)
    if isinstance(found, str):
        assert str(path) in found
        assert file.name in found
        assert "Traceback" not in found
    elif file.name != "test.json":
        assert found == run.expected, f"{file.name} was changed"
    else:
        assert found["outcome"] in (run.expected["outcome"], "inconclusive", "harness error")


@pytest.mark.slow
@several
@given(changes)
def test_check_names_the_file_or_finds_what_it_found(run: Judged, change: Change) -> None:
    path, file = run.changed(change)
    done = CliRunner().invoke(splitbrain, ["check", "--json", "--model", "cas-register", str(path)])
    [answer] = json.loads(done.stdout)
    if "error" in answer:
        assert str(path) in answer["error"]
        assert done.exit_code in (254, 255)
    else:
        assert answer["valid"] is True, f"{file.name} was changed"
        assert done.exit_code == 0
    assert "Traceback" not in done.output
