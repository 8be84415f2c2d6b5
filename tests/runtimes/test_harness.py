"""The harness itself: what it starts is real, is ready, and leaves nothing behind."""

import urllib.request

from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal import DevServer


def test_a_container_runs_on_the_runtime(runtime: Containerd) -> None:
    assert runtime.ctr("run", "--rm", BUSYBOX, "greeting", "echo", "hello") == "hello\n"


def test_the_dev_server_comes_back_with_its_database(temporal_server: DevServer) -> None:
    before = temporal_server.pid
    temporal_server.restart()
    assert temporal_server.pid != before
    with urllib.request.urlopen(temporal_server.ui) as page:
        assert page.status == 200
