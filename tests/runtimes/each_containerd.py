"""Runs tests of the client on each containerd; the embedded runtime lacks or words much of it differently."""

from __future__ import annotations

import pytest

from tests.runtimes.containerd import Containerd


@pytest.fixture(scope="session")
def runtime(containerd: Containerd) -> Containerd:
    """Each containerd in turn."""
    return containerd


@pytest.fixture(scope="session")
def cri_endpoint(runtime: Containerd) -> str:
    """Its endpoint. The common fixture would keep that of the last runtime, which is none of these."""
    return runtime.endpoint
