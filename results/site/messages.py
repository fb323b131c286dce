"""A request and a response of the site, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

STRICT: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page of the site may do: load its own style and script, ask its own server, and nothing else."""

STORED_PAGE: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page or picture in the store may do: show itself. It has an origin of its own, so that it can
neither read the site nor send it requests."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request.

    Attributes:
        method: "GET", "HEAD", ...
        parts: the path, split at its slashes and then percent-decoded: a slash in a part was "%2F".
        query: the parameters, decoded; the last one counts where a name comes twice.
        host: the Host header, None without one.
        if_none_match: the ETag that the browser has already.
        fetch_site, fetch_mode: the headers Sec-Fetch-Site and Sec-Fetch-Mode: where a browser sends the request, and
            what for; None from what is no browser.
    """

    method: str = "GET"
    parts: tuple[str, ...] = ()
    query: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    host: str | None = None
    if_none_match: str | None = None
    fetch_site: str | None = None
    fetch_mode: str | None = None


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response.

    Attributes:
        status: the HTTP status.
        kind: the Content-Type.
        body: all of it, or its chunks.
        length: bytes of a body that comes in chunks, None if that is not known before.
        headers: what else it says; `SAFE` comes on top.
    """

    status: int = 200
    kind: str = "text/html; charset=utf-8"
    body: bytes | Iterable[bytes] = b""
    length: int | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

    def close(self) -> None:
        """Let go of the body, whether it was sent or not."""
        close = getattr(self.body, "close", None)
        if close is not None:
            close()

    def all_headers(self) -> dict[str, str]:
        """Every header but those about the body's length."""
        return {**SAFE, "Content-Type": self.kind, **self.headers}


SAFE: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": STRICT,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every response."""


def json_response(document: Any, status: int = 200) -> Response:
    """A response for a machine."""
    body = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    return Response(status=status, kind="application/json", body=body)
