"""The container runtime: a narrow port, its client, and the translation from pods to what a runtime is asked for.

`port` is what the rest of the project depends on, `errors` what its calls raise, `client` its implementation on a unix
socket found by `endpoint`. `reader` reads a pod as a whole. `sandbox_config` and `container_config` translate.
"""

from syncpod.cri.port import ContainerConfig, CriRuntime, LinuxResources, SandboxConfig

__all__ = ["ContainerConfig", "CriRuntime", "LinuxResources", "SandboxConfig"]
