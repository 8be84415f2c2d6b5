"""The failures of a CRI call, as types.

gRPC codes are not enough: containerd returns UNKNOWN for nearly everything, and different codes for the same event in
different versions. So an error is classified by its call, its code and, where necessary, its text. The texts of
containerd 1.6 and 2.4 are measured; those of CRI-O are from its sources.

    CriError
    ├── TransportFault          the outcome is not known: read the state back, then try again
    │   ├── Unavailable         no connection, or it broke, or the runtime is going down
    │   ├── DeadlineExceeded    no answer in time
    │   └── Unreadable          an invalid answer, or one about something else
    ├── NotFound                no such sandbox, container or image
    │   └── ImageAbsent         CreateContainer: its image is not on the node
    ├── NameReserved            the sandbox or container exists, or is being made
    ├── AlreadyStarted          StartContainer: the container is no longer in the created state
    ├── CommandTimedOut         ExecSync: the command exceeded its timeout, or the runtime has not answered in time
    ├── Unimplemented           this runtime, or this version of it, lacks the call
    └── RuntimeFailure          the runtime tried and failed: a fault of the pod, as a rule
        ├── TaskLeft            RemoveContainer, RemovePodSandbox: containerd has a task that its CRI has lost track of
        ├── RecordLost          a stop or a removal: containerd has no record of a container that its CRI lists
        ├── StillStarting       RemoveContainer: the container is being started
        └── InvalidImageName, RegistryUnavailable, SignatureValidationFailed    PullImage
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Literal

import grpc
from pydantic import ValidationError

from syncpod.pod.model_errors import first_problem


class CriError(Exception):
    """A CRI call that failed.

    `operation` is the kubelet's name of the call (`run_podsandbox`), `code` the gRPC code's name (`UNKNOWN`), `message`
    the runtime's text. The exception's text is the message, prefixed with the operation.
    """

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {message or code}")
        self.operation = operation
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[CriError], tuple[str, str, str]]:
        return type(self), (self.operation, self.code, self.message)


class TransportFault(CriError):
    """The call may or may not have had its effect: no answer came back. It can be repeated unchanged."""


class Unavailable(TransportFault):
    """There is no connection to the runtime, or it broke, or the runtime cancelled the call while shutting down."""


class DeadlineExceeded(TransportFault):
    """There was no answer before the deadline, or the runtime reports that it has exceeded its own deadline."""


class Unreadable(TransportFault):
    """The runtime's answer is not a CRI message, has an invalid id, or is about another object than the request.

    The kubelet's gRPC reports an invalid message as `Internal`; it accepts the other two kinds of answers.
    """


class NotFound(CriError):
    """The sandbox, container or image named in the call does not exist. For a stop or a removal this is a success."""


class ImageAbsent(NotFound):
    """CreateContainer: the image is not on the node (any more)."""


class NameReserved(CriError):
    """RunPodSandbox or CreateContainer: pod and attempt, or container and restart count, are taken.

    The sandbox or container with this name may still be in creation, and is then in no list yet.
    """

    @property
    def holder_id(self) -> str:
        """Id of the sandbox or container that holds the name; "" if the runtime does not report it (CRI-O)."""
        named = _HOLDER.search(self.message)
        return named.group(1) if named else ""


StartedState = Literal["starting", "running", "exited", "unknown"]


class AlreadyStarted(CriError):
    """StartContainer: the container is no longer in the created state; see `state`."""

    @property
    def state(self) -> StartedState:
        """The container's state according to the runtime's text."""
        text = self.message.lower()
        if "already in starting state" in text:
            return "starting"
        if "container_running state" in text or text.endswith("state: running"):
            return "running"
        if "container_exited state" in text or text.endswith("state: stopped"):
            return "exited"
        return "unknown"


class CommandTimedOut(CriError):
    """ExecSync: the command exceeded its timeout and was killed, or the runtime did not answer within two minutes more.

    The kubelet does not distinguish the two either (cri-client/pkg/remote_runtime.go, v1.36, ExecSync): containerd 1.6
    never answers while a process that the command left behind holds its output.
    """


class Unimplemented(CriError):
    """The runtime lacks this call."""


class RuntimeFailure(CriError):
    """The runtime could not carry out the call, for a reason that none of the other classes covers."""


class TaskLeft(RuntimeFailure):
    """RemoveContainer, RemovePodSandbox: containerd has a task of an object that its CRI lists as ended or unstarted.

    containerd loses track of a task if a start is cancelled between making the task and recording its process (the
    caller died, or the deadline passed), or if the cleanup of a task fails. The process then still waits for its start,
    or runs, or has ended unnoticed. No CRI call reaches the task, or removes the container while the task exists.
    """


class RecordLost(RuntimeFailure):
    """StopContainer, RemoveContainer, RemovePodSandbox: containerd has no record of a container that its CRI lists.

    Somebody has removed the record by containerd's own API (`ctr containers rm`). Before 1.6.21 and 1.7.1, containerd
    then refuses each removal of the container, and of its sandbox, until it is restarted. With any version, a process
    of the container runs on: a stop does not find it.
    """

    @property
    def container_id(self) -> str:
        """Id of the container without a record."""
        named = _RECORD_LOST.search(self.message)
        return named.group(1) if named else ""


class StillStarting(RuntimeFailure):
    """RemoveContainer: the container is being started, and cannot be removed before the start has ended."""


class InvalidImageName(RuntimeFailure):
    """PullImage: the name cannot be parsed. Retrying is useless."""


class RegistryUnavailable(RuntimeFailure):
    """PullImage: the runtime reports that the registry is unavailable."""


class SignatureValidationFailed(RuntimeFailure):
    """PullImage: the image's signature is not accepted."""


_HOLDER = re.compile(r'(?:is reserved for|already reserved for (?:pod|container)) "([^"]+)"')
_RESERVED = re.compile(r'name "[^"]*" is reserved for |name is reserved$|name "[^"]*" already reserved')
# "in removing state" is missing here: that container will never start, so the error is a RuntimeFailure.
_STARTED = re.compile(r"is already in starting state|is in CONTAINER_\w+ state|is not in created state")
_TASK_LEFT = re.compile(r"cannot delete running task ")
_RECORD_LOST = re.compile(r'get container info: container "([^"]+)" in namespace "[^"]*": not found')
_STARTING = re.compile(r"starting state")
_ENDING = ("stop_container", "remove_container", "remove_podsandbox")
_BAD_REFERENCE = re.compile(r"failed to parse image reference|invalid reference format|invalid image name")


def classify(operation: str, code: grpc.StatusCode, message: str) -> CriError:
    """Return the error of a call, given its gRPC code, its text, and the kubelet's name of the `operation`."""
    return _kind(operation, code, message)(operation, code.name, message)


def go_error(error: CriError) -> str:
    """Return the error as Go prints a gRPC error with %v: `rpc error: code = Unknown desc = ...`."""
    return go_status(error.code, error.message)


def go_status(code: str, message: str) -> str:
    """Return a gRPC error as Go prints it, given its code's name (`UNKNOWN`) and text."""
    name = "".join(word.capitalize() for word in code.split("_"))
    return f"rpc error: code = {name} desc = {message}"


def _kind(operation: str, code: grpc.StatusCode, message: str) -> type[CriError]:
    match code:
        # A cancellation of our own raises CancelledError, so this one is the runtime's: it cancels calls when it shuts
        # down.
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            return Unavailable
        case grpc.StatusCode.DEADLINE_EXCEEDED if operation == "exec_sync":
            return CommandTimedOut
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceeded
        case grpc.StatusCode.UNIMPLEMENTED:
            return Unimplemented
        case grpc.StatusCode.NOT_FOUND if operation == "create_container" and "image" in message:
            return ImageAbsent
        case grpc.StatusCode.NOT_FOUND if operation in _ENDING and _RECORD_LOST.search(message):
            return RecordLost
        case grpc.StatusCode.NOT_FOUND:
            return NotFound
    if operation in ("run_podsandbox", "create_container") and _RESERVED.search(message):
        return NameReserved
    if operation == "start_container" and _STARTED.search(message):
        return AlreadyStarted
    if operation in ("remove_container", "remove_podsandbox") and _TASK_LEFT.search(message):
        return TaskLeft
    if operation == "remove_container" and _STARTING.search(message):
        return StillStarting
    if operation == "update_podsandbox_resources" and "not implemented" in message:
        return Unimplemented  # as containerd 2 words it
    if operation == "pull_image":
        return _pull_failure(message)
    return RuntimeFailure


def _pull_failure(message: str) -> type[RuntimeFailure]:
    """Classify as the kubelet does, by the beginning of the text (images/image_manager.go, v1.36, evalCRIPullErr).

    Difference: invalid names are recognised too; the kubelet finds most of them before it calls the runtime.
    """
    if message.startswith("RegistryUnavailable"):
        return RegistryUnavailable
    if message.startswith("SignatureValidationFailed"):
        return SignatureValidationFailed
    if _BAD_REFERENCE.search(message):
        return InvalidImageName
    return RuntimeFailure


@contextlib.contextmanager
def valid_answer(operation: str) -> Iterator[None]:
    """Turn ValidationError into Unreadable: the answer has a value that is impossible, such as too large a number."""
    try:
        yield
    except ValidationError as error:
        said = f"the runtime's answer is not valid: {first_problem(error)}"
        raise Unreadable(operation, "INTERNAL", said) from None
