"""The client is tried on each daemon: the embedded one words much of what it reads otherwise, or has it not."""

from __future__ import annotations

import pytest

from tests.runtimes import selection
from tests.runtimes.runtime import Runtime


@pytest.fixture(scope="session", params=selection.DAEMONS)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Each containerd in turn, and CRI-O."""
    runtime: Runtime = request.getfixturevalue(request.param)
    return runtime


@pytest.fixture(scope="session")
def cri_endpoint(runtime: Runtime) -> str:
    """Its endpoint: that of all tests is kept from the last runtime of theirs, which is not one of these."""
    return runtime.endpoint
