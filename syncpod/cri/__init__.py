"""The container runtime: a narrow port and its client.

`port` is what the rest of the project depends on, `errors` what its calls raise, `client` its implementation on a unix
socket found by `endpoint`, `records` the way from CRI's messages to the port's records.
"""

from syncpod.cri.port import ContainerConfig, CriRuntime, LinuxResources, SandboxConfig

__all__ = ["ContainerConfig", "CriRuntime", "LinuxResources", "SandboxConfig"]
