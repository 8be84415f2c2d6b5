"""Fixtures of servers and runtimes, each started when a test first needs it and kept for the session."""

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from syncpod.redaction import of_process
from tests import groups, sharing
from tests.leftover_mounts import remove_left_behind, unmount_left_behind
from tests.nightly import NIGHTLY
from tests.runtimes import claim, differences, selection
from tests.runtimes.containerd import Containerd
from tests.runtimes.crio import Crio
from tests.runtimes.embedded import Embedded
from tests.runtimes.require import Missing, cache_directory, do_without, promised
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

# CI tries the same examples each time. A run by hand looks for new ones, and a nightly run for ten times as many. There
# is not a deadline: the duration of an example depends more on the machine than on the tested code.
settings.register_profile("by-hand", deadline=None)
settings.register_profile("nightly", deadline=None, max_examples=1_000)
settings.load_profile("nightly" if NIGHTLY else "ci" if promised() else "by-hand")

claim.use_memory()

# The servers that tests start are short-lived: theirs may keep more garbage. A Temporal server spends an eighth less.
os.environ.setdefault("GOGC", "400")


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """Forget all known values of Secrets after each test, since they would be hidden in other tests' texts."""
    yield
    of_process.forget(of_process.known())


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
def containerd23() -> Iterator[Containerd]:
    """Containerd 2.3, the release with long support, private to this run."""
    with _launched("2.3", part="containerd23") as runtime:
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


@pytest.fixture(scope="session", params=selection.CONTAINERDS)
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
    """A Temporal dev server, private to this run. It does not sync to disk, since no test simulates a power cut."""
    try:
        server = DevServer.launch(synced=False)
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


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove the leftovers of killed runs."""
    if not hasattr(session.config, "workerinput"):  # in one process, of those that share the tests
        unmount_left_behind()
        remove_left_behind()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Disable garbage collection while tests are collected, and exclude the collected tests from later ones.

    The collector looks at them again and again otherwise: it takes half of the time of the collection of tests.
    """
    gc.disable()
    try:
        sharing.import_share(session.config)
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before xdist looks for who shares a process
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that are not for a runtime or are listed as different there, and set which tests share a process."""
    selection.apply(config, items)
    differences.apply(items)
    groups.apply(items)


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Disable the garbage collector for the block."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
