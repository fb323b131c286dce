"""Which request gets which answer."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from splitbrain.results.comparison import Comparison, Side, Subject, compare, subject_of
from splitbrain.results.errors import RunNotFoundError, SplitbrainError, UsageError
from splitbrain.results.nightcomparison import NightComparison
from splitbrain.results.nightcomparison import compare as compare_nights
from splitbrain.results.report import REPORT, rendered
from splitbrain.results.report.overlays import Overlays, overlays
from splitbrain.results.rundir import RunDir
from splitbrain.results.site import nightpages, pages
from splitbrain.results.site.beneath import Entry, entries, is_name
from splitbrain.results.site.files import LISTED_MAX, archive_response, attachment, file_response
from splitbrain.results.site.matrix import matrix
from splitbrain.results.site.messages import STORED_PAGE, Request, Response, json_response
from splitbrain.results.site.nightly import Nights, runs_of_night, trends_of_nights
from splitbrain.results.site.rows import Index, Row, Stamp, refuse_links, stamp_of
from splitbrain.results.site.selection import choices, choose, parse
from splitbrain.results.site.trends import trends
from splitbrain.results.tracks import Tracks, tracks_of

SHOWN_MAX: Final = 500
"""The largest number of files of a run that its page lists."""

_SUBJECTS_MAX: Final = 64
"""The largest number of runs whose figures are cached."""

_OVERLAYS_MAX: Final = 8
"""The largest number of pairs of runs whose pictures are cached."""

_TITLES: Final[Mapping[int, str]] = {
    400: "Bad request",
    403: "Refused",
    404: "Not found",
    405: "The store is read-only",
    500: "Internal error",
}


class Site:
    """A store as a site. Threads may share it.

    /                               the table of runs: filters, order and page in the query
    /matrix                         the nightly page; ?days=1|7|30&until=DAY
    /trends                         figures of nights; ?of=SYSTEM/BACKEND/BUG&cell=WORKLOAD/NEMESIS
    /night/NAME                     the runs of a night; ?cell=CELL&outcome=OUTCOME&page=N
    /nights?a=NAME&b=NAME           two nights side by side
    /run/TEST/RUN                   a run
    /run/TEST/RUN/files/PATH        one of its files; ?download=1 to save it
    /archive/TEST/RUN               all its files, as zip
    /compare?a=TEST/RUN&b=TEST/RUN  two runs side by side
    /api/runs, /api/runs/TEST/RUN, /api/matrix, /api/compare, /api/trends, /api/nights: the same for machines; all
    matching runs at once
    /static/...                     style and script
    """

    def __init__(self, root: Path, hosts: frozenset[str] | None) -> None:
        """Serve a store, which need not exist yet.

        Args:
            root: the store.
            hosts: names under which the site may be asked for; None for any. A page elsewhere may let its own name
                point here (DNS rebinding) and then read the answers: it cannot make a browser send another name.
        """
        self.root = root
        self.hosts = hosts
        self.index = Index(root)
        self.nights = Nights(root)
        self._rendering = threading.Lock()
        self._subjects: dict[str, tuple[Stamp, Subject]] = {}
        self._overlays: dict[tuple[tuple[str | None, Stamp | None], ...], tuple[Overlays | None]] = {}
        self._routes: dict[str, Callable[[Request], Response]] = {
            "": self._table,
            "matrix": self._matrix,
            "trends": self._trends,
            "night": self._night,
            "nights": self._two_nights,
            "run": self._run_or_file,
            "archive": self._archive,
            "compare": self._comparison,
            "api": self._api,
            "static": self._static,
        }

    def respond(self, request: Request) -> Response:
        """The answer to any request. Never raises for what a request or a store can hold."""
        machine = request.parts[:1] == ("api",)
        if request.method not in ("GET", "HEAD"):
            sentence = f"{request.method} is not allowed: a store is read-only."
            return msgspec.structs.replace(_refusal(405, sentence, machine), headers={"Allow": "GET, HEAD"})
        if self.hosts is not None and _host(request.host) not in self.hosts:
            sentence = f"This server does not answer for the host {request.host!r}: use 127.0.0.1 or localhost."
            return _refusal(403, sentence, machine)
        if request.fetch_site in ("cross-site", "same-site") and request.fetch_mode != "navigate":
            # A page elsewhere could not read the answer, but learn from it that there is one, and keep the server busy.
            return _refusal(403, "A page of another site requested this: other sites may only link here.", machine)
        try:
            route = self._routes.get(request.parts[0] if request.parts else "")
            if route is None:
                raise _no_page(request)
            return _tagged(request, route(request))
        except RunNotFoundError as error:
            return _refusal(404, str(error), machine)
        except UsageError as error:
            return _refusal(400, str(error), machine)
        except (SplitbrainError, OSError) as error:
            return _refusal(500, str(error), machine)
        except Exception as error:  # of any kind: a damaged run must not hide the rest of the store
            return _refusal(500, f"unexpected {type(error).__name__}: {error}", machine)

    # --- pages ------------------------------------------------------------------------------------------------------

    def _table(self, request: Request) -> Response:
        wanted, rows = parse(request.query), self.index.rows()
        drawn = trends([row for row in rows if row.test == wanted.test]) if wanted.test else []
        return _page(pages.table_page(str(self.root), choose(rows, wanted), wanted, choices(rows), drawn))

    def _matrix(self, request: Request) -> Response:
        if request.parts != ("matrix",):
            raise _no_page(request)
        found = matrix(self.index.rows(), request.query)
        asked = found.until if request.query.get("until", "").strip() else ""
        return _page(pages.matrix_page(str(self.root), found, asked))

    def _trends(self, request: Request) -> Response:
        if request.parts != ("trends",):
            raise _no_page(request)
        return _page(nightpages.trends_page(str(self.root), trends_of_nights(self.nights, request.query)))

    def _night(self, request: Request) -> Response:
        match request.parts:
            case (_, name):
                found = runs_of_night(self.nights.find(name), self.root, request.query)
                return _page(nightpages.night_page(found))
            case _:
                raise _no_page(request)

    def _two_nights(self, request: Request) -> Response:
        if request.parts != ("nights",):
            raise _no_page(request)
        return _page(nightpages.comparison_page(self._nights_compared(request.query), standalone=False))

    def _nights_compared(self, query: Mapping[str, str]) -> NightComparison:
        found = [self.nights.find(query.get(side, "")) for side in ("a", "b")]
        a, b = (each.night for each in found)
        if a is None or b is None:
            raise UsageError("the document of one of these nights cannot be read: choose others.")
        return compare_nights(a, b, *(each.table for each in found))

    def _run_or_file(self, request: Request) -> Response:
        match request.parts:
            case (_, test, run):
                rows = self.index.rows()
                row = self._row(rows, test, run)
                subject, files = self._subject_to_show(row), self._files(row)
                return _page(pages.run_page(row, _before(rows, row), subject, files, SHOWN_MAX))
            case (_, test, run, "files", *parts):
                download = request.query.get("download", "") == "1"
                if parts == [REPORT] and (page := self._page_on_demand(test, run, download)) is not None:
                    return page
                return file_response(self.root, _folder(test, run), parts, download=download)
            case _:
                raise _no_page(request)

    def _page_on_demand(self, test: str, run: str, download: bool) -> Response | None:
        """The page of a run that has none, made for this answer and not kept: a store is read-only here.

        None for a run that has one, and for one of which nothing can be shown.
        """
        path = self.root.joinpath(*_folder(test, run))
        if os.path.lexists(path / REPORT) or self._row(self.index.rows(), test, run).state == "damaged":
            return None
        refuse_links(path)
        with self._rendering:  # one at a time: the page of a long run takes memory
            html = rendered(path)
        refuse_links(path)  # as for its figures
        headers = {"Content-Security-Policy": STORED_PAGE}
        if download:
            headers["Content-Disposition"] = attachment(REPORT)
        return Response(body=html.encode("utf-8", "backslashreplace"), headers=headers)

    def _archive(self, request: Request) -> Response:
        match request.parts:
            case (_, test, run):
                return archive_response(self.root, _folder(test, run), f"{test}-{run}")
            case _:
                raise _no_page(request)

    def _comparison(self, request: Request) -> Response:
        sides = self._sides(request.query)
        found = compare(*(Side(subject.name, [subject]) for _, subject in sides))
        return _page(pages.comparison_page(found, self._drawn(sides), standalone=False))

    def _static(self, request: Request) -> Response:
        match request.parts:
            case (_, name) if name in pages.STATIC:
                return Response(kind=pages.STATIC[name], body=pages.static(name))
            case _:
                raise _no_page(request)

    # --- for machines -------------------------------------------------------------------------------------------------

    def _api(self, request: Request) -> Response:
        match request.parts:
            case (_, "runs"):
                rows = self.index.rows()
                chosen = choose(rows, parse(request.query), per_page=max(len(rows), 1))
                return json_response({"total": chosen.total, "matching": chosen.matching, "runs": chosen.rows})
            case (_, "runs", test, run):
                row = self._row(self.index.rows(), test, run)
                return json_response(self._document(row, self._subject_to_show(row)))
            case (_, "matrix"):
                return json_response(matrix(self.index.rows(), request.query))
            case (_, "trends"):
                return json_response(nightpages.trends_document(trends_of_nights(self.nights, request.query)))
            case (_, "nights"):
                return json_response(self._nights_compared(request.query))
            case (_, "compare"):
                return json_response(self._compared(request.query))
            case _:
                raise _no_page(request)

    def _document(self, row: Row, subject: Subject | None) -> dict[str, Any]:
        files = [
            {"path": pages.visible(entry.path), "size": entry.size, "refused": entry.refused}
            for entry in self._files(row)
        ]
        if subject is None:
            return {"run": row, "test": None, "verdicts": [], "figures": None, "files": files}
        documents = {"test": subject.document, "verdicts": subject.verdicts, "figures": subject.figures}
        return {"run": row, **documents, "files": files}

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _row(self, rows: Sequence[Row], test: str, run: str) -> Row:
        found = next((row for row in rows if (row.test, row.run) == (test, run)), None)
        if found is None:
            raise RunNotFoundError(f"there is no run {test}/{run} in the store {self.root}.")
        return found

    def _subject_to_show(self, row: Row) -> Subject | None:
        """None for a damaged run: its row says what is wrong."""
        if row.state == "damaged":
            return None
        try:
            return self._subject(row)
        except RunNotFoundError:
            return None  # it was removed just now

    def _subject(self, row: Row) -> Subject:
        """The run with its figures, which are kept while its files stay as they are; none yet for one under way."""
        path = self.root.joinpath(*row.parts)
        refuse_links(path)
        if row.state == "running":
            verdicts = RunDir(path).read_verdicts()
            return Subject(
                name=row.name,
                state=row.state,
                document=RunDir(path).read_test(),
                verdicts=verdicts.verdicts if verdicts is not None else [],
                figures=None,
            )
        stamp = stamp_of(str(path))
        kept = self._subjects.get(str(path))
        if kept is not None and kept[0] == stamp:
            return kept[1]
        found = subject_of(RunDir(path))
        refuse_links(path)  # what was read by name just now is shown only if no link took a place meanwhile
        if len(self._subjects) >= _SUBJECTS_MAX:
            self._subjects.clear()
        self._subjects[str(path)] = (stamp, found)
        return found

    def _files(self, row: Row) -> list[Entry]:
        try:
            return entries(self.root, row.parts, LISTED_MAX)
        except RunNotFoundError:
            return []  # a folder that is a link: its row says so

    def _compared(self, query: Mapping[str, str]) -> Comparison:
        return compare(*(Side(subject.name, [subject]) for _, subject in self._sides(query)))

    def _sides(self, query: Mapping[str, str]) -> list[tuple[Row, Subject]]:
        rows, sides = self.index.rows(), list[tuple[Row, Subject]]()
        for side in ("a", "b"):
            test, slash, run = query.get(side, "").partition("/")
            if not slash:
                raise UsageError("choose two runs, an A and a B, in the table of runs; here: ?a=TEST/RUN&b=TEST/RUN.")
            row = self._row(rows, test, run)
            sides.append((row, self._subject(row)))
        return sides

    def _drawn(self, sides: Sequence[tuple[Row, Subject]]) -> Overlays | None:
        """The runs one over the other, kept while their files stay as they are; one under way is not drawn yet."""
        paths = [self.root.joinpath(*row.parts) for row, _ in sides]
        ended = [path if row.state != "running" else None for path, (row, _) in zip(paths, sides, strict=True)]
        key = tuple((None, None) if path is None else (str(path), stamp_of(str(path))) for path in ended)
        kept = self._overlays.get(key)
        if kept is not None:
            return kept[0]
        tracks: list[Tracks] = []
        for path in ended:
            if path is None:
                tracks.append(Tracks([], problems=("it has not ended",)))
                continue
            refuse_links(path)
            tracks.append(tracks_of([RunDir(path)]))
            refuse_links(path)  # as for its figures
        if len(self._overlays) >= _OVERLAYS_MAX:
            self._overlays.clear()
        found = overlays(*tracks)
        self._overlays[key] = (found,)
        return found


def _before(rows: Sequence[Row], row: Row) -> Row | None:
    """The latest run of the same test that began before this one, None if it is the first."""
    return next((each for each in rows if each.test == row.test and each.run < row.run), None)


def _folder(test: str, run: str) -> tuple[str, str]:
    """The run's folder, relative to the store.

    Raises:
        RunNotFoundError: these cannot be names.
    """
    if not (is_name(test) and is_name(run)):
        raise RunNotFoundError(f"there is no run {test!r}/{run!r} in the store.")
    return (f"test={test}", f"run={run}")


def _page(html: str) -> Response:
    return Response(body=html.encode("utf-8", "backslashreplace"))


def _tagged(request: Request, response: Response) -> Response:
    """The response with an ETag, or "not modified" where the browser has it: a page asks for itself all the time."""
    if not isinstance(response.body, bytes):
        return response
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:32]}"'
    headers = {**response.headers, "ETag": tag}
    if request.if_none_match == tag:
        return Response(status=304, kind=response.kind, headers=headers)
    return msgspec.structs.replace(response, headers=headers)


def _refusal(status: int, sentence: str, machine: bool) -> Response:
    if machine:
        return json_response({"error": pages.visible(sentence)}, status)
    return msgspec.structs.replace(_page(pages.error_page(_TITLES[status], sentence)), status=status)


def _no_page(request: Request) -> RunNotFoundError:
    return RunNotFoundError(f"there is no page {'/'.join(('', *request.parts))!r}.")


def _host(header: str | None) -> str:
    """The host that was asked for, without its port."""
    name = (header or "").strip().lower()
    return name if name.endswith("]") else name.rpartition(":")[0] or name


def loopback_hosts(host: str) -> frozenset[str] | None:
    """Names under which a site may be asked for that is bound to `host`; None (any) if others reach it anyway."""
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return None
    return frozenset({"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host})


def split_path(raw: str) -> Sequence[str]:
    """The parts of a path as it stands in a request, each percent-decoded by itself; empty ones at the ends go."""
    return tuple(unquote(part, errors="surrogateescape") for part in raw.strip("/").split("/") if raw.strip("/"))
