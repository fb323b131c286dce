"""Where no engine can be used, one line says what was found and what to do, and the exit code is the harness's."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import docker
import pytest

from splitbrain.harness.cli.main import main
from splitbrain.harness.images import connection
from splitbrain.harness.images.connection import engine
from splitbrain.results.errors import EXIT_HARNESS_ERROR, ContainerEngineError
from tests import plain_user


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Where DOCKER_HOST points: nothing is there yet. (pytest's own folders make names too long for a socket.)"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine"
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield path


@contextmanager
def _listening(path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield listener


class _Engine(BaseHTTPRequestHandler):
    """Answers every request as an engine that speaks API 1.30."""

    def do_GET(self) -> None:
        body = json.dumps({"ApiVersion": "1.30", "Version": "17.06.0"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_an_engine_that_answers_is_given_back(client: docker.DockerClient) -> None:
    assert client.ping()
    assert client.api.timeout == connection.ANSWER_TIMEOUT_S


def test_a_missing_socket_is_named(address: Path) -> None:
    with pytest.raises(
        ContainerEngineError, match=rf"^no Docker engine runs here: there is no socket unix://{address}\."
    ):
        engine()


def test_a_socket_that_nobody_serves_is_told_from_a_missing_one(address: Path) -> None:
    with _listening(address):
        pass
    with pytest.raises(ContainerEngineError, match=rf"^no Docker engine answers at unix://{address}: start it"):
        engine()


@pytest.mark.slow
def test_an_engine_that_does_not_answer_is_given_up(address: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 1)
    with _listening(address), pytest.raises(ContainerEngineError, match="does not answer within 1 s: restart it"):
        engine()


def test_an_old_engine_is_refused(address: Path) -> None:
    with socketserver.ThreadingUnixStreamServer(str(address), _Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(ContainerEngineError, match=r"too old: it speaks API 1\.30, and 1\.41 .* needed"):
                engine()
        finally:
            server.shutdown()


@pytest.mark.slow
def test_a_user_without_permission_is_told_so() -> None:
    problem = plain_user.problem()
    if problem is not None:
        pytest.skip(problem)
    with plain_user.folder() as folder, _listening(folder / "engine"):
        (folder / "engine").chmod(0o600)
        told = subprocess.run(
            plain_user.as_plain_user(["-c", "from splitbrain.harness.cli.main import main; main()", "images", "list"]),
            env=plain_user.environment(DOCKER_HOST=f"unix://{folder}/engine"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    where = f"unix://{folder}/engine"
    assert told.stderr.startswith(f"splitbrain: permission denied for the Docker engine at {where}: be root, or ")
    assert told.stderr.count("\n") == 1
    assert told.returncode == EXIT_HARNESS_ERROR


def test_the_command_line_says_it_in_one_line_and_ends_with_255(
    address: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["images", "build"])
    out, err = capsys.readouterr()
    assert ended.value.code == EXIT_HARNESS_ERROR
    assert out == ""
    assert err.startswith("splitbrain: no Docker engine runs here: ")
    assert err.count("\n") == 1
