"""Errors are classified by their call and the runtime's text."""

import pickle

import pytest
from grpc import StatusCode

from syncpod.cri.errors import (
    AlreadyStarted,
    CommandTimedOut,
    CriError,
    DeadlineExceeded,
    ImageAbsent,
    InvalidImageName,
    NameReserved,
    NotFound,
    RecordLost,
    RegistryUnavailable,
    RuntimeFailure,
    SignatureValidationFailed,
    StillStarting,
    TaskLeft,
    TransportFault,
    Unavailable,
    Unimplemented,
    classify,
)

HOLDER = "0879829db632e645fba88e1b331b8ab91cf379b520fbe8afcfd21e7095cc0c55"
RESERVED = f'failed to reserve sandbox name "a_d_u1_0": name "a_d_u1_0" is reserved for "{HOLDER}"'
LOST = f'failed to delete containerd container "{HOLDER}": cannot delete running task {HOLDER}: failed precondition'
NO_RECORD = f'get container info: container "{HOLDER}" in namespace "k8s.io": not found'
NOT_CREATED = 'failed to set starting state for container "dc13": container is in CONTAINER_{} state'


@pytest.mark.parametrize(
    ("situation", "operation", "code", "message", "expected"),
    [
        ("the daemon is down", "status", StatusCode.UNAVAILABLE, "failed to connect", Unavailable),
        ("the daemon is going down", "status", StatusCode.CANCELLED, "context canceled", Unavailable),
        ("no answer in time", "run_podsandbox", StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", DeadlineExceeded),
        (
            "the runtime's own deadline",
            "stop_container",
            StatusCode.DEADLINE_EXCEEDED,
            "failed to kill container: context deadline exceeded",
            DeadlineExceeded,
        ),
        (
            "no answer to an exec in time",
            "exec_sync",
            StatusCode.DEADLINE_EXCEEDED,
            "Deadline Exceeded",
            CommandTimedOut,
        ),
        (
            "a command that took too long",
            "exec_sync",
            StatusCode.DEADLINE_EXCEEDED,
            "failed to exec in container: timeout 1s exceeded: context deadline exceeded",
            CommandTimedOut,
        ),
        (
            "a sandbox's resources, to containerd 2",
            "update_podsandbox_resources",
            StatusCode.UNKNOWN,
            "not implemented yet",
            Unimplemented,
        ),
        ("a call of a later CRI", "runtime_config", StatusCode.UNIMPLEMENTED, "unknown method", Unimplemented),
        ("no such container", "stop_container", StatusCode.NOT_FOUND, 'container "x": not found', NotFound),
        (
            "create in a sandbox that is gone",
            "create_container",
            StatusCode.NOT_FOUND,
            'failed to find sandbox id "x": not found',
            NotFound,
        ),
        (
            "create from an image that is gone",
            "create_container",
            StatusCode.NOT_FOUND,
            'failed to resolve image "docker.io/library/nope:1": not found',
            ImageAbsent,
        ),
        ("sandbox name taken, containerd 1.6", "run_podsandbox", StatusCode.UNKNOWN, RESERVED, NameReserved),
        (
            "sandbox name taken, containerd 2.4",
            "run_podsandbox",
            StatusCode.FAILED_PRECONDITION,
            RESERVED,
            NameReserved,
        ),
        (
            "container name taken, containerd 2.4",
            "create_container",
            StatusCode.FAILED_PRECONDITION,
            'failed to reserve container name "c_a"; check if another CreateContainer request is in progress: '
            f'name "c_a" is reserved for "{HOLDER}"',
            NameReserved,
        ),
        (
            "sandbox name taken, CRI-O",
            "run_podsandbox",
            StatusCode.UNKNOWN,
            "error reserving pod name k8s_a_d_u1_0 for id 12ab: name is reserved",
            NameReserved,
        ),
        ("words of reservation from another call", "pull_image", StatusCode.UNKNOWN, RESERVED, RuntimeFailure),
        (
            "start of a running one",
            "start_container",
            StatusCode.UNKNOWN,
            NOT_CREATED.format("RUNNING"),
            AlreadyStarted,
        ),
        (
            "start of one being removed",
            "start_container",
            StatusCode.UNKNOWN,
            "container is in removing state, can't be started",
            RuntimeFailure,
        ),
        (
            "a program that is not there",
            "start_container",
            StatusCode.UNKNOWN,
            'failed to create containerd task: exec: "nope": executable file not found in $PATH',
            RuntimeFailure,
        ),
        (
            "a container that is being started",
            "remove_container",
            StatusCode.UNKNOWN,
            'failed to set removing state for container "dc13": container is in starting state, can\'t be removed',
            StillStarting,
        ),
        (
            "what containerd has lost, in a container",
            "remove_container",
            StatusCode.FAILED_PRECONDITION,
            LOST,
            TaskLeft,
        ),
        (
            "what containerd has lost, in a container of a sandbox",
            "remove_podsandbox",
            StatusCode.FAILED_PRECONDITION,
            f'failed to remove container "{HOLDER}": {LOST}',
            TaskLeft,
        ),
        ("words of a lost task from another call", "stop_container", StatusCode.UNKNOWN, LOST, RuntimeFailure),
        ("no record of a container", "remove_container", StatusCode.NOT_FOUND, NO_RECORD, RecordLost),
        ("no record of a container to stop", "stop_container", StatusCode.NOT_FOUND, NO_RECORD, RecordLost),
        (
            "no record of a container of a sandbox",
            "remove_podsandbox",
            StatusCode.NOT_FOUND,
            f'failed to remove container "{HOLDER}": {NO_RECORD}',
            RecordLost,
        ),
        ("no record, from another call", "container_status", StatusCode.NOT_FOUND, NO_RECORD, NotFound),
        (
            "a name that is none",
            "pull_image",
            StatusCode.UNKNOWN,
            'failed to parse image reference "UPPER:::x": invalid reference format: repository name must be lowercase',
            InvalidImageName,
        ),
        (
            "a registry that is away",
            "pull_image",
            StatusCode.UNKNOWN,
            "RegistryUnavailable: registry.example is down",
            RegistryUnavailable,
        ),
        (
            "a signature refused",
            "pull_image",
            StatusCode.UNKNOWN,
            "SignatureValidationFailed: no key",
            SignatureValidationFailed,
        ),
        (
            "a refused connection is said by containerd to be unknown",
            "pull_image",
            StatusCode.UNKNOWN,
            "failed to do request: dial tcp 127.0.0.1:1: connect: connection refused",
            RuntimeFailure,
        ),
        ("no network plugin", "run_podsandbox", StatusCode.UNKNOWN, "cni plugin not initialized", RuntimeFailure),
        ("too much in one answer", "list_containers", StatusCode.RESOURCE_EXHAUSTED, "larger than max", RuntimeFailure),
    ],
)
def test_each_failure_is_classified(
    situation: str, operation: str, code: StatusCode, message: str, expected: type[CriError]
) -> None:
    error = classify(operation, code, message)
    assert type(error) is expected, situation
    assert (error.operation, error.code, error.message) == (operation, code.name, message)
    assert str(error) == f"{operation}: {message}"


def test_only_transport_faults_are_retryable() -> None:
    kinds = (Unavailable, DeadlineExceeded, NotFound, NameReserved, AlreadyStarted, CommandTimedOut, RuntimeFailure)
    assert [kind for kind in kinds if issubclass(kind, TransportFault)] == [Unavailable, DeadlineExceeded]


def test_reserved_name_error_has_the_id_of_the_holder() -> None:
    error = classify("run_podsandbox", StatusCode.UNKNOWN, RESERVED)
    assert isinstance(error, NameReserved)
    assert error.holder_id == HOLDER


def test_holder_of_a_reserved_name_is_unknown_if_the_runtime_names_only_the_caller() -> None:
    error = classify("run_podsandbox", StatusCode.UNKNOWN, "error reserving pod name a for id 12ab: name is reserved")
    assert isinstance(error, NameReserved)
    assert error.holder_id == ""


@pytest.mark.parametrize(
    ("message", "state"),
    [
        ("container is already in starting state", "starting"),
        (NOT_CREATED.format("RUNNING"), "running"),
        (NOT_CREATED.format("EXITED"), "exited"),
        (NOT_CREATED.format("UNKNOWN"), "unknown"),
        ("container 12ab is not in created state: running", "running"),
        ("container 12ab is not in created state: stopped", "exited"),
    ],
)
def test_already_started_error_has_the_containers_state(message: str, state: str) -> None:
    error = classify("start_container", StatusCode.UNKNOWN, message)
    assert isinstance(error, AlreadyStarted)
    assert error.state == state


def test_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(classify("run_podsandbox", StatusCode.UNKNOWN, RESERVED)))
    assert isinstance(error, NameReserved)
    assert error.holder_id == HOLDER


def test_error_without_a_message_shows_its_code() -> None:
    assert str(classify("status", StatusCode.INTERNAL, "")) == "status: INTERNAL"
