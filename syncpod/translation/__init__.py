"""Translates a Pod into the CRI configurations for a runtime: pure functions of the pod and of the node's facts."""


class SandboxConfigError(ValueError):
    """No valid PodSandboxConfig can be made from the pod. The text is one sentence with the field's path."""


class ContainerConfigError(ValueError):
    """No valid ContainerConfig can be made from a container. The text becomes the container's message while it waits.

    The waiting reason is always CreateContainerConfigError (kuberuntime_container.go, v1.36, startContainer).
    """
