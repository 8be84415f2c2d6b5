"""When a command asks this machine's worker for pods, and when the server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from syncpod.cli.machine.own_worker import server_of
from syncpod.cli.machine.state_directory import ServerRecord, write_server
from syncpod.kernel.procfs import identify

OWN = ("127.0.0.1:7233", "default")
THEIRS = ("10.0.0.1:7233", "default")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A state directory whose server runs."""
    process = identify(os.getpid())
    assert process is not None
    write_server(tmp_path, ServerRecord(process, OWN[0], "", detached=True))
    return tmp_path


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ({}, OWN),
        ({"TEMPORAL_NAMESPACE": "pods"}, (OWN[0], "pods")),
        ({"TEMPORAL_ADDRESS": THEIRS[0]}, THEIRS),
        ({"TEMPORAL_ADDRESS": THEIRS[0], "TEMPORAL_CODEC_AUTH": "Bearer x", "TEMPORAL_CLI_AUTH": "Bearer x"}, THEIRS),
        ({"TEMPORAL_ADDRESS": ""}, None),
        ({"TEMPORAL_NAMESPACE": ""}, None),
        ({"TEMPORAL_PROFILE": "prod"}, None),
        ({"TEMPORAL_API_KEY": "key"}, None),
        ({"TEMPORAL_TLS": "true", "TEMPORAL_ADDRESS": THEIRS[0]}, None),
        ({"TEMPORAL_CONFIG_FILE": "/etc/temporal.toml"}, None),
    ],
)
def test_the_server_is_known_if_nothing_unusual_is_said(
    directory: Path, said: dict[str, str], target: tuple[str, str] | None
) -> None:
    assert server_of(directory, {"XDG_CONFIG_HOME": str(directory), **said}) == target


def test_a_configuration_file_is_not_read(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "temporalio").mkdir()
    (tmp_path / "temporalio" / "temporal.toml").write_text("")
    assert server_of(directory, {"XDG_CONFIG_HOME": str(tmp_path)}) is None


def test_without_a_server_of_its_own_there_is_none(tmp_path: Path) -> None:
    assert server_of(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path)}) is None
