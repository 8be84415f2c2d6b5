"""The bill of materials has exactly the packages that pip installs, with their hashes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    """The output of the script, which is the same each time."""
    printed = {subprocess.check_output([sys.executable, ROOT / "deploy" / "sbom.py"], cwd="/") for _ in range(2)}
    (once,) = printed
    found: dict[str, Any] = json.loads(once)
    return found


def installed() -> dict[tuple[str, str], set[str]]:
    """The packages that pip installs from requirements.txt: the hashes of each version."""
    entries = re.findall(
        r"^([\w.-]+)==([^\s;]+)([^\n]*(?:\n +--hash=[^\n]+)+)", (ROOT / "requirements.txt").read_text(), re.M
    )
    return {(name, version): set(re.findall(r"sha256:(\w+)", hashes)) for name, version, hashes in entries}


def test_packages_and_hashes_are_those_that_pip_installs(bill: dict[str, Any]) -> None:
    listed = {
        (each["name"], each["version"]): {
            hash_["content"] for reference in each["externalReferences"] for hash_ in reference["hashes"]
        }
        for each in bill["components"]
        if each["type"] == "library"
    }
    assert len(listed) > 20
    assert listed == installed()


def test_images_in_the_sbom_are_the_deployed_ones(bill: dict[str, Any]) -> None:
    listed = {
        f"{each['name']}:{each['version']}@sha256:{each['hashes'][0]['content']}"
        for each in bill["components"]
        if each["type"] == "container"
    }
    texts = [(ROOT / name).read_text() for name in ("docker-compose.yml", "Dockerfile")]
    assert listed == {image for text in texts for image in re.findall(r"(?:image:|FROM) (\S+@\S+)", text)}


def test_components_and_dependency_references_match(bill: dict[str, Any]) -> None:
    """CycloneDX 1.6 requires unique references, and dependencies between listed components."""
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    references = [each["bom-ref"] for each in (bill["metadata"]["component"], *bill["components"])]
    assert len(references) == len(set(references))
    graph = {each["ref"]: set(each["dependsOn"]) for each in bill["dependencies"]}
    libraries = {ref for ref in references if ref.startswith("pkg:pypi/")}
    assert set(graph) == libraries
    assert set[str]().union(*graph.values()) == libraries - {bill["metadata"]["component"]["bom-ref"]}
