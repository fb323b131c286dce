"""The real server over loopback: raw addresses, what is no request, large files, many at once."""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from splitbrain.results.errors import EXIT_HARNESS_ERROR, HarnessError
from splitbrain.results.site.server import SiteServer
from tests.site.support import address, bare_run, served, small_run
from tests.site.test_runs import TRAVERSALS, outside


def raw(server: SiteServer, request: bytes) -> bytes:
    """Everything that the server answers to these bytes before it closes."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return answer.read()


def fetch(server: SiteServer, path: str) -> bytes:
    with urllib.request.urlopen(server.url.rstrip("/") + path, timeout=60) as answer:
        return answer.read()


@pytest.mark.slow
def test_no_raw_address_leads_out_of_the_store(tmp_path: Path) -> None:
    store, run = outside(tmp_path)
    with served(store) as server:
        for path in [*TRAVERSALS, "/../secret", "//secret", "/run/../../secret", "http://127.0.0.1/../secret"]:
            asked = path.format(run=address(run), test=run.test_name, name=run.name)
            answer = raw(server, f"GET {asked} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 404 "), path
            assert b"SECRET" not in answer


def test_what_is_no_request_is_refused_as_text(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for request in (
            b"<script>\r\n\r\n",
            b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET http://[x/ HTTP/1.1\r\n\r\n",
        ):
            answer = raw(server, request)
            assert answer.removeprefix(b"HTTP/1.1 ")[:2] in (b"40", b"50"), answer
            assert b"text/html" not in answer
        assert fetch(server, "/api/runs")  # and it goes on


def test_another_host_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        answer = raw(server, b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"Access-Control-Allow-Origin" not in answer


def test_a_body_that_nobody_reads_is_not_taken_for_the_next_request(tmp_path: Path) -> None:
    inner = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(tmp_path) as server:
        head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(inner)}\r\n\r\n".encode()
        answer = raw(server, head + inner)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_connection_carries_several_answers_with_and_without_bodies(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    with served(tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        for method, path in (
            ("HEAD", f"{address(run)}/files/history.parquet"),
            ("GET", f"{address(run)}/files/history.parquet"),
            ("HEAD", f"/archive/{run.test_name}/{run.name}"),
            ("GET", f"/archive/{run.test_name}/{run.name}"),
            ("GET", "/nothing"),
            ("GET", "/"),
        ):
            connection.request(method, path)
            answer = connection.getresponse()
            found = answer.read()
            assert (found == b"") == (method == "HEAD")
            if path.endswith("history.parquet") and method == "GET":
                assert found == run.history_path.read_bytes()
            if path.startswith("/archive") and method == "GET":
                assert zipfile.ZipFile(io.BytesIO(found)).testzip() is None
        connection.close()


def test_a_large_file_arrives_whole(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    content = os.urandom(5_000_000)
    (run.path / "nodes" / "n1" / "big").write_bytes(content)
    with served(tmp_path) as server:
        assert fetch(server, f"{address(run)}/files/nodes/n1/big") == content


def test_a_reader_that_goes_away_harms_nobody(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "nodes" / "n1" / "big").write_bytes(bytes(5_000_000))
    with served(tmp_path) as server:
        for path in (f"{address(run)}/files/nodes/n1/big", f"/archive/{run.test_name}/{run.name}"):
            with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                assert connection.recv(100)
        assert fetch(server, "/api/runs")


@pytest.mark.slow
def test_many_ask_at_once_while_runs_are_added(tmp_path: Path) -> None:
    with served(tmp_path) as server, ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(fetch, server, "/api/runs") for _ in range(40)]
        for seed in range(20):
            bare_run(tmp_path, "a", seed, {})
        totals = [json.loads(answer.result())["total"] for answer in answers]
        assert max(totals) <= 20
        assert json.loads(fetch(server, "/api/runs"))["total"] == 20


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        port = server.server_address[1]
        with pytest.raises(HarnessError, match=f"port {port}: Address already in use. Choose another") as caught:
            SiteServer(tmp_path, "127.0.0.1", port)
        assert caught.value.exit_code == EXIT_HARNESS_ERROR
        assert "\n" not in str(caught.value)
