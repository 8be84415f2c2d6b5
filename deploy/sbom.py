"""Write the software bill of materials (CycloneDX 1.6, JSON) of what an installation of syncpod has.

`python deploy/sbom.py` reads uv.lock, docker-compose.yml and the Dockerfile, and prints the same for the same files: no
time, no random number. Packages that only tests and checks need are left out.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = "syncpod"
_IMAGE: Final = re.compile(r"([a-z0-9][a-z0-9./-]*):([\w.-]+)@sha256:([0-9a-f]{64})")

Package = Mapping[str, Any]
"""A package of uv.lock."""


def bill(lock: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """Return the bill of a parsed uv.lock, and of the images that the texts of files name by digest.

    Raises KeyError for a lock without the project, or with a dependency that it does not hold.
    """
    packages = _by_name(lock)
    (project,) = packages[PROJECT]
    needed = _needed(project, packages)
    images = sorted({found for text in texts for found in _IMAGE.findall(text)})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": _ref(project),
                "name": PROJECT,
                "version": project["version"],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [*map(_component, needed), *(_image(*image) for image in images)],
        "dependencies": [
            {"ref": _ref(each), "dependsOn": sorted(_ref(one) for one in _direct(each, packages))}
            for each in (project, *needed)
        ],
    }


def _by_name(lock: Mapping[str, Any]) -> dict[str, list[Package]]:
    """Return the packages by name: one name has several versions where environments need different ones."""
    found: dict[str, list[Package]] = {}
    for package in lock["package"]:
        found.setdefault(package["name"], []).append(package)
    return found


def _needed(project: Package, packages: Mapping[str, Sequence[Package]]) -> list[Package]:
    """Return all that the project needs to run, in any environment, by name and version."""
    found: dict[str, Package] = {}
    waiting = list(_direct(project, packages))
    while waiting:
        package = waiting.pop()
        if _ref(package) not in found:
            found[_ref(package)] = package
            waiting.extend(_direct(package, packages))
    return [found[ref] for ref in sorted(found)]


def _direct(package: Package, packages: Mapping[str, Sequence[Package]]) -> Iterator[Package]:
    """Yield what a package depends on, with the dependencies of the extras that others ask of it.

    The project's own extras are not part of an installation that nobody has asked for them.
    """
    extras = package.get("optional-dependencies", {}).values() if package["name"] != PROJECT else ()
    for wanted in (*package.get("dependencies", ()), *(each for extra in extras for each in extra)):
        for each in packages[wanted["name"]]:
            if wanted.get("version", each["version"]) == each["version"]:
                yield each


def _ref(package: Package) -> str:
    return f"pkg:pypi/{package['name']}@{package['version']}"


def _component(package: Package) -> dict[str, Any]:
    files = [*([package["sdist"]] if "sdist" in package else []), *package.get("wheels", ())]
    return {
        "type": "library",
        "bom-ref": _ref(package),
        "name": package["name"],
        "version": package["version"],
        "purl": _ref(package),
        "externalReferences": [
            {
                "type": "distribution",
                "url": each["url"],
                "hashes": [{"alg": "SHA-256", "content": each["hash"].removeprefix("sha256:")}],
            }
            for each in sorted(files, key=lambda each: str(each["url"]))
        ],
    }


def _image(name: str, tag: str, digest: str) -> dict[str, Any]:
    path, last = (f"{name.rpartition('/')[0] or 'library'}/", name.rpartition("/")[2])
    purl = f"pkg:docker/{path}{last}@sha256%3A{digest}?tag={tag}"
    return {
        "type": "container",
        "bom-ref": purl,
        "name": name,
        "version": tag,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def main() -> None:
    """Print the bill of this checkout."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    texts = [(ROOT / name).read_text() for name in ("docker-compose.yml", "Dockerfile")]
    json.dump(bill(lock, texts), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
