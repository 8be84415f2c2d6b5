"""What asks a runtime here is tried on each containerd alone."""

from tests.runtimes.each_containerd import cri_endpoint, runtime

__all__ = ["cri_endpoint", "runtime"]
