"""The list entries of sandboxes and containers.

They are kept serialised, so that a list of 20,000 entries is a mere concatenation. An entry is kept with its tag and
length in front, since all of CRI's lists have their entries in field 1. Only the state changes, which is the last byte.
"""

from __future__ import annotations

from protos.cri.v1 import api_pb2

_ENTRY_TAG = b"\x0a"  # field 1, length-delimited
_CONTAINER_STATE_TAG = b"\x30"  # Container.state: field 6, varint
_SANDBOX_STATE_TAG = b"\x18"  # PodSandbox.state: field 3, varint


def container_entry(container: api_pb2.Container) -> bytes:
    """Return the entry of a container, whose `state` must be unset; the entry has the state created."""
    return _entry(container.SerializeToString() + _CONTAINER_STATE_TAG)


def sandbox_entry(sandbox: api_pb2.PodSandbox) -> bytes:
    """Return the entry of a sandbox, whose `state` must be unset; the entry has the state ready."""
    return _entry(sandbox.SerializeToString() + _SANDBOX_STATE_TAG)


def with_state(entry: bytes, state: int) -> bytes:
    """Return the entry with another state, which must be below 128."""
    return entry[:-1] + bytes((state,))


def read_container(entry: bytes) -> api_pb2.Container:
    """Return the container of an entry."""
    return api_pb2.ListContainersResponse.FromString(entry).containers[0]


def read_sandbox(entry: bytes) -> api_pb2.PodSandbox:
    """Return the sandbox of an entry."""
    return api_pb2.ListPodSandboxResponse.FromString(entry).items[0]


def _entry(message: bytes) -> bytes:
    return _ENTRY_TAG + _varint(len(message) + 1) + message + b"\x00"


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
