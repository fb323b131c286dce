"""Small working parts, which `splitbrain new` copies: "starter" stands for the name that the user gives.

Each module here is one complete part, and the module test_NAME beside it tests it.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from splitbrain.results.errors import UnknownNameError, UsageError

_HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_TAKEN: Final = frozenset({"splitbrain", "starter", "test", "tests"})

KINDS: Final[Mapping[str, tuple[tuple[str, ...], str, str]]] = {
    "workload": (("workload",), "splitbrain.workloads", "{module}.workload:{module}"),
    "nemesis": (("nemesis",), "splitbrain.nemeses", "{module}.nemesis:{CONSTANT}"),
    "system": (("server", "system"), "splitbrain.systems", "{module}.system:{Class}"),
    "model": (("model",), "splitbrain.models", "{module}.model:{Class}"),
    "checker": (("checker",), "splitbrain.checkers", "{module}.checker:{Class}"),
}
"""By kind of part: its modules, the group of its entry point, and what that leads to."""

_PROJECT: Final = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["splitbrain"]

[project.entry-points."{group}"]
{name} = "{location}"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""


def create(kind: str, name: str, into: Path) -> list[Path]:
    """Write a package with one part that works, and its test; or add the part to a package that this function wrote.

    The files, in order, are returned.

    Args:
        kind: a key of `KINDS`.
        name: what the part is called; its module has underscores for hyphens.
        into: the folder in which the package's folder is made.

    Raises:
        UnknownNameError: there are no parts of this kind.
        UsageError: the name cannot be that of a module, or is that of a module or part that is there already, or the
            folder is there and is no such package, or has the part.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of part", kind, KINDS)
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(module) or module in _TAKEN:
        raise UsageError(
            f"{name!r} cannot be the name of a package: use small letters, digits and hyphens, as my-{kind}."
        )
    if name in _own(kind):
        raise UsageError(
            f"splitbrain has a {kind} {name!r} itself, which would hide yours: choose another name, such as my-{name}."
        )
    folder = into / name
    if module in sys.stdlib_module_names or (not folder.exists() and _is_module(module)):
        raise UsageError(
            f"{name!r} cannot be the name of a package: there is a Python module {module} already. Choose another "
            f"name, such as my-{name}."
        )
    if folder.exists():
        return _write(folder, _added(kind, name, module, folder))
    return _write(folder, _contents(kind, name, module))


def _own(kind: str) -> Collection[str]:
    """The names that parts of this kind cannot have: those of our own, and with a nemesis those of their ops, too."""
    if kind == "nemesis":
        from splitbrain.nemesis.catalogue import BUILT_IN, descriptions

        return {*descriptions(), *(name for of in BUILT_IN for name in (of.name, of.start_f, of.stop_f))}
    if kind == "workload":
        from splitbrain.workloads.catalogue import WORKLOADS

        return WORKLOADS.keys()
    if kind == "system":
        from splitbrain.harness.systems.catalogue import SYSTEMS

        return SYSTEMS.keys()
    if kind == "model":
        from splitbrain.checkers import models

        return models.names()
    from splitbrain.checkers.registry import CHECKERS

    return CHECKERS.keys()


def _is_module(name: str) -> bool:
    """Whether Python finds a module of that name; a folder that is none counts for nothing."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None


def _added(kind: str, name: str, module: str, folder: Path) -> dict[str, str]:
    """The texts of the files that add a part to a package that `create` wrote, by path.

    Raises:
        UsageError: the folder is not such a package, or has a file of that name.
    """
    project = _project_of(folder, name, module)
    if project is None:
        raise UsageError(
            f"{folder} is there already, and is not a package that `splitbrain new` wrote: choose another name, or "
            f"another folder with --into, and move the files of the new package by hand."
        )
    found = _contents(kind, name, module)
    found[f"tests/test_{module}_{kind}.py"] = found.pop(f"tests/test_{module}.py")
    del found[f"{module}/__init__.py"], found["pyproject.toml"]
    del found[f"{module}/py.typed"]
    for path in found:
        if (folder / path).exists():
            raise UsageError(f"{folder / path} is there already: this package has a {kind}. Choose another name.")
    return {"pyproject.toml": _with_entry(project, kind, name, module), **found}


def _project_of(folder: Path, name: str, module: str) -> str | None:
    """The text of the package's pyproject.toml; None if `create` did not write this package."""
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text).get("project", {})
    except (OSError, ValueError):
        return None
    groups = project.get("entry-points", {})
    ours = project.get("name") == name and any(group.startswith("splitbrain.") for group in groups)
    return text if ours and (folder / module / "__init__.py").is_file() else None


def _with_entry(project: str, kind: str, name: str, module: str) -> str:
    """A pyproject.toml with the entry point of a part."""
    _, group, location = KINDS[kind]
    head = f'[project.entry-points."{group}"]\n'
    line = f'{name} = "{location.format(**_words(module))}"\n'
    if head in project:
        return project.replace(head, head + line, 1)
    before, tool, after = project.partition("[tool.")
    return f"{before.rstrip()}\n\n{head}{line}\n{tool}{after}"


def _words(module: str) -> dict[str, str]:
    return {"module": module, "CONSTANT": module.upper(), "Class": module.title().replace("_", "")}


def _contents(kind: str, name: str, module: str) -> dict[str, str]:
    """The texts of the files, by path."""
    modules, group, location = KINDS[kind]
    words = _words(module)
    found = {
        "pyproject.toml": _PROJECT.format(name=name, module=module, group=group, location=location.format(**words)),
        f"{module}/__init__.py": f'"""A {kind} for splitbrain."""\n',
        f"{module}/py.typed": "",
    }
    for each in modules:
        found[f"{module}/{each}.py"] = _renamed((_HERE / f"{each}.py").read_text(), words)
    found[f"tests/test_{module}.py"] = _renamed((_HERE / f"test_{kind}.py").read_text(), words)
    return found


def _renamed(text: str, words: Mapping[str, str]) -> str:
    text = text.replace("splitbrain.harness.campaigns.starters", words["module"])
    for token, word in (("STARTER", "CONSTANT"), ("Starter", "Class"), ("starter", "module")):
        text = text.replace(token, words[word])
    return text


def _write(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    """Write all files.

    Raises:
        UsageError: the folder cannot be written.
    """
    paths = [folder / path for path in contents]
    try:
        for path, text in zip(paths, contents.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}. Give another --into.") from error
    return paths
