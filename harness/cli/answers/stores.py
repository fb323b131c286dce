"""Answers of commands about stores, machines and parts."""

from __future__ import annotations

from typing import Literal, TypedDict

from splitbrain.harness.campaigns.doctor import Finding
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.images.stale import StaleImage
from splitbrain.harness.images.survey import ImageState
from splitbrain.results.compacting import Compacted
from splitbrain.results.pruning import Candidate


class PruneAnswer(TypedDict):
    """What was removed from a store.

    Attributes:
        dry_run: whether nothing was removed, and this is what would be.
        removed: the runs that went.
        problems: runs that could not be removed, and why.
        referred_to: runs that stay because something refers to them, each with what does.
        runs_left: how many are left.
        freed_bytes: the room that is free now.
    """

    dry_run: bool
    removed: list[Candidate]
    problems: list[str]
    referred_to: dict[str, str]
    runs_left: int
    freed_bytes: int


class CompactAnswer(TypedDict):
    """What was made smaller.

    Attributes:
        dry_run: whether nothing was done, and this is what would be.
        compacted: the runs that are smaller now.
        problems: runs that could not be made smaller, and why.
        freed_bytes: the room that is free now.
    """

    dry_run: bool
    compacted: list[Compacted]
    problems: list[str]
    freed_bytes: int


class PushedRun(TypedDict):
    """A run, or a night, that was brought into a store behind an address.

    Attributes:
        kind: which of the two.
        run: its folder here.
        to: its address.
        became: what was done; "there": it was there already; "longer": a night that was continued since it was pushed.
        bytes: how much was sent.
    """

    kind: Literal["run", "night"]
    run: str
    to: str
    became: str
    bytes: int


class PackAnswer(TypedDict):
    """An archive for the executors of a Spark cluster.

    Attributes:
        path: where it is.
        size_bytes: of it.
        contents: what is in it, with versions.
        properties: the properties of Spark that hand it over.
    """

    path: str
    size_bytes: int
    contents: list[str]
    properties: dict[str, str]


class ServeAnswer(TypedDict):
    """Where a store is served; printed once it is.

    Attributes:
        url: of the site.
        store: the folder.
    """

    url: str
    store: str


class CleanAnswer(TypedDict):
    """What killed controllers left behind.

    Attributes:
        dry_run: whether nothing was removed, and this is what would be.
        removed: a line for each thing.
        notes: what could not be looked at, or was left alone.
    """

    dry_run: bool
    removed: list[str]
    notes: list[str]


class DoctorAnswer(TypedDict):
    """What works here.

    Attributes:
        findings: of the interpreter, of Spark and of Java.
        faults: by kind of fault and backend: whether it works, and how, or why not.
    """

    findings: list[Finding]
    faults: dict[str, dict[str, Support]]


class ImagesAnswer(TypedDict):
    """Images of nodes and of systems.

    Attributes:
        images: those of the catalogue.
        stale: images that this checkout has no use for.
    """

    images: list[ImageState]
    stale: list[StaleImage]


class ListedModel(TypedDict):
    """A model.

    Attributes:
        line: what it is.
        fs: its functions.
        parameter: what may follow its name in parentheses; empty if nothing may.
    """

    line: str
    fs: list[str]
    parameter: str


Listed = dict[
    Literal["workloads", "nemeses", "checkers", "models", "systems", "backends", "bugs", "settings", "formats"],
    dict[str, str | ListedModel],
]
"""By kind of part, each name with a line; models with more."""

Pages = list[str]
"""The pages that were written."""

Folders = list[str]
"""The folders of the runs that are here now."""
