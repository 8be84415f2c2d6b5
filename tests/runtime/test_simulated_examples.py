"""The examples of simulated pods and the scripts in their documentation are accepted by the runtime."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from syncpod.pod import Pod, admit_pod, load_documents, pod_to_wire
from syncpod.runtime.simulation.script import (
    CONTAINER_CALLS,
    POD_CALLS,
    PREFIX,
    check_scripts,
    pod_script,
    read_container,
)

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "simulated").glob("*.yaml"))
REFERENCE = (ROOT / "docs" / "simulated.md").read_text()


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its headings; the first cell is carried on where it is empty."""
    text = REFERENCE.partition(f"### {section}\n")[2].partition("\n#")[0]
    cells = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert cells, f"no table in the section {section}"
    made: list[list[str]] = []
    for row in cells:
        row[0] = row[0].strip() or made[-1][0]
        made.append(row)
    return made


def written(section: str) -> list[tuple[str, Any]]:
    """Each field of a section's table with each of its examples."""
    pairs = []
    for names, examples, *_ in rows(section):
        fields, values = re.findall(r"`(.+?)`", names), re.findall(r"`(.+?)`", examples)
        if len(fields) > 1:
            pairs += list(zip(fields, values, strict=False))
        else:
            pairs += [(fields[0], value) for value in values]
    return [(field, json.loads(value)) for field, value in pairs]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_each_example_pod_has_valid_scripts_for_its_containers(path: Path) -> None:
    (document,) = load_documents(path.read_text(), source=path.name)
    assert isinstance(document, Pod)
    pod = admit_pod(pod_to_wire(document))
    assert pod.metadata.name == path.stem
    check_scripts(pod.metadata.annotations)
    names = {each.name for each in (*pod.spec.init_containers, *pod.spec.containers)}
    assert {key.removeprefix(PREFIX) for key in pod.metadata.annotations} <= {*names, "pod"}


@pytest.mark.parametrize(("field", "example"), written("Container scripts"))
def test_each_field_of_a_container_is_documented_as_it_is_read(field: str, example: Any) -> None:
    script = {field: example, **({"runTime": "1s"} if field in ("exitCode", "exitCodes", "oomKilled") else {})}
    assert read_container("web", json.dumps(script)) != read_container("web", "{}")


@pytest.mark.parametrize(("field", "example"), [*written("Sandbox scripts"), *written("Faults")])
def test_each_field_of_a_sandbox_is_documented_as_it_is_read(field: str, example: Any) -> None:
    assert pod_script({f"{PREFIX}pod": json.dumps({field: example})}) != pod_script({})


def test_all_fields_and_all_calls_are_documented() -> None:
    with pytest.raises(ValueError, match="unknown field") as refused:
        read_container("web", '{"?": 1}')
    fields = set(str(refused.value).partition("there are ")[2].split(", "))
    shown = {field for row in rows("Container scripts") for field in re.findall(r"`(.+?)`", row[0])}
    assert shown == fields
    assert all(f"`{call}`" in REFERENCE for call in (*CONTAINER_CALLS, *POD_CALLS))
