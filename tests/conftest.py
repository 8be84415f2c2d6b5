"""The real things that tests run against, each started when the first test asks for it and kept for the session."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.runtimes import differences, selection
from tests.runtimes.containerd import Containerd
from tests.runtimes.crio import Crio
from tests.runtimes.embedded import Embedded
from tests.runtimes.require import Missing, cache_directory, do_without
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

_NOTHING_MAY_SKIP = bool(os.environ.get("SYNCPOD_REQUIRE"))
# Where nothing may skip nothing is left to chance either: the same examples with each run. New ones are looked for
# wherever somebody runs the tests by hand. How long an example takes says more of the machine than of what is tested.
settings.register_profile("by-hand", deadline=None)
settings.load_profile("ci" if _NOTHING_MAY_SKIP else "by-hand")


@pytest.fixture(scope="session")
def containerd16() -> Iterator[Containerd]:
    """The distribution's containerd 1.6, private to this run."""
    with _launched("1.6", part="containerd") as runtime:
        yield runtime


@pytest.fixture(scope="session")
def containerd24() -> Iterator[Containerd]:
    """Containerd 2.4, private to this run."""
    with _launched("2.4", part="containerd24") as runtime:
        yield runtime


@pytest.fixture(scope="session")
def crio() -> Iterator[Crio]:
    """CRI-O, private to this run."""
    try:
        runtime = Crio.launch()
    except Missing as missing:
        do_without("crio", str(missing))
    with runtime:
        yield runtime


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """The embedded runtime, private to this run."""
    try:
        runtime = Embedded.launch()
    except Missing as missing:
        do_without("embedded", str(missing))
    with runtime:
        yield runtime


@pytest.fixture(scope="session", params=["containerd16", "containerd24"])
def containerd(request: pytest.FixtureRequest) -> Containerd:
    """Each containerd of this machine in turn."""
    containerd: Containerd = request.getfixturevalue(request.param)
    return containerd


@pytest.fixture(scope="session", params=selection.RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Each runtime of this machine in turn."""
    runtime: Runtime = request.getfixturevalue(request.param)
    return runtime


@pytest.fixture(scope="session")
def cri_endpoint(runtime: Runtime) -> str:
    """The CRI endpoint of each runtime in turn, as `unix:///path`."""
    return runtime.endpoint


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[DevServer]:
    """A Temporal dev server, private to this run."""
    try:
        server = DevServer.launch()
    except Missing as missing:
        do_without("temporal", str(missing))
    with server:
        yield server


@pytest.fixture(scope="session")
def tctl() -> Path:
    """The old Temporal command line: `$SYNCPOD_TCTL`, else the cached build, else on PATH."""
    candidates = (
        os.environ.get("SYNCPOD_TCTL"),
        cache_directory() / "tctl-1.18.0" / "tctl",
        shutil.which("tctl"),
    )
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    do_without("tctl", "there is none in SYNCPOD_TCTL, in the cache or on PATH")


@pytest.fixture(scope="session")
def chromium() -> Path:
    """The distribution's Chromium, for playwright's `executable_path` (with `--no-sandbox` as root)."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        do_without("chromium", "it is not installed")
    return Path(found)


def _launched(version: str, *, part: str) -> Containerd:
    try:
        return Containerd.launch(version)
    except Missing as missing:
        do_without(part, str(missing))


@pytest.hookimpl(tryfirst=True)  # before xdist looks for who shares a process
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out on a runtime what is not for it or listed as different there, and say which tests share a process.

    Those of one runtime do, so that each runtime is started once; of the others those of one file. The longest come
    first: the runtimes', which mostly wait, then the simulator's, which compute.
    """
    selection.apply(config, items)
    differences.apply(items)
    groups = {item: selection.runtime_of(item) for item in items}
    for item in items:
        if _NOTHING_MAY_SKIP:
            # Real daemons and processes on a busy machine now and then do what no test can foresee. One more try, and
            # the report says which tests needed it: what needs it often is a defect, here or there.
            item.add_marker(pytest.mark.flaky(reruns=1))
        item.add_marker(pytest.mark.xdist_group(groups[item] or item.nodeid.partition("::")[0].replace("/", ".")))
    last = len(selection.RUNTIMES)
    items.sort(key=lambda item: selection.RUNTIMES.index(groups[item]) if groups[item] else last + _is_short(item))


def _is_short(item: pytest.Item) -> bool:
    return not item.nodeid.startswith("tests/simulator/")
