#!/usr/bin/env python3
"""Write docs/json: a JSON Schema (draft 2020-12) of every answer with --json. `make lint` checks it.

usage: tools/schemas.py [--check]

A schema that lost a field, or in which a field has another type, is refused until its format is raised in
`splitbrain.harness.cli.answers.catalogue`.
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.cluster.streamclient import StreamStatus
from splitbrain.harness.campaigns.answers import ConclusionAnswer, HuntTally, VerdictAnswer
from splitbrain.harness.cli.answers.catalogue import ANSWERS, Answer
from splitbrain.harness.cli.answers.clusters import StatusRow
from splitbrain.harness.cli.answers.runs import HuntDocument

FOLDER: Final = Path(__file__).parent.parent / "docs" / "json"
PAGE: Final = "README.md"
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
HEAD: Final = """# Answers in JSON

Made from the code by `tools/schemas.py`: do not edit it. Every command with `--json` prints one answer on standard
output: a document, or with `analyze` a line for each run and one of sums. These are their schemas, in JSON Schema.

An answer has a *format*, the number in the name of its file. Fields may be added to a format, so a reader must ignore
those that it does not know. A field that goes, or changes its type or meaning, makes the next format. Where an answer
has a field `format`, it is that number.

| command | schema | format | answer |
| --- | --- | --- | --- |
"""
_ATTRIBUTES: Final = re.compile(r"^Attributes:\n(.*)", re.M | re.S)
_ATTRIBUTE: Final = re.compile(r"^    (\w+(?:, \w+)*): (.*?)(?=^    \w+(?:, \w+)*: |\Z)", re.M | re.S)
_LIKE: Final[Mapping[str, Sequence[Any]]] = {
    "RunAnswer": (ConclusionAnswer,),
    "ShrinkAnswer": (ConclusionAnswer,),
    "HuntAnswer": (HuntTally, HuntDocument),
    "CheckedFile": (VerdictAnswer,),
    "NodeStatus": (StatusRow,),
    "SeenStream": (StreamStatus,),
}
"""The types that have the words for fields of another one."""


def schema(answer: Answer) -> dict[str, Any]:
    """The schema of an answer."""
    found = msgspec.json.schema(answer.shape)
    for name, each in found.get("$defs", {}).items():
        like = [_words(inspect.getdoc(other) or "") for other in _LIKE.get(name, ())]
        _describe(each, dict(itertools.chain.from_iterable(words.items() for words in like)))
    if answer.about:
        found["description"] = answer.about
    return {
        "$schema": DRAFT,
        "$id": f"urn:splitbrain:json:{answer.name}:{answer.format}",
        "title": f"splitbrain {answer.command} --json",
        **found,
    }


def _describe(definition: dict[str, Any], more: Mapping[str, str]) -> None:
    """Give each field the words that the docstring of its type has for it, or else that of another one."""
    text = inspect.cleandoc(definition.get("description", ""))
    found = _ATTRIBUTES.search(text)
    words = {**more, **_words(text)}
    definition["description"] = " ".join(text[: None if found is None else found.start()].split())
    definition.pop("title", None)
    for name, each in definition.get("properties", {}).items():
        if name in words:
            each["description"] = words[name]


def _words(docstring: str) -> dict[str, str]:
    """What a docstring says of each attribute."""
    found = _ATTRIBUTES.search(docstring)
    listed = [] if found is None else _ATTRIBUTE.findall(found[1])
    return {name: " ".join(line.split()) for names, line in listed for name in names.split(", ")}


def losses(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What readers of the old schema would miss in an answer by the new one."""
    now = new.get("$defs", {})
    for kind, definition in old.get("$defs", {}).items():
        if kind not in now:
            continue  # what has it says so
        fields = now[kind].get("properties", {})
        for name, then in definition.get("properties", {}).items():
            if name not in fields:
                yield f"{kind}.{name} is gone"
            elif _type(fields[name]) != _type(then):
                yield f"{kind}.{name} has another type"
        for name in set(definition.get("required", ())) - set(now[kind].get("required", ())):
            if name in fields:
                yield f"{kind}.{name} may be missing"


def _type(field: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in field.items() if name not in ("description", "default")}


def files() -> dict[str, str]:
    """Every file of the folder, with what is in it."""
    found: dict[str, str] = {}
    rows = ""
    for answer in ANSWERS:
        document = schema(answer)
        name = f"{answer.name}.{answer.format}.json"
        found[name] = msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
        top = document.get("$ref", document.get("items", {}).get("$ref", "")).rpartition("/")[2]
        line = answer.about or document.get("$defs", {}).get(top, {}).get("description", "")
        when = f" ({answer.when})" if answer.when else ""
        listed = "a list: " if document.get("type") == "array" else ""
        rows += f"| `{answer.command}`{when} | [{name}]({name}) | {answer.format} | {listed}{line} |\n"
    return {**found, PAGE: HEAD + rows}


def main(arguments: Sequence[str]) -> int:
    """Write the files, or only say whether they are what they should be."""
    exit_code = 0
    wanted = files()
    for name, text in wanted.items():
        path = FOLDER / name
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if there == text:
            continue
        lost = list(losses(msgspec.json.decode(there), msgspec.json.decode(text))) if there and name != PAGE else []
        if lost:
            print(f"{name}: {'; '.join(lost)}: raise its format in answers/catalogue.py", file=sys.stderr)
            exit_code = 1
        elif "--check" in arguments:
            print(f"docs/json/{name} is not up to date: run tools/schemas.py", file=sys.stderr)
            exit_code = 1
        else:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
