from __future__ import annotations

import re
import shutil
from importlib import metadata
from pathlib import Path

import grimp
import pytest

from syncpod.cli.main import run
from syncpod.lifecycle.version import DECISION_VERSION, decisions_of
from syncpod.worker.build import SOURCES, build_id, source_digest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def uninstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout whose environment has the dependencies, but not the package itself."""
    ask = metadata.version

    def version(name: str) -> str:
        if name == "syncpod":
            raise metadata.PackageNotFoundError(name)
        return ask(name)

    monkeypatch.setattr(metadata, "version", version)


def test_a_build_id_begins_with_the_version() -> None:
    named = f"syncpod-{metadata.version('syncpod')}+decisions.{DECISION_VERSION}."
    assert re.fullmatch(re.escape(named) + "[0-9a-f]{12}", build_id())
    assert decisions_of(build_id()) == DECISION_VERSION


def copied(to: Path) -> Path:
    """Copy the source of the decisions there."""
    for named in SOURCES:
        if (ROOT / named).is_file():
            (to / named).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / named, to / named)
        else:
            shutil.copytree(ROOT / named, to / named, dirs_exist_ok=True)
    return to


def test_everything_that_workflows_import_is_in_the_digest() -> None:
    graph = grimp.build_graph("syncpod", "workflows")
    imported = graph.find_upstream_modules("workflows", as_package=True) - {"syncpod"}
    files = {module.replace(".", "/") for module in imported}
    assert {file for file in files if not f"{file}.py".startswith(SOURCES)} == set()


def test_trees_with_different_decisions_have_different_digests(tmp_path: Path) -> None:
    copied(tmp_path)
    assert source_digest(tmp_path) == source_digest(ROOT) == source_digest(), "wherever it is installed"
    for named in SOURCES:
        before, place = source_digest(tmp_path), tmp_path / named
        inside = (path for path in sorted(place.rglob("*.py")) if path.name != "__init__.py")
        changed = place if place.is_file() else next(inside)
        changed.write_text(changed.read_text() + "\n# another decision\n")
        assert source_digest(tmp_path) != before, named
    before = source_digest(tmp_path)
    renamed = tmp_path / "workflows" / "entity.py"
    renamed.rename(renamed.with_name("renamed.py"))
    assert source_digest(tmp_path) != before


def test_compiled_and_unrelated_files_do_not_change_the_digest(tmp_path: Path) -> None:
    copied(tmp_path)
    before = source_digest(tmp_path)
    (tmp_path / "workflows" / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "workflows" / "__pycache__" / "entity.cpython-311.pyc").write_bytes(b"compiled")
    (tmp_path / "syncpod" / "pod" / "py.typed").touch()
    assert source_digest(tmp_path) == before


def test_a_tree_without_source_has_no_build_id(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no source"):
        source_digest(tmp_path)


@pytest.mark.usefixtures("uninstalled")
def test_a_checkout_that_is_not_installed_serves_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert build_id().startswith(f"syncpod-checkout+decisions.{DECISION_VERSION}.")
    assert run(["version"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "syncpod (not installed)"
