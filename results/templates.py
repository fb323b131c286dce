"""Jinja environments of the pages; compiled templates are kept in the user's cache, as kernels are.

To compile the templates of a run's page takes about half a CPU second, longer than to fill them in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from jinja2.bccache import Bucket

from splitbrain.results.cachefolder import kept_for_user


def environment(folders: Sequence[Path], **filters: Callable[..., Any]) -> jinja2.Environment:
    """An environment that escapes HTML and refuses unknown names.

    Args:
        folders: where its templates are.
        filters: more filters, by name.
    """
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=_cache(),
    )
    made.filters.update({"urlencode": _address, **filters})
    return made


def _address(name: str) -> str:
    """Jinja's filter, for names of any bytes: a file that a node left may have a name that is not UTF-8."""
    return quote(name.encode("utf-8", "surrogateescape"))


class _Kept(jinja2.FileSystemBytecodeCache):
    """A cache that may fail: neither a damaged file nor a full disk may cost a page."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what was kept; what cannot be read is compiled again."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # unpickling damaged bytes may raise anything
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template."""
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _cache() -> _Kept | None:
    folder = kept_for_user("templates", version("splitbrain"))
    return None if folder is None else _Kept(str(folder))
