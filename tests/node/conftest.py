"""Tests of a runtime in this room run on containerd only."""

from tests.runtimes.each_containerd import cri_endpoint, runtime

__all__ = ["cri_endpoint", "runtime"]
