"""A process notifies its service manager once that it is ready, and runs without one, too."""

import os
import socket
from pathlib import Path

import pytest

from syncpod.kernel.service_notification import SOCKET, notify_ready


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_hears_that_a_process_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name if abstract else name)
        manager.settimeout(10)
        monkeypatch.setenv(SOCKET, "@" + name if abstract else name)
        notify_ready()
        assert manager.recv(100) == b"READY=1"
    assert SOCKET not in os.environ, "children would speak for the service, too"


@pytest.mark.parametrize("address", ["", "not-a-path", "/nowhere/notify"])
def test_without_a_manager_it_goes_on(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv(SOCKET, address)
    notify_ready()
