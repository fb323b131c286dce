"""`splitbrain serve` as a command: what it prints, what it answers, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.cli.support import splitbrain, start
from tests.site.support import small_run


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_the_store_until_it_is_asked_to_end_and_ends_well(tmp_path: Path, number: int) -> None:
    run = small_run(tmp_path / "store")
    process = start("serve", "--store", "store", "--port", "0", "--json", cwd=tmp_path)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["url"].startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{told['url']}api/runs", timeout=30) as answer:
            assert [row["run"] for row in json.load(answer)["runs"]] == [run.name]
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.slow
def test_a_taken_port_is_one_line_and_the_harness_s_failure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "store").mkdir()
        done = splitbrain("serve", "--port", str(taken.getsockname()[1]), cwd=tmp_path)
    assert done.returncode == 255
    assert done.stderr.count("\n") == 1
    assert "Address already in use. Choose another with --port." in done.stderr


@pytest.mark.parametrize("arguments", [("--port", "70000"), ("--port", "x"), ("extra",)])
def test_wrong_arguments_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = splitbrain("serve", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (254, "")


@pytest.mark.slow
def test_an_address_that_this_machine_does_not_have_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    done = splitbrain("serve", "--host", "192.0.2.1", cwd=tmp_path)
    assert done.returncode == 255
    assert "cannot serve on 192.0.2.1 port 8080" in done.stderr
