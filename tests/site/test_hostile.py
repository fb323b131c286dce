"""What a hostile neighbour, page or system under test tries, over the real server and on the site itself."""

from __future__ import annotations

import http.client
import io
import os
import resource
import socket
import struct
import subprocess
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from splitbrain.results.site import rows as rows_module
from splitbrain.results.site import server as server_module
from splitbrain.results.site.messages import Request
from splitbrain.results.site.routes import Site
from splitbrain.results.site.server import SiteServer
from tests.site.support import address, bare_run, body, document, get, served, small_run, text


def connected(server: SiteServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30)


def asked(server: SiteServer, lines: Sequence[str]) -> bytes:
    """Everything that is answered to a request before the server closes."""
    with connected(server) as connection, connection.makefile("rb") as answer:
        connection.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        return answer.read()


# --- connections ------------------------------------------------------------------------------------------------------


def test_who_asks_byte_by_byte_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "IDLE_S", 0.2)
    over = threading.Event()
    with served(tmp_path) as server, connected(server) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in range(1000):  # each byte comes long before a limit on silence would strike
            try:
                slow.sendall(b"x")
                slow.settimeout(0.02)
                if not slow.recv(1):
                    over.set()
            except TimeoutError:
                continue
            except ConnectionError:
                over.set()
            if over.is_set():
                break
    assert over.is_set()


def test_connections_that_ask_for_nothing_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 4)
    with served(tmp_path) as server:
        idle = [connected(server) for _ in range(12)]
        try:
            for each in idle[::2]:
                each.sendall(b"GET / HT")
            assert asked(server, ["GET /api/runs HTTP/1.1", "Host: localhost", "Connection: close"]).startswith(
                b"HTTP/1.1 200 "
            )
            for each in idle[:8]:  # room was made by hanging up on those that waited longest
                each.settimeout(120)
                assert each.recv(1) == b""
        finally:
            for each in idle:
                each.close()


def test_when_every_connection_is_busy_the_next_is_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 1)
    run = small_run(tmp_path)
    (run.path / "nodes" / "n1" / "big").write_bytes(bytes(50_000_000))
    with served(tmp_path) as server, connected(server) as busy:
        busy.sendall(f"GET {address(run)}/files/nodes/n1/big HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert busy.recv(100).startswith(b"HTTP/1.1 200 ")  # and takes no more of it
        assert asked(server, ["GET / HTTP/1.1", "Host: localhost"]).startswith(b"HTTP/1.1 503 ")


def test_who_breaks_off_leaves_no_trace_in_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as server:
        for _ in range(5):
            connection = connected(server)
            connection.sendall(b"GET / HTTP/1.1\r\nHo")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()  # a reset, not an end
        assert asked(server, ["GET / HTTP/1.1", "Host: localhost", "Connection: close"])
        for thread in threading.enumerate():
            if "process_request" in thread.name:
                thread.join(30)
    assert capfd.readouterr().err == ""


def test_an_old_client_gets_an_archive_without_chunks(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    with served(tmp_path) as server:
        answer = asked(server, [f"GET /archive/{run.test_name}/{run.name} HTTP/1.0", "Host: localhost"])
    head, _, content = answer.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert zipfile.ZipFile(io.BytesIO(content)).testzip() is None


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("text=" + "a+" * 30_000, 400),
        ("&".join(f"x{i}=1" for i in range(5000)), 400),
        ("x" * 70_000, 414),
        ("text=%zz%ff%00%e2%80", 200),
        ("page=" + "9" * 5000, 400),
        ("sort=%3Cscript%3E", 400),
        ("&&;;==&=", 200),
    ],
)
def test_a_query_that_makes_no_sense_is_answered_briefly(tmp_path: Path, query: str, status: int) -> None:
    small_run(tmp_path)
    with served(tmp_path) as server:
        answer = asked(server, [f"GET /?{query} HTTP/1.1", "Host: localhost", "Connection: close"])
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert len(answer) < 20_000
    assert b"<script>" not in answer


def test_a_header_without_end_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for lines in (["X: " + "y" * 70_000], [f"X{i}: y" for i in range(200)]):
            answer = asked(server, ["GET / HTTP/1.1", "Host: localhost", *lines])
            assert answer.startswith(b"HTTP/1.1 431 ")


def test_a_range_is_answered_with_the_whole_file(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    with served(tmp_path) as server:
        for asked_for in ("bytes=0-3", "bytes=9999999999-", "bytes=-1,-1,-1", "lines=x"):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
            connection.request("GET", f"{address(run)}/files/history.parquet", headers={"Range": asked_for})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, run.history_path.read_bytes())
            connection.close()


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_elsewhere_can_link_here_and_nothing_else(tmp_path: Path, site: str) -> None:
    here = Site(tmp_path, None)
    for mode in ("no-cors", "cors", "websocket", None):
        refused = here.respond(Request(fetch_site=site, fetch_mode=mode))
        assert refused.status == 403
    assert here.respond(Request(fetch_site=site, fetch_mode="navigate")).status == 200
    for own in ("same-origin", "none"):
        assert here.respond(Request(fetch_site=own, fetch_mode="cors")).status == 200
    headers = here.respond(Request()).all_headers()
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_server_passes_on_where_a_browser_was_told_to_ask(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        lines = ["GET /api/runs HTTP/1.1", "Host: localhost", "Connection: close", "Sec-Fetch-Site: cross-site"]
        assert asked(server, [*lines, "Sec-Fetch-Mode: no-cors"]).startswith(b"HTTP/1.1 403 ")
        assert asked(server, [*lines, "Sec-Fetch-Mode: navigate"]).startswith(b"HTTP/1.1 200 ")


def test_a_file_s_name_adds_no_header(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    name = 'a\r\nSet-Cookie: x=1\r\n"; filename=y'
    (run.path / "nodes" / "n1" / name).write_text("content")
    quoted = "a%0d%0aSet-Cookie:%20x=1%0d%0a%22%3b%20filename=y"
    with served(tmp_path) as server:
        path = f"{address(run)}/files/nodes/n1/{quoted}?download=1"
        answer = asked(server, [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close"])
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nSet-Cookie" not in answer
        assert answer.count(b"Content-Disposition") == 1
        for path in (f"/run/{quoted}/{quoted}", f"/archive/{quoted}/{quoted}", f"/{quoted}"):
            answer = asked(server, [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close"])
            assert answer.startswith(b"HTTP/1.1 404 ")
            assert b"\r\nSet-Cookie" not in answer.partition(b"\r\n\r\n")[0]


# --- what lies in the store -------------------------------------------------------------------------------------------


def test_a_file_that_becomes_a_link_while_the_archive_is_made_is_left_out(tmp_path: Path) -> None:
    run = small_run(tmp_path / "store")
    (tmp_path / "secret").write_text("SECRET")
    late = run.path / "nodes" / "n1" / "zzz"
    late.write_text("plain")
    response = get(tmp_path / "store", f"/archive/{run.test_name}/{run.name}")  # the files are listed now
    late.unlink()
    late.symlink_to(tmp_path / "secret")
    archive = zipfile.ZipFile(io.BytesIO(body(response)))
    top = f"{run.test_name}-{run.name}"
    assert archive.read(f"{top}/LEFT-OUT.txt").decode() == "nodes/n1/zzz: it was removed before it could be packed\n"
    assert not any(b"SECRET" in archive.read(name) for name in archive.namelist())


def test_what_is_no_plain_file_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path)
    here = run.path / "nodes" / "n1"
    os.mkfifo(here / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(here)  # the address of such a socket is short
        try:
            listening.bind("socket")
        finally:
            os.chdir(before)
    (here / "loop").symlink_to("loop")
    opened = list[str]()
    really = os.open

    def noted(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(str(path))
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", noted)
    for name in ("pipe", "socket", "loop", "log/x"):
        assert get(tmp_path, f"{address(run)}/files/nodes/n1/{name}").status == 404
    assert body(get(tmp_path, f"{address(run)}/files/nodes/n1/log"))
    page = text(get(tmp_path, address(run)))
    assert page.count("not served: not a plain file") == 2
    assert opened
    assert not {"pipe", "socket", "loop"} & set(opened)


def test_a_document_that_becomes_a_link_while_it_is_read_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from splitbrain.results.site import routes

    run = small_run(tmp_path / "store")
    (tmp_path / "secret.json").write_text('{"options": {}, "command": "SECRET"}')
    read = routes.subject_of

    def swapped(found: object) -> object:
        (run.path / "test.json").unlink()
        (run.path / "test.json").symlink_to(tmp_path / "secret.json")
        return read(found)  # type: ignore[arg-type]

    monkeypatch.setattr(routes, "subject_of", swapped)
    assert b"SECRET" not in body(get(tmp_path / "store", address(run)))


def test_folders_within_folders_without_end_cost_neither_the_page_nor_the_process(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    top = os.open(run.path / "nodes" / "n1", os.O_RDONLY)
    for _ in range(2000):  # deeper than a path can be long, than Python recurses, and than a process has open files
        os.mkdir("d", dir_fd=top)
        below = os.open("d", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(top)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        page = text(get(tmp_path, address(run)))
        archive = zipfile.ZipFile(io.BytesIO(body(get(tmp_path, f"/archive/{run.test_name}/{run.name}"))))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        subprocess.run(["rm", "-rf", str(run.path / "nodes")], check=True)  # pytest's own way to remove it recurses
    assert "a folder too deep to look into" in page
    assert "history.parquet" in page
    assert "too deep" in archive.read(f"{run.test_name}-{run.name}/LEFT-OUT.txt").decode()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["test.json", "verdict.json", "figures.json"])
def test_a_document_too_large_to_read_costs_one_row(tmp_path: Path, name: str) -> None:
    run, other = small_run(tmp_path, seed=1), small_run(tmp_path, seed=2)
    os.truncate(run.path / name, 1 << 42)  # sparse: it takes no room on the disk, and more memory than there is
    found = {row["run"]: row for row in document(get(tmp_path, "/api/runs"))["runs"]}
    assert (found[run.name]["state"], found[other.name]["state"]) == ("damaged", "pass")
    assert f"the limit is {rows_module.DOCUMENT_MAX:,}" in found[run.name]["says"]
    assert get(tmp_path, address(run)).status == 200


@pytest.mark.slow
def test_a_hard_link_is_a_file_like_others_and_one_in_place_of_a_document_is_read_as_one(tmp_path: Path) -> None:
    run = small_run(tmp_path / "store")
    (tmp_path / "other.json").write_text('{"options": [], "command": 5}')
    (run.path / "test.json").unlink()
    (run.path / "test.json").hardlink_to(tmp_path / "other.json")
    [row] = document(get(tmp_path / "store", "/api/runs"))["runs"]
    assert row["state"] == "damaged"
    assert get(tmp_path / "store", address(run)).status == 200


def test_options_of_a_megabyte_do_not_fill_the_table(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    long = dict.fromkeys(("workload", "nemesis", "system", "backend", "bug"), "x" * 1_000_000)
    run.write_test(run.read_test() | {"options": long, "start": "y" * 1_000_000})
    assert len(text(get(tmp_path, "/"))) < 20_000
    assert len(body(get(tmp_path, "/api/runs"))) < 20_000


def test_an_outcome_that_nobody_knows_is_said(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "verdict.json").write_text('{"outcome": "<b>fine</b>", "engine": "inline", "verdicts": []}')
    [row] = document(get(tmp_path, "/api/runs"))["runs"]
    assert row["state"] == "damaged"
    assert "'<b>fine</b>'" in row["says"]
    assert "<b>fine" not in text(get(tmp_path, "/"))


def test_runs_that_vanish_while_somebody_looks_are_gone_and_nothing_else(tmp_path: Path) -> None:
    site = Site(tmp_path, None)
    stop = threading.Event()

    def churn() -> None:
        seed = 0
        while not stop.is_set():
            run = bare_run(tmp_path, "t", seed, {})
            (run.node_dir("n1") / "log").write_text("x")
            for path in sorted(run.path.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            run.path.rmdir()
            seed += 1

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        for _ in range(150):
            answer = site.respond(Request(parts=("api", "runs")))
            assert answer.status == 200
            for row in document(answer)["runs"]:
                for parts in (("run", "t", row["run"]), ("api", "runs", "t", row["run"]), ("archive", "t", row["run"])):
                    found = site.respond(Request(parts=parts))
                    assert found.status in (200, 404), body(found)
                    body(found)
    finally:
        stop.set()
        churning.join()


def test_a_run_of_an_older_splitbrain_is_shown(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "figures.json").unlink()
    (run.path / "marks.json").unlink(missing_ok=True)
    (run.path / "checksums.json").unlink()
    (run.path / "test.json").write_text(
        '{"format": 1, "nodes": ["n1", "n2", "n3", "n4", "n5"], "options": {"workload": "set"}}'
    )
    (run.path / "verdict.json").write_text(
        '{"format": 1, "outcome": "pass", "engine": "inline", "harness_error": null, "verdicts": [{"valid": true}]}'
    )
    [row] = document(get(tmp_path, "/api/runs"))["runs"]
    assert (row["state"], row["workload"], row["nemesis"]) == ("pass", "set", "")
    page = text(get(tmp_path, address(run)))
    assert "holds" in page
    assert "availability in time" in page
