"""docs/pod-support.md is up to date with admission. `python -m tests.pod.test_support_table` writes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from syncpod.pod import admit, check_supported, check_without_effect, parse_pod, with_defaults
from syncpod.pod.support_table import _NOTES, _TAKEN_SINCE, Support, rendered, rows
from tests.pod.everything import EVERYTHING

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "pod-support.md"
BEGIN, END = "<!-- fields: begin -->\n", "<!-- fields: end -->\n"


def written(document: str) -> str:
    """The document with its table from the current models."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{rendered()}\n{END}", document, flags=re.DOTALL)


def test_the_document_matches_the_models() -> None:
    text = DOCUMENT.read_text()
    assert text == written(text), "run `python -m tests.pod.test_support_table`"


def test_every_note_is_about_an_accepted_field() -> None:
    taken = {row.path.removesuffix("[]") for row in rows() if row.support is Support.TAKEN}
    assert {*_NOTES, *_TAKEN_SINCE} <= taken


def test_fields_listed_as_refused_or_ignored_are_refused_or_ignored() -> None:
    by_path = {row.path: row.support for row in rows()}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "finalizers": ["example.com/x"]},
        "spec": {
            "containers": [{"name": "a", "image": "b", "volumeDevices": [{"name": "c", "devicePath": "/d"}]}],
            "schedulerName": "mine",
            "os": {"name": "windows"},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        },
    }
    pod = with_defaults(parse_pod(document))
    refused = {problem.path for problem in check_supported(pod)}
    assert refused == {"spec.containers[0].volumeDevices", "spec.os.name"}
    assert by_path["spec.<containers>[].volumeDevices[]"] is Support.REFUSED
    assert by_path["spec.os.name"] is Support.PARTLY
    assert [problem.path for problem in check_without_effect(pod)] == ["spec.schedulerName"]
    assert by_path["spec.schedulerName"] is Support.WARNED
    assert by_path["spec.hostAliases[].ip"] is Support.TAKEN
    taken = {**document, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    assert [problem.path for problem in admit(taken).warnings] == ["metadata.finalizers"]
    assert by_path["metadata.finalizers[]"] is Support.WARNED


def row_path(path: str) -> str:
    """The path of a field's row: without indexes, and the same for all lists of containers."""
    return re.sub(r"^spec\.(c|initC|ephemeralC)ontainers\[\]", "spec.<containers>[]", re.sub(r"\[\d+\]", "[]", path))


def test_every_row_of_the_table_holds_for_a_pod_with_every_field() -> None:
    """Each field that is refused or warned about has such a row, and each such row its field."""
    pod = with_defaults(parse_pod(EVERYTHING))
    listed = {support: {row.path.removesuffix("[]") for row in rows() if row.support is support} for support in Support}
    refused = {row_path(problem.path) for problem in check_supported(pod)}
    resources = {path for path in refused if path.endswith("[example.com/gpu]")}
    warned = {row_path(problem.path) for problem in check_without_effect(pod)}
    # One pod cannot have everything: what speaks of Windows, and claims of the pod as a whole, it has not got.
    windows = {"spec.<containers>[].securityContext.windowsOptions", "spec.securityContext.windowsOptions"}
    assert refused - resources == listed[Support.REFUSED] - windows - {"spec.resources.claims"}
    unset = {path for path in listed[Support.WARNED] if path.startswith("metadata.")}
    unset |= {"spec.schedulingGates", "spec.automountServiceAccountToken"}
    assert warned - {"spec.tolerations"} == listed[Support.WARNED] - unset


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
