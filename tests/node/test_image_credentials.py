"""The node's own credentials: read again after a change, ignored if unreadable."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from syncpod.node.image_credentials import NodeCredentials


def write(path: Path, user: str) -> None:
    path.write_text(json.dumps({"auths": {"quay.io": {"username": user, "password": "hunter2"}}}))
    path.touch()
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + len(user)))


def users(credentials: NodeCredentials) -> list[str]:
    return [each.username for each in credentials.keyring().lookup("quay.io/app")]


def test_a_node_without_a_credentials_file_has_no_credentials() -> None:
    assert users(NodeCredentials(None)) == []


def test_a_changed_credentials_file_takes_effect_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    credentials = NodeCredentials(path)
    assert users(credentials) == []
    write(path, "jo")
    assert users(credentials) == ["jo"]
    write(path, "al")
    assert users(credentials) == ["al"]
    path.unlink()
    assert users(credentials) == []


def test_node_credentials_have_no_secret_as_their_source(tmp_path: Path) -> None:
    write(tmp_path / "config.json", "jo")
    [credential] = NodeCredentials(tmp_path / "config.json").keyring().lookup("quay.io/app")
    assert credential.source is None


@pytest.mark.parametrize("content", ["hunter2", '{"auths": {"quay.io": {"auth": "hunter2"}}}'])
def test_an_invalid_credentials_file_is_logged_once_without_its_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    credentials = NodeCredentials(path)
    with caplog.at_level(logging.WARNING):
        assert users(credentials) == []
        assert users(credentials) == []
    [record] = caplog.records
    assert str(path) in record.getMessage()
    assert "hunter2" not in caplog.text
    write(path, "jo")
    assert users(credentials) == ["jo"]
