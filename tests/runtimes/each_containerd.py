"""Runs tests of the client on each containerd: the embedded runtime lacks many answers, or words them differently."""

from __future__ import annotations

import pytest

from tests.runtimes.containerd import Containerd


@pytest.fixture(scope="session")
def runtime(containerd: Containerd) -> Containerd:
    """Each containerd in turn."""
    return containerd


@pytest.fixture(scope="session")
def cri_endpoint(runtime: Containerd) -> str:
    """The endpoint of this containerd. The common fixture would keep the last runtime's, which is none of these."""
    return runtime.endpoint
