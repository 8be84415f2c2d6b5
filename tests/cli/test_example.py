"""The example pod after `make up`: its page is served at the pod's address."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import program
from tests.cli.machine import EMBEDDED, RUNTIMES, machine

pytestmark = pytest.mark.every_runtime("it is the first thing that a user brings up", one_containerd=True)

EXAMPLE = Path(__file__).parents[2] / "examples" / "pod.yaml"


@pytest.fixture(params=RUNTIMES)
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a machine with each runtime."""
    with machine(request.param, request, tmp_path_factory.mktemp("example")) as environ:
        yield environ


def test_the_example_is_ready_and_its_page_is_served(environ: dict[str, str]) -> None:
    flags = () if environ["CONTAINER_RUNTIME_ENDPOINT"] else (f"--{EMBEDDED}",)
    upped = program("up", *flags, "-f", str(EXAMPLE), "--timeout", "60s", environ=environ)
    assert upped.code == 0 and "web    2/2     Running" in upped.out, upped.err
    pod = json.loads(program("get", "pod", "web", "-o", "json", environ=environ).out)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{pod['status']['podIP']}:8080/", timeout=60) as page:
        assert page.read().startswith(b"hello from pod web at ")
    assert program("logs", "web", "-c", "greeting", environ=environ).out == "hello from pod web\n"
    assert program("exec", "web", "--", "cat", "/tmp/syncpod-www/greeting", environ=environ).out.startswith("hello")
