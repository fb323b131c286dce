"""The site in a browser: runs show up while one looks, choices stay, and nothing from a run ever becomes markup."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.results.report import write_report
from splitbrain.results.site.server import SiteServer
from tests.report.chromium import Browser, chromium
from tests.site.support import HOSTILE, address, bare_run, served, small_run
from tests.site.test_nights import night_store


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


def visit(browser: Browser, server: SiteServer, path: str, *, width: int = 1280) -> None:
    """Show a page of the site, and wait until it is loaded."""
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    browser.send("Page.navigate", url="about:blank")
    browser.complaints.clear()
    browser.send("Page.navigate", url=server.url.rstrip("/") + path)
    browser.wait_until(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(server.url)})")


@pytest.mark.slow
def test_runs_show_up_and_end_while_somebody_looks_whose_choice_stays(tmp_path: Path, browser: Browser) -> None:
    first = small_run(tmp_path)
    with served(tmp_path) as server:
        visit(browser, server, "/")
        assert browser.run("[...document.querySelectorAll('td .state')].map((e) => e.textContent)") == ["pass"]
        browser.click("input[name=a]")
        second = bare_run(tmp_path, "later", 2_000_000, {}, held=True)
        browser.wait_until("document.querySelectorAll('td .state').length === 2")
        states = "[...document.querySelectorAll('td .state')].map((e) => e.textContent).sort().join()"
        assert browser.run(states) == "pass,running"
        chosen = "document.querySelector('input[name=a]:checked').value"
        assert browser.run(chosen) == f"{first.test_name}/{first.name}"
        second.write_verdicts([], "violation")
        second.release()
        browser.wait_until(f"{states} === 'pass,violation'")
        assert browser.run(chosen) == f"{first.test_name}/{first.name}"
        assert browser.complaints == []


@pytest.mark.slow
def test_filters_sort_and_comparison_work_by_hand(tmp_path: Path, browser: Browser) -> None:
    small_run(tmp_path, "pass", seed=1)
    small_run(tmp_path, "violation", seed=2)
    with served(tmp_path) as server:
        visit(browser, server, "/")
        browser.run(
            "(() => { const s = document.querySelector('select[name=outcome]'); s.value = 'violation';"
            " s.dispatchEvent(new Event('change')); })()"
        )
        browser.wait_until("location.search.includes('outcome=violation') && document.readyState === 'complete'")
        assert browser.run("document.querySelectorAll('tbody tr').length") == 1
        visit(browser, server, "/?sort=outcome&down=0")
        assert browser.run("document.querySelector('td .state').textContent") == "violation"
        assert browser.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
        browser.run("document.querySelectorAll('input[name=a]')[0].click()")
        browser.run("document.querySelectorAll('input[name=b]')[1].click()")
        browser.run("document.querySelector('form[action=\"/compare\"]').requestSubmit()")
        browser.wait_until("location.pathname === '/compare' && document.readyState === 'complete'")
        assert "latency p99" in browser.run("document.body.innerText")
        assert browser.complaints == []


@pytest.mark.slow
def test_hostile_values_are_text_on_every_page(tmp_path: Path, browser: Browser) -> None:
    run = small_run(tmp_path, "violation", hostile=HOSTILE)
    document = run.read_test()
    document["options"] |= dict.fromkeys(("workload", "nemesis", "system", "backend", "bug"), HOSTILE)
    document["command"] = HOSTILE
    run.write_test(document)
    node = run.node_dir("<img src=x onerror=document.title='owned'>")
    (node / "a&b?c#d%41.log").write_text(HOSTILE)
    (node / "page.html").write_text(f"<title>t</title>{HOSTILE}")
    name = f"{run.test_name}/{run.name}"
    with served(tmp_path) as server:
        for path in ("/", address(run), f"/compare?a={name}&b={name}".replace("+", "%2B")):
            visit(browser, server, path)
            assert browser.run("document.querySelectorAll('main img, main script').length") == 0, path
            assert "owned" not in browser.run("document.title").split(" · ")[0]
            assert "<script>document.title='owned'</script>" in browser.run("document.body.textContent"), path
            assert browser.complaints == []
        visit(browser, server, address(run))
        links = browser.run("[...document.querySelectorAll('td a')].map((e) => e.getAttribute('href'))")
        for link in (link for link in links if "onerror" in link and "download" not in link):
            visit(browser, server, link)
            assert browser.run("document.contentType") == "text/plain"
            assert browser.run("document.title") != "owned"


def test_a_hostile_report_can_neither_read_the_site_nor_ask_it(tmp_path: Path, browser: Browser) -> None:
    run = small_run(tmp_path)
    (run.path / "report.html").write_text(
        "<body><script>document.title = 'ran ' + self.origin;"
        "fetch('/api/runs').then(() => { document.title = 'read'; }, () => { document.title += ' refused'; });"
        "</script>"
    )
    with served(tmp_path) as server:
        visit(browser, server, f"{address(run)}/files/report.html")
        browser.wait_until("document.title.endsWith('refused') || document.title === 'read'")
        assert browser.run("document.title") == "ran null refused"


@pytest.mark.slow
def test_the_stored_report_works_from_the_site(tmp_path: Path, browser: Browser) -> None:
    run = small_run(tmp_path, "violation")
    write_report(run.path)
    with served(tmp_path) as server:
        visit(browser, server, f"{address(run)}/files/report.html")
        assert "Violation" in browser.run("document.querySelector('h1').textContent")
        assert browser.complaints == []


@pytest.mark.slow
def test_the_matrix_follows_the_store_and_its_cells_lead_to_their_runs(tmp_path: Path, browser: Browser) -> None:
    first = small_run(tmp_path, "pass", seed=1)
    options = first.read_test()["options"]
    with served(tmp_path) as server:
        visit(browser, server, "/matrix")
        cell = "document.querySelector('table.matrix td a.state')"
        assert browser.run(f"{cell}.textContent") == "pass"
        second = bare_run(tmp_path, "later", 2, options)
        second.write_verdicts([], "violation")
        browser.wait_until(f"{cell}.textContent === 'violation'")
        assert browser.run("document.querySelector('ul.found .state').textContent") == "violation"
        bare_run(tmp_path, "elsewhere", 3, options | {"backend": "sim"}).write_verdicts([], "pass")
        browser.wait_until("document.querySelectorAll('table.matrix td a.state').length === 2")
        browser.click("table.matrix td a.state")
        browser.wait_until("location.pathname === '/' && document.readyState === 'complete'")
        runs = "[...document.querySelectorAll('td .state')].map((e) => e.textContent).join()"
        assert browser.run(runs) == "violation,pass"
        assert "nemesis exactly: partition,kill,pause" in browser.run("document.body.innerText")
        browser.click(".chip a")
        browser.wait_until("!location.search.includes('nemeses') && document.readyState === 'complete'")
        assert browser.complaints == []


@pytest.mark.slow
def test_a_dot_of_a_trend_leads_to_the_runs_of_its_night(tmp_path: Path, browser: Browser) -> None:
    names = night_store(tmp_path)
    with served(tmp_path) as server:
        visit(browser, server, "/trends")
        browser.run(
            "(() => { const s = document.querySelector('select[name=cell]'); s.value = 'register/kill';"
            " s.dispatchEvent(new Event('change')); })()"
        )
        browser.wait_until("location.search.includes('register') && document.readyState === 'complete'")
        dot = ".trends figure:last-child svg a:last-of-type circle"
        browser.run(f"document.querySelector('{dot}').scrollIntoView({{block: 'center'}})")
        browser.click(dot)
        browser.wait_until("location.pathname.startsWith('/night/') && document.readyState === 'complete'")
        assert browser.run("location.pathname").endswith(names[-1])
        assert browser.run("document.getElementById('count').textContent") == "60 of 120 runs"
        visit(browser, server, "/trends")
        browser.run("document.querySelectorAll('input[name=a]')[1].click()")
        browser.run("document.querySelectorAll('input[name=b]')[0].click()")
        browser.run("document.querySelector('form[action=\"/nights\"]').requestSubmit()")
        browser.wait_until("location.pathname === '/nights' && document.readyState === 'complete'")
        assert "after kill: a majority answers" in browser.run("document.body.innerText")
        assert browser.complaints == []


CONTRASTS = """
(() => {
  const light = (colour) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.match(/[0-9.]+/g).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const colour = getComputedStyle(e).backgroundColor;
    return colour !== 'rgba(0, 0, 0, 0)' || e.parentElement === null ? colour : behind(e.parentElement);
  };
  const weak = [];
  for (const e of document.querySelectorAll('main *')) {
    const said = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!said || !e.checkVisibility() || e.closest('option, .hidden')) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) weak.push(`${e.tagName}.${e.className} ${contrast.toFixed(2)}`);
  }
  return weak;
})()
"""
"""Elements whose own text has less contrast with what is behind it than WCAG 2.1 asks for (1.4.3: 4.5 to 1)."""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(tmp_path: Path, browser: Browser, scheme: str) -> None:
    for seed, outcome in enumerate(("pass", "violation", "inconclusive", "harness error", "nonsense")):
        bare_run(tmp_path, f"t{seed}", seed, {"workload": outcome}).write_verdicts([], outcome)
    bare_run(tmp_path, "empty", 9, {"workload": "empty"})
    a, b = small_run(tmp_path, "pass", seed=11), small_run(tmp_path, "violation", seed=12)
    names = night_store(tmp_path)
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        with served(tmp_path) as server:
            compared = f"/compare?a={a.test_name}/{a.name}&b={b.test_name}/{b.name}"
            nights = ("/trends", f"/night/{names[-1]}", f"/nights?a={names[0]}&b={names[-1]}")
            for path in ("/", "/?test=metadata-set", "/matrix?days=30", address(b), compared, *nights):
                visit(browser, server, path)
                assert browser.run(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
                assert browser.run(CONTRASTS) == [], path
    finally:
        browser.send("Emulation.setEmulatedMedia", features=[])


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_a_phone_and_a_screen(tmp_path: Path, browser: Browser, width: int) -> None:
    run = small_run(tmp_path, "violation")
    name = f"{run.test_name}/{run.name}"
    with served(tmp_path) as server:
        names = night_store(tmp_path)
        nights = ("/trends", f"/night/{names[-1]}", f"/nights?a={names[0]}&b={names[-1]}")
        for path in ("/", "/matrix", address(run), f"/compare?a={name}&b={name}", *nights):
            visit(browser, server, path, width=width)
            assert browser.run("document.documentElement.scrollWidth") <= width, path
            assert browser.run("document.querySelectorAll('h1').length") == 1
            assert browser.complaints == []
