"""Runs all cases, and writes their results into docs/manifests.md: `python -m qa.manifests.table`."""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from qa.manifests import documentation, examples
from qa.manifests.cases import Case, Manifests, Outcome, Row
from qa.manifests.running import Run
from qa.manifests.stand_ins import STAND_INS
from tests.runtimes.containerd import Containerd
from tests.runtimes.embedded import Embedded
from tests.runtimes.selection import CONTAINERDS
from tests.runtimes.temporal import DevServer

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "manifests.md"
LIST = examples.DIRECTORY / "README.md"

Results = Mapping[str, Mapping[str, Row]]
"""Results by the runtime's name, such as `containerd23`, and by the manifest's path."""

FIRST = "containerd23"
"""The runtime of which the document has all results; of the others, it has those that differ."""

_TITLES = {
    **{name: f"containerd {series}" for name, series in CONTAINERDS.items()},
    "embedded": "the embedded runtime",
}
_ROW = re.compile(r"^\| \[`(?P<path>[^`]+)`\]\([^)]*\) \| (?P<cells>.*) \|$", re.MULTILINE)
_CELLS = re.compile(r"(?<!\\) \| ")


def expected(document: str, runtime: str) -> dict[str, Row]:
    """The results on a runtime that the document has, by the manifest's path."""
    return {**_told(document, ""), **_told(document, _TITLES[runtime])}


def _told(document: str, about: str) -> dict[str, Row]:
    """The rows of the runtime with this title, or, for "", those of the first runtime."""
    rows: dict[str, Row] = {}
    for found in _ROW.finditer(document):
        first, outcome, seen = _CELLS.split(found["cells"])
        if about == (first if first in _TITLES.values() else ""):
            rows[found["path"]] = Row(found["path"], Outcome(outcome), _plain(seen))
    return rows


def written(document: str, results: Results) -> str:
    """The document with these results; results of other manifests and runtimes in it are kept."""
    known: dict[str, Mapping[str, Row]] = {
        runtime: {**_told(document, "" if runtime == FIRST else title), **results.get(runtime, {})}
        for runtime, title in _TITLES.items()
    }
    for name, text in (
        ("documentation", _table(documentation.MANIFESTS, known)),
        ("examples", _table(examples.MANIFESTS, known)),
        ("images", _images()),
    ):
        document = _with_section(document, name, text)
    return document


def listed(document: str) -> str:
    """The examples' README with a line for each example."""
    rows = [f"| [{case.path}]({case.path}) | {case.describes} |" for case in examples.MANIFESTS.cases]
    return _with_section(document, "examples", "\n".join(["", "| file | shows |", "|---|---|", *rows, "", ""]))


def _with_section(document: str, name: str, text: str) -> str:
    before, begin, rest = document.partition(f"<!-- {name}: begin -->\n")
    _, end, after = rest.partition(f"<!-- {name}: end -->\n")
    return "".join((before, begin, text, end, after))


def _table(manifests: Manifests, known: Results) -> str:
    first, directory = known[FIRST], manifests.directory
    rows = [case for case in manifests.cases if case.path in first]
    counts = [f"{sum(first[c.path].outcome is each for c in rows)} {each.value}" for each in Outcome]
    lines = [
        f"{len(rows)} manifests on {_TITLES[FIRST]}: {', '.join(counts)}.",
        "",
        "| manifest | what is described | outcome | seen |",
        "|---|---|---|---|",
        *(f"| {_link(case.path, directory)} | {_described(case)} | {_cells(first[case.path])} |" for case in rows),
    ]
    others = [
        f"| {_link(case.path, directory)} | {_TITLES[runtime]} | {_cells(of[case.path])} |"
        for runtime, of in known.items()
        for case in rows
        if runtime != FIRST and case.path in of and of[case.path] != first[case.path]
    ]
    if others:
        lines += ["", "Where another runtime comes to something else:", ""]
        lines += ["| manifest | runtime | outcome | seen |", "|---|---|---|---|", *others]
    return "\n".join(["", *lines, "", ""])


def _images() -> str:
    by_stand_in: dict[str, list[str]] = {}
    for name, stand_in in STAND_INS.items():
        by_stand_in.setdefault(stand_in.does, []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {does} |" for does, names in by_stand_in.items()]
    return "\n".join(["", "| images | what stands in for them |", "|---|---|", *lines, "", ""])


def _link(path: str, directory: Path) -> str:
    root = DOCUMENT.parents[1]
    return f"[`{path}`](../{directory.relative_to(root)}/{path})"


def _described(case: Case) -> str:
    text = _escaped(case.describes)
    return f"[{text}](https://kubernetes.io/docs/{case.page}/)" if case.page else text


def _cells(row: Row) -> str:
    return f"{row.outcome.value} | {_escaped(row.seen)}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _plain(text: str) -> str:
    return text.replace("&lt;", "<").replace("\\|", "|")


def main() -> None:
    """Run every manifest on the runtimes and write the document."""
    parser = argparse.ArgumentParser(prog="python -m qa.manifests.table", description=main.__doc__)
    parser.add_argument("--runtime", choices=_TITLES, action="append", help="only this runtime")
    parser.add_argument("--only", default="", help="only manifests whose path has this in it")
    options = parser.parse_args()
    results: dict[str, Mapping[str, Row]] = {}
    for name in options.runtime or _TITLES:
        with _launched(name) as runtime, DevServer.launch() as server, tempfile.TemporaryDirectory() as directory:
            results[name] = asyncio.run(_all(runtime, server, Path(directory), options.only))
    DOCUMENT.write_text(written(DOCUMENT.read_text(), results))
    LIST.write_text(listed(LIST.read_text()))


def _launched(name: str) -> Containerd | Embedded:
    return Embedded.launch() if name == "embedded" else Containerd.launch(_TITLES[name].removeprefix("containerd "))


async def _all(runtime: Containerd | Embedded, server: DevServer, directory: Path, only: str) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for manifests in (documentation.MANIFESTS, examples.MANIFESTS):
        if manifests is documentation.MANIFESTS and not isinstance(runtime, Containerd):
            continue  # the embedded runtime has no images but the machine's own programs
        place = directory / manifests.directory.name
        place.mkdir()
        async with Run.begun(manifests, runtime, server, place, only=only) as run:
            found |= await run.rows()
    return found


if __name__ == "__main__":
    main()
