"""Probes: containers are probed repeatedly, and a pod's workflow is signalled when a result changes."""
