"""Why a pod could not be put into the runtime's words: the pod is at fault, or the node it was sent to."""


class SandboxConfigError(ValueError):
    """The pod gives no valid PodSandboxConfig; the text is one sentence with the field's path."""


class ContainerConfigError(ValueError):
    """A container gives no valid ContainerConfig.

    ``reason`` becomes the container's waiting reason, ``message`` its message (kuberuntime_container.go, v1.36,
    startContainer: every failure of generateContainerConfig is a CreateContainerConfigError).
    """

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
