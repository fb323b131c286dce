"""What goes onto the page, in the order in which a reviewer needs it: outcome, sentence, evidence, faults, coverage."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup

from splitbrain.results.calls import ints
from splitbrain.results.clocks import clocks_of
from splitbrain.results.counts import ENDS, run_counts, window_counts
from splitbrain.results.damage import standing_damage
from splitbrain.results.figures import leader_changes
from splitbrain.results.findings import Finding
from splitbrain.results.history import Op
from splitbrain.results.judgement import Judgement
from splitbrain.results.madefrom import seal
from splitbrain.results.notes import CLOCKS
from splitbrain.results.quorum import RULES
from splitbrain.results.reasons import reasons_of
from splitbrain.results.report.bounds import left_out, unchecked
from splitbrain.results.report.evidence import verdicts_of
from splitbrain.results.report.fault_rows import fault_rows
from splitbrain.results.report.guarantees import guarantees_of
from splitbrain.results.report.hostclocks import words_of
from splitbrain.results.report.inspector import packed
from splitbrain.results.report.lanes import groups_led
from splitbrain.results.report.load_plots import QUANTILE_WORDS, load_plots
from splitbrain.results.report.memberships import member_changes
from splitbrain.results.report.nodelogs import NodeLog, excerpt, node_logs
from splitbrain.results.report.past import SHOWN_MAX, Past, bugs_of, mark_of, novelty_of, past_of
from splitbrain.results.report.plots import latency_plot, rate_plot
from splitbrain.results.report.provenance import artefacts_of, command_of, options_of, size, versions_of
from splitbrain.results.report.quorum import Quorum, quorum_of
from splitbrain.results.report.quorum_plots import RECOVERIES_MAX, availability_plot, recovery_plot
from splitbrain.results.report.quorum_windows import window_rows
from splitbrain.results.report.replica_plots import LAG_WORDS, OFFSET_WORDS, replica_plots
from splitbrain.results.report.run_view import RunView, rows_of
from splitbrain.results.report.staleness import staleness_of
from splitbrain.results.report.story import story
from splitbrain.results.report.svg import WIDTH
from splitbrain.results.report.timeline import Shown, bands, timeline
from splitbrain.results.signatures import leading_first
from splitbrain.results.telemetry import TRACE_CHECKERS
from splitbrain.results.templates import environment
from splitbrain.results.text import clip

_FOLDER: Final = Path(__file__).parent
_SENTENCES_MAX: Final = 3
_AROUND_S: Final = 0.5
"""The excerpt of the logs reaches so far before and after the last op of the witness."""

_HEADLINES: Final[Mapping[str, tuple[str, str, str]]] = {
    "pass": ("pass", "Pass", "Every checker proved its property on this history."),
    "violation": ("violation", "Violation", "The system broke a guarantee. The evidence is below."),
    "inconclusive": ("inconclusive", "Inconclusive", "No violation was found, and the run proves too little."),
    "harness error": ("harness-error", "Harness error", "The harness failed: this says nothing about the system."),
}
_UNDER_WAY: Final = ("unfinished", "Under way", "This run has not ended: what follows is what was recorded so far.")
_HALF: Final = (
    "unfinished",
    "Half written",
    "The controller of this run ended before the run did. Judge what was recorded with: splitbrain analyze",
)
_UNJUDGED: Final = ("unfinished", "Not judged", "This run has no verdict. Judge it with: splitbrain analyze")


_MORE_PLOTS: Final = (
    ("quantiles", QUANTILE_WORDS),
    ("rate-by-f", "Rate by function: ok ops per second."),
    ("latency-by-f", "Latency by function: 95th percentile of ok ops from the invocation, logarithmic."),
    ("rate-by-node", "Rate by node: ok ops per second that each node answered."),
    ("latency-by-node", "Latency by node: 95th percentile of ok ops from the invocation, logarithmic."),
    ("lag", LAG_WORDS),
    ("clocks", OFFSET_WORDS),
)
"""Pictures below those of all ops, with what is said of them."""


class Page(NamedTuple):
    """A rendered report: the page, and pictures that stand by themselves, by name."""

    html: str
    plots: dict[str, str]


def render(view: RunView, past: Past | None = None) -> Page:
    """The page of a run; `past`: what other runs show, where that is known."""
    verdicts = verdicts_of(view)
    findings = _numbered(verdicts)
    witness = list(dict.fromkeys(i for verdict in verdicts for i in verdict["witness_indexes"]))
    quorum = quorum_of(view.judgement.verdicts if view.judgement else ())
    moments_s = _moments_s(view, witness, findings)
    logs, past = node_logs(view, moments_s), past_of(view) if past is None else past
    shown = Shown(witness, findings, quorum.figures)
    plots = _plots(view, shown, quorum)
    events, more_events = story(view, shown)
    windows = window_rows(quorum.figures, view.nodes, findings) if quorum.figures else []
    measured = any(clocks_of(view.events).walls_s.values())
    log_times = f"times are those of the nodes' own clocks{', less the offsets of their hosts' if measured else ''}"
    environment = _environment()
    css = {name: environment.get_template(f"{name}.css").render() for name in ("report", "plots")}
    script = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("report.js", "zoom.js"))
    pictures = {name: _standalone(plot, css["plots"]) for name, plot in plots.items()}
    written_now = {f"plots/{name}.svg": len(text.encode()) for name, text in pictures.items()}
    artefacts, more_artefacts = artefacts_of(view.run.path, written_now)
    html = environment.get_template("report.html.j2").render(
        mark=mark_of(_verdict_shown(view), past),
        run=_identity(view),
        headline=_headline(view),
        notes=view.notes,
        judgement=view.judgement,
        guarantees=guarantees_of(view.judgement.verdicts if view.judgement else ()),
        staleness=staleness_of(view.judgement.verdicts if view.judgement else ()),
        verdicts=verdicts,
        rules=RULES,
        plots=plots,
        events=events,
        more_events=more_events,
        quorum=quorum.figures,
        quorum_windows=windows,
        log_times=log_times,
        more_recoveries=max(len(quorum.figures.recovery) - RECOVERIES_MAX, 0) if quorum.figures else 0,
        window_numbers={row["number"] for row in windows},
        members_changed=bool(member_changes(view)),
        served=_served(quorum),
        leader_changes=leader_changes(view.telemetry),
        faults=fault_rows(view),
        windows=[window_counts(view.calls, w) for w in view.events.windows],
        counts=run_counts(view.calls, view.events),
        ends=ENDS,
        dense=bands(view),
        groups_led=groups_led(view),
        more_plots=_MORE_PLOTS,
        harness_ops=_harness_ops(view),
        marks=view.marks,
        reproduce=command_of(view.document),
        has_plan=view.run.plan_path.exists(),
        simulated=options_of(view.document).get("backend") == "sim",
        versions=versions_of(view.document),
        past=past,
        novelty=novelty_of(past, bugs_of(view.document)),
        others=past.others[-SHOWN_MAX:],
        bugs=bugs_of(view.document),
        unchecked=unchecked(view, verdicts, quorum),
        bounds=left_out(
            view,
            witness=witness,
            findings=len(findings),
            logs=logs,
            past=past,
            quorum=quorum,
            moments_s=moments_s,
            more_events=more_events,
        ),
        logs=logs,
        excerpt=_excerpt(view, logs, witness, findings),
        artefacts=artefacts,
        more_artefacts=more_artefacts,
        css=Markup(css["report"] + css["plots"]),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=packed(view, logs, moments_s, log_times) if plots else "",
    )
    return Page(html, pictures)


@cache
def _environment() -> jinja2.Environment:
    """Templates; kept, as compiling them takes longer than a page."""
    return environment([_FOLDER], clip=clip, size=size)


# --- the top ----------------------------------------------------------------------------------------------------------


def _headline(view: RunView) -> dict[str, Any]:
    judgement = view.judgement
    if judgement is None or view.running:
        kind, title, words = _UNDER_WAY if view.running else _HALF if view.cut_short else _UNJUDGED
        return {"kind": kind, "title": title, "sentences": [words], "more": 0}
    kind, title, words = _HEADLINES.get(judgement.outcome, _HEADLINES["harness error"])
    verdicts = judgement.verdicts
    said = {
        "violation": [v.get("sentence", "") for v in _guilty(judgement)],
        "inconclusive": [_begun(str(reason)) for reason in reasons_of(verdicts)],
        "harness error": [judgement.harness_error or ""],
        "pass": [
            v.get("sentence", "")
            for v in sorted(verdicts, key=lambda v: v.get("checker") in TRACE_CHECKERS)
            if v.get("checker") not in ("stats", "coverage")
        ],
    }.get(judgement.outcome, [])
    shown = [sentence for sentence in said if sentence]
    return {
        "kind": kind,
        "title": title,
        "sentences": shown[:_SENTENCES_MAX] or [words],
        "more": max(len(shown) - _SENTENCES_MAX, 0),
    }


def _guilty(judgement: Judgement) -> list[dict[str, Any]]:
    """The verdicts that found something, that of the leading signature first."""
    found = [verdict for verdict in judgement.verdicts if verdict.get("valid") is False]
    return leading_first(found, lambda verdict: str(verdict.get("checker", "")), judgement.signatures)


def _begun(words: str) -> str:
    """A reason as a sentence of its own."""
    return words[:1].upper() + words[1:]


def _verdict_shown(view: RunView) -> str | None:
    """The seal of the verdict that the page shows as one of what is there; None if it shows none."""
    if view.judgement is None or standing_damage(view.run.path, view.judgement.made_from) is not None:
        return None
    return seal(view.judgement)


def _identity(view: RunView) -> list[tuple[str, str]]:
    """The run in a few words: what a reviewer compares first."""
    document = view.document
    options = options_of(document)
    total = len(view.calls.invoke)
    facts: list[tuple[str, Any]] = [
        ("Test", document.get("test", view.run.test_name)),
        ("Run", view.run.name),
        ("Seed", document.get("seed")),
        ("System", options.get("system") or document.get("system")),
        ("Workload", options.get("workload")),
        ("Nemesis", options.get("nemesis")),
        ("Backend", options.get("backend")),
        ("Bugs switched on", options.get("bug") or None),
        ("Nodes", ", ".join(view.nodes)),
        ("Began", _began(document)),
        ("Lasted", f"{view.events.end_ns / 1e9:.1f} s"),
        ("Client ops", f"{total:,}"),
        ("Clocks of hosts", words_of(clocks_of(view.events))),
        ("Judged by", view.judgement.engine if view.judgement else None),
    ]
    return [(name, clip(value)) for name, value in facts if value not in (None, "")]


def _began(document: Mapping[str, Any]) -> str | None:
    start = document.get("start")
    return start.replace("T", " ").replace("+00:00", " UTC") if isinstance(start, str) else None


# --- evidence and logs ------------------------------------------------------------------------------------------------


def _numbered(verdicts: Sequence[dict[str, Any]]) -> list[Finding]:
    """All findings in the order of the page; each verdict gets the number of its first one."""
    found: list[Finding] = []
    for verdict in verdicts:
        verdict["first_finding"] = len(found) + 1
        found += verdict["findings"]
    return found


def _moments_s(view: RunView, witness: Sequence[int], findings: Sequence[Finding]) -> list[float]:
    """When something happened that matters, in seconds: evidence, and what the nemesis did."""
    named = np.asarray([*witness, *(op for finding in findings for op in finding.ops)], dtype=np.int64)
    rows = np.flatnonzero(np.isin(ints(view.history, "index"), named))
    shown = [moment.time_s for finding in findings for moment in finding.moments]
    faults = [op.invoke.time / 1e9 for op in view.events.fault_ops]
    return [*(ints(view.history, "time")[rows] / 1e9).tolist(), *shown, *faults]


def _excerpt(
    view: RunView, logs: Sequence[NodeLog], witness: Sequence[int], findings: Sequence[Finding]
) -> dict[str, Any] | None:
    """What the nodes logged around the last op of the witness; without one, around the first thing that was found."""
    times = ints(view.history, "time")
    calls = rows_of(view, witness)
    if calls:
        begin_s = int(times[view.calls.invoke[calls[-1]]]) / 1e9
        end_s = max(begin_s, int(times[view.calls.complete[calls[-1]]]) / 1e9)
    else:
        moments = [moment.time_s for finding in findings for moment in finding.moments]
        if not moments:
            return None
        begin_s = end_s = min(moments)
    lines, more = excerpt(logs, begin_s - _AROUND_S, end_s + _AROUND_S)
    return {"begin_s": begin_s - _AROUND_S, "end_s": end_s + _AROUND_S, "lines": lines, "more": more}


# --- harness, pictures ------------------------------------------------------------------------------------------------


def _harness_ops(view: RunView) -> list[Op]:
    return [op for op in view.events.harness if op.f not in ("phase", CLOCKS)]


def _served(quorum: Quorum) -> dict[str, float] | None:
    """For how many seconds no node could reach a quorum, and in how many stretches; None if that is unknown."""
    if quorum.figures is None:
        return None
    halted = [window for window in quorum.figures.windows if not window.possibly_capable]
    return {"stretches": len(halted), "seconds": sum(window.end_s - window.start_s for window in halted)}


def _plots(view: RunView, shown: Shown, quorum: Quorum) -> dict[str, Markup]:
    if view.history.num_rows == 0:
        return {}
    found = {"timeline": timeline(view, shown), "rate": rate_plot(view), "latency": latency_plot(view)}
    found |= load_plots(view) | replica_plots(view)
    if quorum.figures is not None and quorum.figures.windows:
        found["availability"] = availability_plot(quorum.figures, view.nodes, view.events.end_ns / 1e9)
    if quorum.figures is not None and quorum.figures.recovery:
        found["recovery"] = recovery_plot(quorum.figures)
    return found


def _standalone(plot: Markup, css: str) -> str:
    """A picture with its own style, on a ground of its own."""
    head, _, body = str(plot).partition(">")
    ground = f'<rect class="paper" width="{WIDTH}" height="100%"/>'
    return f"{head}><style>{css}</style>{ground}{body}\n"
