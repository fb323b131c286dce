"""What goes onto the page, in the order in which a reviewer needs it: outcome, sentence, evidence, faults, coverage."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import jinja2
from markupsafe import Markup

from results.calls import OPEN, cell
from results.counts import ENDS, run_counts, window_counts
from results.history import Op
from results.report.counterexample import COUNTEREXAMPLE, is_drawable
from results.report.plots import POINTS_MAX, latency_plot, latency_points, rate_plot
from results.report.run_view import RunView
from results.report.svg import WIDTH
from results.report.text import VALUE_MAX, clip
from results.report.timeline import BINS, MARKED_MAX, rows_of, timeline

_TEXT_MAX: Final = 20_000
_WITNESS_MAX: Final = 60
_FAULTS_MAX: Final = 300
_ANOMALIES_MAX: Final = 12
_ARTEFACTS_MAX: Final = 200

_HEADLINES: Final[Mapping[str, tuple[str, str, str]]] = {
    "pass": ("pass", "Pass", "Every checker proved its property on this history."),
    "violation": ("violation", "Violation", "The system broke a promise. The evidence is below."),
    "inconclusive": ("inconclusive", "Inconclusive", "No violation was found, and the run proves too little."),
    "harness error": ("harness-error", "Harness error", "The harness failed: this says nothing about the system."),
}
_UNFINISHED: Final[Mapping[bool, tuple[str, str, str]]] = {
    True: ("unfinished", "Under way", "This run has not ended: what follows is what was recorded so far."),
    False: ("unfinished", "Not judged", "This run has no verdict. Judge it with: splitbrain analyze"),
}


class Page(NamedTuple):
    """A rendered report: the page, and pictures that stand by themselves, by name."""

    html: str
    plots: dict[str, str]


def render(view: RunView) -> Page:
    """The page of a run."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(clip=clip, size=_size)
    verdicts = _verdicts(view)
    witness = list(dict.fromkeys(i for verdict in verdicts for i in verdict["witness_indexes"]))
    plots = _plots(view, witness)
    css = environment.get_template("report.css").render(), environment.get_template("plots.css").render()
    html = environment.get_template("report.html.j2").render(
        run=_identity(view),
        headline=_headline(view),
        notes=view.notes,
        judgement=view.judgement,
        verdicts=verdicts,
        plots=plots,
        faults=_faults(view),
        windows=[window_counts(view.calls, w) for w in view.around.windows],
        counts=run_counts(view.calls, view.around),
        ends=ENDS,
        harness_ops=_harness_ops(view),
        marks=view.marks,
        reproduce=_command(view.document),
        provenance=_provenance(view.document),
        bounds=_bounds(view, witness),
        artefacts=_artefacts(view.run.path),
        css=Markup(css[0] + css[1]),
    )
    return Page(html, {name: _standalone(plot, css[1]) for name, plot in plots.items()})


# --- the top ------------------------------------------------------------------------------------------------------


def _headline(view: RunView) -> dict[str, Any]:
    judgement = view.judgement
    if judgement is None or view.running:
        kind, title, words = _UNFINISHED[view.running]
        return {"kind": kind, "title": title, "sentences": [words]}
    kind, title, words = _HEADLINES.get(judgement.outcome, _HEADLINES["harness error"])
    verdicts = judgement.verdicts
    said = {
        "violation": [v.get("sentence", "") for v in verdicts if v.get("valid") is False],
        "inconclusive": [v.get("sentence", "") for v in verdicts if v.get("valid") == "unknown"]
        + [str(reason) for v in verdicts for reason in v.get("inconclusive", ())],
        "harness error": [judgement.harness_error or ""],
        "pass": [v.get("sentence", "") for v in verdicts if v.get("checker") not in ("stats", "coverage")],
    }.get(judgement.outcome, [])
    return {"kind": kind, "title": title, "sentences": [sentence for sentence in said if sentence][:6] or [words]}


def _identity(view: RunView) -> list[tuple[str, str]]:
    """The run in a few words: what a reviewer compares first."""
    document = view.document
    options = _options(document)
    total = len(view.calls.invoke)
    facts: list[tuple[str, Any]] = [
        ("Test", document.get("test", view.run.test_name)),
        ("Run", view.run.name),
        ("Seed", document.get("seed")),
        ("System", options.get("system") or document.get("system")),
        ("Workload", options.get("workload")),
        ("Nemesis", options.get("nemesis")),
        ("Bugs switched on", options.get("bug") or None),
        ("Nodes", ", ".join(view.nodes)),
        ("Began", _began(document)),
        ("Lasted", f"{view.around.end_ns / 1e9:.1f} s"),
        ("Client ops", f"{total:,}"),
        ("Judged by", view.judgement.engine if view.judgement else None),
    ]
    return [(name, clip(value)) for name, value in facts if value not in (None, "")]


def _began(document: Mapping[str, Any]) -> str | None:
    start = document.get("start")
    return start.replace("T", " ").replace("+00:00", " UTC") if isinstance(start, str) else None


def _options(document: Mapping[str, Any]) -> dict[str, Any]:
    options = document.get("options")
    return cast("dict[str, Any]", options) if isinstance(options, dict) else {}


# --- verdicts and witnesses ---------------------------------------------------------------------------------------


def _verdicts(view: RunView) -> list[dict[str, Any]]:
    """Verdicts, the most severe first, each with the ops that its evidence names."""
    found = view.judgement.verdicts if view.judgement else []
    rank: dict[bool | str, int] = {False: 0, "unknown": 1, True: 2}
    ordered = sorted(found, key=lambda v: (rank.get(v.get("valid", "unknown"), 1), not v.get("inconclusive")))
    return [_verdict(view, verdict) for verdict in ordered]


def _verdict(view: RunView, verdict: dict[str, Any]) -> dict[str, Any]:
    evidence: Any = verdict.get("evidence")
    indexes = op_indexes(evidence)[:_WITNESS_MAX] if verdict.get("valid") is not True else []
    text = json.dumps(evidence, indent=1, ensure_ascii=False, default=str) if evidence else ""
    return {
        "checker": verdict.get("checker", "?"),
        "valid": _word(verdict.get("valid")),
        "key": verdict.get("key"),
        "algorithm": verdict.get("algorithm", ""),
        "sentence": verdict.get("sentence", ""),
        "anomalies": verdict.get("anomalies", ()),
        "inconclusive": verdict.get("inconclusive", ()),
        "seconds": verdict.get("seconds", 0.0),
        "evidence": text[:_TEXT_MAX],
        "evidence_cut": max(len(text) - _TEXT_MAX, 0),
        "witness_indexes": indexes,
        "witness": _witness(view, indexes),
        "others": _other_findings(evidence),
        "picture": _picture(view, verdict),
    }


def _picture(view: RunView, verdict: Mapping[str, Any]) -> str | None:
    """The page that draws a verdict's counterexample, where there is one."""
    drawn = verdict.get("valid") is False and is_drawable(verdict.get("evidence") or {})
    return COUNTEREXAMPLE if drawn and (view.run.path / COUNTEREXAMPLE).exists() else None


def _word(valid: Any) -> str:
    return {True: "true", False: "false"}.get(valid, "unknown") if isinstance(valid, bool) else "unknown"


def op_indexes(evidence: Any) -> list[int]:
    """Indexes of the ops on which a piece of evidence rests.

    The smallest set that the evidence offers is taken: `witness` (a list of ops, or an object that has them as `ops`),
    then `ops`, then `failing_op` with its `window`; failing all, every op in it. An op is an index in the history, or
    an object with an `index` or an `invoked_index`.
    """
    if not isinstance(evidence, dict):
        return []
    known = cast("dict[str, Any]", evidence)
    witness = known.get("witness")
    if isinstance(witness, dict):
        witness = cast("dict[str, Any]", witness).get("ops")
    for offered in (witness, known.get("ops"), [*_listed(known.get("window")), known.get("failing_op")]):
        found = [index for op in _listed(offered) if (index := _index(op)) is not None]
        if found:
            return list(dict.fromkeys(found))
    return list(dict.fromkeys(_walk(known)))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _index(op: Any) -> int | None:
    if isinstance(op, dict):
        known = cast("dict[str, Any]", op)
        op = known.get("index", known.get("invoked_index"))
    return op if isinstance(op, int) and not isinstance(op, bool) else None


def _walk(value: Any) -> Iterable[int]:
    if isinstance(value, dict):
        index = _index(cast("Any", value))
        if index is not None:
            yield index
        for child in cast("dict[str, Any]", value).values():
            yield from _walk(child)
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            if isinstance(child, (dict, list)):
                yield from _walk(child)


def _other_findings(evidence: Any) -> list[str]:
    """Sentences of further findings, where a checker lists them."""
    if not isinstance(evidence, dict):
        return []
    known = cast("dict[str, Any]", evidence)
    listed: list[Any] = list(known.get("findings") or ())
    if isinstance(known.get("anomalies"), dict):
        listed += [finding for found in known["anomalies"].values() for finding in found]
    findings = [cast("dict[str, Any]", finding) for finding in listed if isinstance(finding, dict)]
    sentences = [str(finding["sentence"]) for finding in findings if "sentence" in finding]
    return sentences[1 : _ANOMALIES_MAX + 1]


def _witness(view: RunView, indexes: Sequence[int]) -> list[dict[str, Any]]:
    """The client ops with these indexes, by invocation, as rows of a table."""
    rows: list[dict[str, Any]] = []
    history = view.history
    for call in rows_of(view, indexes):
        invoke, complete = int(view.calls.invoke[call]), int(view.calls.complete[call])
        ended = complete != OPEN
        rows.append(
            {
                **{name: cell(history, name, invoke) for name in ("index", "process", "node", "f", "key")},
                "argument": cell(history, "value", invoke),
                "type": cell(history, "type", complete) if ended else "open",
                "result": cell(history, "value", complete) if ended else None,
                "end_index": cell(history, "index", complete) if ended else None,
                "term": cell(history, "term", complete) if ended else None,
                "error": cell(history, "error", complete) if ended else "no completion was recorded",
                "invoke_s": cell(history, "time", invoke) / 1e9,
                "complete_s": cell(history, "time", complete) / 1e9 if ended else None,
            }
        )
    return rows


# --- faults, harness, pictures ------------------------------------------------------------------------------------


def _faults(view: RunView) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for op in view.around.fault_ops[:_FAULTS_MAX]:
        value = op.value
        state = [f"{len(op.listed('cut'))} links cut"] if op.listed("cut") else []
        state += [f"{len(op.listed('links'))} links disturbed"] if op.listed("links") else []
        named = ("down", "paused", "disks", "clocks")
        state += [f"{name}: {' '.join(map(str, op.listed(name)))}" for name in named if op.listed(name)]
        evidence = value.get("evidence")
        rows.append(
            {
                "index": op.invoke.index,
                "f": op.invoke.f,
                "detail": value.get("shape") or value.get("spec") or "",
                "target": value.get("target", ""),
                "time_s": op.invoke.time / 1e9,
                "done_s": op.completion.time / 1e9 if op.completion else None,
                "verified": op.verified,
                "error": op.error,
                "state": ", ".join(state) or "nothing in force",
                "evidence": clip(evidence, 2000) if evidence else "",
            }
        )
    return rows


def _harness_ops(view: RunView) -> list[Op]:
    return [op for op in view.around.harness if op.f != "phase"][:50]


def _plots(view: RunView, witness: Sequence[int]) -> dict[str, Markup]:
    if view.history.num_rows == 0:
        return {}
    return {"timeline": timeline(view, witness), "rate": rate_plot(view), "latency": latency_plot(view)}


def _standalone(plot: Markup, css: str) -> str:
    """A picture with its own style, on a ground of its own."""
    head, _, body = str(plot).partition(">")
    ground = f'<rect class="paper" width="{WIDTH}" height="100%"/>'
    return f"{head}><style>{css}</style>{ground}{body}\n"


# --- the bottom ---------------------------------------------------------------------------------------------------


def _command(document: Mapping[str, Any]) -> str:
    """The command that repeats the run: as stored, else made from the stored options."""
    stored = document.get("command")
    if isinstance(stored, str) and stored:
        return stored
    words = ["splitbrain", "run"]
    for name, value in _options(document).items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
            words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words) if len(words) > 2 else ""


def _provenance(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    versions = document.get("versions")
    known = cast("dict[str, Any]", versions) if isinstance(versions, dict) else {}
    found = [(str(name), clip(version)) for name, version in known.items()]
    git = document.get("git")
    if isinstance(git, dict):
        commit = cast("dict[str, Any]", git)
        changed = " (with local changes)" if commit.get("dirty") else ""
        found.append(("git revision", clip(commit.get("revision")) + changed))
    return found


def _bounds(view: RunView, witness: Sequence[int]) -> list[str]:
    """What the page leaves out."""
    drawn, total = latency_points(view)
    bounds = [f"The timeline shows client ops as counts in {BINS} equal stretches of the run."]
    if drawn < total:
        bounds.append(
            f"The latency plot draws {drawn:,} of {total:,} ops (evenly chosen up to {POINTS_MAX:,}, and the "
            f"slowest); its lines are computed from all of them."
        )
    if len(witness) > MARKED_MAX:
        bounds.append(f"The timeline marks {MARKED_MAX} of {len(witness)} witness ops.")
    if len(view.around.fault_ops) > _FAULTS_MAX:
        bounds.append(f"The table of faults lists {_FAULTS_MAX} of {len(view.around.fault_ops)} nemesis ops.")
    bounds.append(f"Values are cut after {VALUE_MAX} characters; history.parquet has them whole.")
    return bounds


def _artefacts(folder: Path) -> list[tuple[str, int]]:
    """Files of the run with their sizes; this page aside."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    names = [(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]
    return [(name, size) for name, size in names if name not in ("report.html", "controller.lock")][:_ARTEFACTS_MAX]


def _size(count: int) -> str:
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
