"""Tests of this package that need a runtime run only on containerd."""

from tests.runtimes.each_containerd import cri_endpoint, runtime

__all__ = ["cri_endpoint", "runtime"]
