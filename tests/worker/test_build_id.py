from __future__ import annotations

from importlib import metadata

import pytest

import worker
from syncpod.cli.main import run
from syncpod.lifecycle.version import DECISION_VERSION


@pytest.fixture
def uninstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout whose environment has the dependencies, but not the package itself."""
    ask = metadata.version

    def version(name: str) -> str:
        if name == "syncpod":
            raise metadata.PackageNotFoundError(name)
        return ask(name)

    monkeypatch.setattr(metadata, "version", version)


def test_a_build_is_named_for_its_version() -> None:
    assert worker.build_id() == f"syncpod-{metadata.version('syncpod')}+decisions.{DECISION_VERSION}"


@pytest.mark.usefixtures("uninstalled")
def test_a_checkout_that_is_not_installed_serves_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert worker.build_id() == f"syncpod-checkout+decisions.{DECISION_VERSION}"
    assert run(["version"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "syncpod (not installed)"
