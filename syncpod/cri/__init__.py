"""The container runtime: a narrow port and its client.

The rest of the project depends on `port` and on the `errors` that its calls raise. `client` implements it on a unix
socket that `endpoint` finds, and `records` converts CRI's messages to the port's records.
"""

from syncpod.cri.port import ContainerConfig, CriRuntime, LinuxResources, SandboxConfig

__all__ = ["ContainerConfig", "CriRuntime", "LinuxResources", "SandboxConfig"]
