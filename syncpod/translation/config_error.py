"""Why a pod could not be translated: the fault is in the pod, or in the node."""


class SandboxConfigError(ValueError):
    """No valid PodSandboxConfig can be made from the pod. The text is one sentence with the field's path."""


class ContainerConfigError(ValueError):
    """No valid ContainerConfig can be made from a container.

    ``reason`` becomes the container's waiting reason, ``message`` its message (kuberuntime_container.go, v1.36,
    startContainer: every failure of generateContainerConfig is a CreateContainerConfigError).
    """

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
