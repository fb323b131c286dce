"""A run's page and its files; and that no address leads out of the store."""

from __future__ import annotations

import io
import os
import re
import zipfile
from pathlib import Path

import pytest

from splitbrain.results.report import write_report
from splitbrain.results.rundir import RunDir
from splitbrain.results.site.beneath import entries
from splitbrain.results.site.messages import Request
from splitbrain.results.site.routes import Site, loopback_hosts
from tests.site.support import HOSTILE, address, bare_run, body, document, get, small_run, text


def test_a_run_shows_verdicts_figures_and_files(tmp_path: Path) -> None:
    run = small_run(tmp_path, "violation")
    write_report(run.path)
    page = text(get(tmp_path, address(run)))
    for words in (
        "violated",
        "Lost: element",
        "availability in time",
        "nodes/n3/node.log",
        "history.parquet",
        "Report",
    ):
        assert words in page, words
    assert f"/archive/{run.test_name}/{run.name}" in page


def test_a_run_without_stored_figures_shows_them_and_stays_as_it_was(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "figures.json").unlink()
    before = sorted(path.name for path in run.path.iterdir())
    found = document(get(tmp_path, f"/api/runs/{run.test_name}/{run.name}"))
    assert found["figures"]["ops"] > 100
    assert sorted(path.name for path in run.path.iterdir()) == before


def test_a_run_without_a_page_has_it_made_for_the_answer_and_nothing_is_written(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    assert not (run.path / "report.html").exists()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert f"{address(run)}/files/report.html" in text(get(tmp_path, address(run)))
    response = get(tmp_path, f"{address(run)}/files/report.html")
    headers = response.all_headers()
    assert "sandbox" in headers["Content-Security-Policy"]
    assert "allow-same-origin" not in headers["Content-Security-Policy"]
    made = text(response)
    saved = get(tmp_path, f"{address(run)}/files/report.html", download="1")
    assert saved.all_headers()["Content-Disposition"].startswith("attachment")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert len(made) > 50_000
    assert run.name in made


def test_a_page_is_not_made_of_what_a_link_leads_to(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "report.html").symlink_to(tmp_path / "nowhere")
    assert get(tmp_path, f"{address(run)}/files/report.html").status == 404
    (run.path / "report.html").unlink()
    run.history_path.rename(tmp_path / "elsewhere.parquet")
    run.history_path.symlink_to(tmp_path / "elsewhere.parquet")
    assert get(tmp_path, f"{address(run)}/files/report.html").status == 404


@pytest.mark.parametrize(
    ("state", "words"),
    [("running", "is under way"), ("crashed", "still a write-ahead file"), ("empty", "nothing was recorded")],
)
def test_a_run_without_an_end_says_how_far_it_got(tmp_path: Path, state: str, words: str) -> None:
    run = bare_run(tmp_path, "a", 1, {}, held=state == "running")
    if state == "crashed":
        run.history_writer().close()
    try:
        assert words in text(get(tmp_path, address(run)))
    finally:
        run.release()


def test_a_run_with_a_damaged_verdict_has_a_page_with_its_files(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "verdict.json").write_text("{")
    response = get(tmp_path, address(run))
    page = text(response)
    assert response.status == 200
    assert "It cannot be read" in page
    assert "history.parquet" in page


def test_a_run_with_a_damaged_history_has_a_page_with_its_files(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "figures.json").unlink()
    run.history_path.write_bytes(b"PAR1 torn")
    response = get(tmp_path, address(run))
    page = text(response)
    assert response.status == 200
    assert "There are no figures" in page
    assert "Lost" in page or "Linearizable" in page  # what was judged before stays
    assert "history.parquet" in page


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "content", "kind", "shown"),
    [
        ("splitbrain.log", b"a line\n", "text/plain; charset=utf-8", True),
        ("nodes/n1/report.html", b"<script>1</script>", "text/plain; charset=utf-8", True),
        ("nodes/n1/x.svg", b"<svg onload='1'/>", "text/plain; charset=utf-8", True),
        ("index.html", b"<script>1</script>", "text/plain; charset=utf-8", True),
        ("nodes/n1/data", b"\0\1", "application/octet-stream", False),
        ("report.html", b"<p>", "text/html; charset=utf-8", True),
        ("plots/rate.svg", b"<svg/>", "image/svg+xml", True),
    ],
)
def test_a_file_is_served_as_what_it_can_do_no_harm_as(
    tmp_path: Path, name: str, content: bytes, kind: str, shown: bool
) -> None:
    run = small_run(tmp_path)
    path = run.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    response = get(tmp_path, f"{address(run)}/files/{name}")
    headers = response.all_headers()
    assert (headers["Content-Type"], "Content-Disposition" in headers) == (kind, not shown)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    if kind in ("text/html; charset=utf-8", "image/svg+xml"):
        assert "sandbox" in headers["Content-Security-Policy"]
        assert "allow-same-origin" not in headers["Content-Security-Policy"]
    assert body(response) == content
    saved = get(tmp_path, f"{address(run)}/files/{name}", download="1")
    assert saved.all_headers()["Content-Disposition"].startswith("attachment")
    saved.close()


def test_the_archive_holds_every_file_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "nodes" / "n1" / "link").symlink_to("/etc/passwd")
    os.mkfifo(run.path / "nodes" / "n1" / "pipe")
    response = get(tmp_path, f"/archive/{run.test_name}/{run.name}")
    archive = zipfile.ZipFile(io.BytesIO(body(response)))
    assert archive.testzip() is None
    top = f"{run.test_name}-{run.name}"
    assert archive.read(f"{top}/nodes/n1/log") == (run.path / "nodes/n1/log").read_bytes()
    assert archive.read(f"{top}/history.parquet") == run.history_path.read_bytes()
    told = archive.read(f"{top}/LEFT-OUT.txt").decode()
    assert told == "nodes/n1/link: a symbolic link\nnodes/n1/pipe: not a plain file\n"
    assert f"{top}/nodes/n1/link" not in archive.namelist()


def outside(tmp_path: Path) -> tuple[Path, RunDir]:
    """A store with a secret beside it, and links of every kind that lead there."""
    store = tmp_path / "store"
    run = small_run(store)
    (tmp_path / "secret").write_text("SECRET")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "secret").write_text("SECRET")
    (run.path / "link").symlink_to(tmp_path / "secret")
    (run.path / "up").symlink_to("../../..")
    (run.path / "nodes" / "dir").symlink_to(tmp_path / "dir")
    other = small_run(tmp_path / "other")
    (other.path / "secret").write_text("SECRET")
    (run.path.parent / "run=linked").symlink_to(other.path)
    (store / "test=linked").symlink_to(other.path.parent)
    (store / "secret").write_text("SECRET")
    return store, run


TRAVERSALS = [
    "{run}/files/../../../secret",
    "{run}/files/..%2f..%2f..%2fsecret",
    "{run}/files/%2e%2e/%2e%2e/%2e%2e/secret",
    "{run}/files/%2e%2e%2f%2e%2e%2fsecret",
    "{run}/files/..%5c..%5csecret",
    "{run}/files/%252e%252e/secret",
    "{run}/files//etc/passwd",
    "{run}/files/%2Fetc%2Fpasswd",
    "{run}/files/./splitbrain.log",
    "{run}/files/verdict.json%00.txt",
    "{run}/files/%00",
    "{run}/files/",
    "{run}/files",
    "{run}/files/nodes",
    "{run}/files/link",
    "{run}/files/up/secret",
    "{run}/files/nodes/dir/secret",
    "{run}/files/controller.lock/x",
    "/run/{test}/linked/files/secret",
    "/run/linked/{name}/files/secret",
    "/run/../secret/files/x",
    "/run/%2e%2e/%2e%2e/files/secret",
    "/run/x%2F..%2F../y/files/secret",
    "/archive/linked/{name}",
    "/archive/{test}/linked",
    "/archive/%2e%2e/%2e%2e",
    "/static/..%2froutes.py",
    "/static/table.html.j2",
    "/secret",
    "/%2e%2e/secret",
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_address_leads_out_of_the_store(tmp_path: Path, path: str) -> None:
    store, run = outside(tmp_path)
    response = get(store, path.format(run=address(run), test=run.test_name, name=run.name))
    found = body(response)
    assert response.status == 404
    assert b"SECRET" not in found
    assert b"root:" not in found


def test_runs_behind_links_are_shown_as_refused_and_tell_nothing(tmp_path: Path) -> None:
    store, run = outside(tmp_path)
    found = {(row["test"], row["run"]): row for row in document(get(store, "/api/runs"))["runs"]}
    for name in ((run.test_name, "linked"), ("linked", run.name)):
        assert found[name]["state"] == "damaged"
        assert found[name]["workload"] == ""
    page = text(get(store, f"/run/linked/{run.name}"))
    assert "it is not followed" in page
    assert "history.parquet" not in page


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["test.json", "verdict.json", "figures.json", "telemetry.parquet", "controller.lock"])
def test_a_run_whose_own_file_is_a_link_or_a_pipe_is_damaged(tmp_path: Path, name: str) -> None:
    run = small_run(tmp_path)
    (run.path / name).unlink()
    os.mkfifo(run.path / name)  # reading it would never end
    [row] = document(get(tmp_path, "/api/runs"))["runs"]
    assert row["state"] == "damaged"
    assert "not a plain file" in row["says"]
    assert get(tmp_path, address(run)).status == 200


def test_a_folder_is_listed_without_following_anything(tmp_path: Path) -> None:
    store, run = outside(tmp_path)
    found = {entry.path: entry for entry in entries(store, (run.path.parent.name, run.path.name), 1000)}
    assert found["link"].refused == "a symbolic link"
    assert found["nodes/dir"].refused == "a symbolic link"
    assert not any(path.startswith(("up/", "nodes/dir/")) for path in found)


def test_names_that_are_no_text_can_be_opened(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.path / "nodes" / "n1" / os.fsdecode(b"\xff.log")).write_bytes(b"found")
    page = text(get(tmp_path, address(run)))
    assert "/files/nodes/n1/%FF.log" in page
    assert body(get(tmp_path, f"{address(run)}/files/nodes/n1/%FF.log")) == b"found"
    assert body(get(tmp_path, f"/archive/{run.test_name}/{run.name}"))
    assert document(get(tmp_path, f"/api/runs/{run.test_name}/{run.name}"))["files"]


@pytest.mark.slow
def test_hostile_values_are_escaped_on_every_page(tmp_path: Path) -> None:
    run = small_run(tmp_path, "violation", hostile=HOSTILE)
    document_ = run.read_test()
    document_["options"] |= dict.fromkeys(("workload", "nemesis", "system", "backend", "bug"), HOSTILE)
    document_["command"] = HOSTILE
    run.write_test(document_)
    other = small_run(tmp_path, seed=8)
    name, other_name = (f"{each.test_name}/{each.name}" for each in (run, other))
    pages = [
        get(tmp_path, "/"),
        get(tmp_path, "/", text=HOSTILE, workload=HOSTILE, test=HOSTILE),
        get(tmp_path, address(run)),
        get(tmp_path, "/compare", a=name, b=other_name),
        get(tmp_path, "/compare", a=HOSTILE, b=f"{HOSTILE}/x"),
        get(tmp_path, "/" + HOSTILE),
    ]
    for page in pages:
        source = text(page)
        assert "<script>document" not in source
        assert "<img" not in source
        assert "\u202e" not in re.sub(r'="[^"]*"', "", source)  # a filter's value must stay what it is


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", None, "[::2]:80"])
def test_a_host_that_is_not_this_machine_is_refused(tmp_path: Path, host: str | None) -> None:
    site = Site(tmp_path, loopback_hosts("127.0.0.1"))
    assert site.respond(Request(host=host)).status == 403
    assert site.respond(Request(host=host, parts=("api", "runs"))).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "[::1]"])
def test_this_machine_is_answered_under_its_names(tmp_path: Path, host: str) -> None:
    assert Site(tmp_path, loopback_hosts("127.0.0.1")).respond(Request(host=host)).status == 200


def test_a_site_bound_to_an_address_of_the_network_answers_any_name() -> None:
    assert loopback_hosts("0.0.0.0") is None
    assert loopback_hosts("192.168.1.7") is None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(tmp_path: Path, method: str) -> None:
    response = Site(tmp_path, None).respond(Request(method=method))
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.slow
def test_a_run_whose_document_makes_no_sense_is_one_refused_page(tmp_path: Path) -> None:
    run, other = small_run(tmp_path, seed=1), small_run(tmp_path, seed=2)
    (run.path / "figures.json").unlink()
    run.write_test(run.read_test() | {"nodes": 5})
    response = get(tmp_path, address(run))
    assert (response.status, "test.json: damaged: " in text(response)) == (400, True)
    assert get(tmp_path, "/").status == get(tmp_path, address(other)).status == 200


def test_a_run_leads_to_the_one_before_it(tmp_path: Path) -> None:
    first, second = (bare_run(tmp_path, "a", seed, {}) for seed in (1, 2))
    assert f"/compare?a=a/{first.name}&amp;b=a/{second.name}" in text(get(tmp_path, address(second)))
    assert "run before" not in text(get(tmp_path, address(first)))


@pytest.mark.slow
def test_two_runs_are_shown_side_by_side(tmp_path: Path) -> None:
    a, b = small_run(tmp_path, "pass"), small_run(tmp_path, "violation", seed=8)
    query = {"a": f"{a.test_name}/{a.name}", "b": f"{b.test_name}/{b.name}"}
    page = text(get(tmp_path, "/compare", **query))
    for words in ("Side by side", "options.bug", "M17", "latency p99", "Lost: element"):
        assert words in page, words
    assert document(get(tmp_path, "/api/compare", **query))["a"] == query["a"]
    assert get(tmp_path, "/compare", a=query["a"]).status == 400
    assert get(tmp_path, "/api/compare", a=query["a"], b="no/run").status == 404
