"""`splitbrain list models` says what a user must know to name one."""

from __future__ import annotations

import json

from click.testing import CliRunner

from splitbrain.checkers import models
from splitbrain.harness.cli.listing import command


def listed(*arguments: str) -> str:
    done = CliRunner().invoke(command, ["models", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_every_model_is_listed_with_its_functions_its_parameter_and_a_line() -> None:
    lines = {line.split()[0]: line for line in listed().splitlines()[1:]}
    assert [name.partition("[")[0] for name in lines] == models.names()
    assert lines["fifo-queue"].split(maxsplit=1)[1] == "dequeue, enqueue: A queue, first in, first out"
    assert "semaphore[(permits)]" in lines
    assert max(map(len, lines.values())) <= 120


def test_as_json_a_model_is_its_line_its_functions_and_its_parameter() -> None:
    found = json.loads(listed("--json"))["models"]
    assert list(found) == models.names()
    for name, about in found.items():
        assert set(about["fs"]) == models.model(name).fs
        assert about["line"]
        assert about["parameter"] == models.parameter(models.model(name))
    assert found["mutex"]["parameter"] == ""
    assert found["register"]["parameter"] == "initial"
