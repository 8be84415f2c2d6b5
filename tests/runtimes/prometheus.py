"""Debian's Prometheus on loopback with a test's configuration, and its promtool."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.agent.waiting import until
from tests.runtimes.ports import free_port
from tests.runtimes.require import do_without


def installed(program: str) -> str:
    """The path of `prometheus` or `promtool`; skips the test if the machine has none."""
    found = shutil.which(program)
    if found is None:
        do_without("prometheus", f"{program} is not installed")
    return found


class Prometheus:
    """One server in a directory of its own. `with` starts it, and ends it."""

    def __init__(self, directory: Path, configuration: dict[str, Any]) -> None:
        """Prepare it without starting it; skips the test if the machine has none."""
        self._program = installed("prometheus")
        self._directory = directory
        directory.mkdir()
        (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        self._url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        command = [self._program, f"--config.file={self._directory / 'prometheus.yml'}", "--log.level=warn"]
        command += [f"--storage.tsdb.path={self._directory / 'data'}"]
        command += [f"--web.listen-address={urllib.parse.urlsplit(self._url).netloc}"]
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    async def ready(self) -> None:
        """Wait until it answers; raises AssertionError with its log if it ends instead."""

        def answers() -> bool:
            assert self._process.poll() is None, (self._directory / "log").read_text()
            try:
                return bool(self._ask("/api/v1/status/runtimeinfo"))
            except OSError:
                return False

        await until(answers)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now, each with `metric` and `value`. Raises AssertionError if it is invalid."""
        found: list[dict[str, Any]] = self._ask("/api/v1/query", query=expression)["result"]
        return found

    def firing(self) -> set[tuple[str, str]]:
        """The firing alerts, each with the name of its pod, or "" if it has none."""
        alerts = self._ask("/api/v1/alerts")["alerts"]
        return {
            (each["labels"]["alertname"], each["labels"].get("pod", "")) for each in alerts if each["state"] == "firing"
        }

    def _ask(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting
                raise
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
