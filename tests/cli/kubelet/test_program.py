"""`syncpod-kubelet` is started like a kubelet, and its pods continue after its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncpod.cli.kubelet.doors import early_ports
from syncpod.cli.kubelet.reading import Given
from tests.cli.conftest import program
from tests.runtimes.embedded import Embedded
from tests.runtimes.ports import free_port

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "app", "image": "busybox:1", "command": ["sleep", "3600"]}],
    },
}


class Kubelet:
    """A program in a kubelet's place, without a cluster, on the embedded runtime."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self.manifests, self.root = directory / "manifests", directory / "root"
        self.manifests.mkdir()
        self.log = directory / "log"
        self.config = directory / "config.yaml"
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": str(self.manifests),
            "containerRuntimeEndpoint": endpoint,
            "podLogsDir": str(directory / "logs"),
            "cgroupsPerQOS": False,
            "failSwapOn": False,
            "healthzPort": 0,
            "registryPullQPS": 7,
        }
        self.environ = {"SYNCPOD_STATE_DIR": str(self.root / "syncpod")}
        self.memory = directory / "memory"
        self.readable = free_port()
        configuration |= {"address": "127.0.0.1", "readOnlyPort": self.readable}
        self.config.write_text(yaml.safe_dump(configuration))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in the background."""
        command = [sys.executable, "-m", "syncpod.cli.kubelet.program", f"--config={self.config}"]
        command += [f"--root-dir={self.root}", "--hostname-override", "n1"]
        environ = {**os.environ, "TEMPORAL_CONFIG_FILE": os.devnull, "SYNCPOD_MEMORY_DIR": str(self.memory)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)

    def end(self, number: signal.Signals) -> int:
        """Send it a signal; return its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(60)

    def pods(self) -> list[dict[str, Any]]:
        """The node's pods, as listed by its worker."""
        shown = program("get", "pods", "-o", "json", environ=self.environ)
        return json.loads(shown.out)["items"] if shown.code == 0 else []

    def until(self, condition: Callable[[list[dict[str, Any]]], Any]) -> None:
        """Wait until the condition is true of the pods."""
        deadline = time.monotonic() + 90
        while not condition(self.pods()):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def close(self) -> None:
        """End it, its Temporal server and its state."""
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGTERM)
        program("down", environ=self.environ)
        shutil.rmtree(self.memory, ignore_errors=True)


@pytest.fixture
def kubelet(tmp_path: Path, embedded: Embedded) -> Iterator[Kubelet]:
    """A program that has not been started yet."""
    made = Kubelet(tmp_path, embedded.endpoint)
    yield made
    made.close()


def running(pods: list[dict[str, Any]]) -> str:
    """The id of the pod's running container; "" if none runs."""
    statuses = pods[0]["status"].get("containerStatuses", []) if pods else []
    return statuses[0].get("containerID", "") if statuses and "running" in statuses[0]["state"] else ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_static_pods_run_through_its_end_and_its_next_start(kubelet: Kubelet, number: signal.Signals) -> None:
    (kubelet.manifests / "web.json").write_text(json.dumps(POD))
    kubelet.start()
    kubelet.until(running)
    first = running(kubelet.pods())
    assert "warning: registryPullQPS: 7: five pulls a second after a burst of ten" in kubelet.log.read_text()
    assert kubelet.end(number) == (0 if number == signal.SIGTERM else -number)
    (kubelet.root / "syncpod" / "api.sock").unlink(missing_ok=True)
    kubelet.start()
    kubelet.until(running)
    assert running(kubelet.pods()) == first
    (kubelet.manifests / "web.json").unlink()
    kubelet.until(lambda pods: not pods)


def test_a_client_that_comes_before_the_worker_serves_waits_for_its_answer(kubelet: Kubelet) -> None:
    kubelet.start()
    client, deadline = None, time.monotonic() + 90
    while client is None:
        assert time.monotonic() < deadline, kubelet.log.read_text()
        with contextlib.suppress(ConnectionRefusedError):
            client = socket.create_connection(("127.0.0.1", kubelet.readable), timeout=90)
    with client, client.makefile("rb") as answer:
        assert "worker ready" not in kubelet.log.read_text()
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
    assert "worker ready" in kubelet.log.read_text()


@pytest.mark.parametrize(
    ("configuration", "ports"),
    [
        ({}, [("192.0.2.7", 10250), ("127.0.0.1", 0), ("127.0.0.1", 10248)]),
        (
            {"--node-ip": "10.0.0.1,fd00::1"},
            [("10.0.0.1", 10250), ("fd00::1", 10250), ("127.0.0.1", 0), ("127.0.0.1", 10248)],
        ),
        (
            {"address": "0.0.0.0", "port": 1, "readOnlyPort": 2, "healthzBindAddress": "::", "healthzPort": 3},
            [("0.0.0.0", 1), ("0.0.0.0", 2), ("::", 3)],
        ),
    ],
)
def test_the_ports_of_a_kubelet_are_known_from_what_it_is_given(
    configuration: dict[str, Any], ports: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncpod.cli.kubelet.doors.own_addresses", lambda: ("192.0.2.7",))
    assert early_ports(Given(configuration, {})) == ports


def test_what_is_wrong_is_told_before_anything_is_made(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 3\n")
    command = [sys.executable, "-m", "syncpod.cli.kubelet.program", f"--config={config}", f"--root-dir={tmp_path}/root"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"syncpod-kubelet: {config}: maxPod: a KubeletConfiguration has no such field\n"
    absent = subprocess.run([*command[:3], "--config=/absent"], capture_output=True, text=True, timeout=60, check=False)
    assert (absent.returncode, absent.stderr) == (2, "syncpod-kubelet: /absent: No such file or directory\n")
    assert not (tmp_path / "root").exists()
