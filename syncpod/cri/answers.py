"""Checks the answers of a runtime, or of a container: bytes, ids, texts, paths, numbers.

A runtime is trusted to run containers, but not to give valid answers: it may be half upgraded, or broken. An answer
must pass these checks before it becomes a file name, a line of a log, or a part of a pod's history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

LONGEST_WORD: Final = 1024
"""Maximum characters of a reason, a name or a version."""
LONGEST_MESSAGE: Final = 16 * 1024
"""Maximum characters of a message about a container. A kubelet gives all messages of a pod 12 KiB together."""
_PATH_MAX: Final = 4096
"""PATH_MAX of the kernel, with the NUL at the end."""
_LONGEST_ADDRESS: Final = 64
"""Maximum characters of an IP address with its zone, which is an interface's name."""
_MOST_ADDRESSES: Final = 16
"""Maximum number of further addresses of a pod, after its first one."""
_LARGEST_PID: Final = 2**22
"""PID_MAX_LIMIT of the kernel."""
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

_Answer = TypeVar("_Answer")


class Labelled(Protocol):
    """An entry of a list."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The entry's labels."""


_Entry = TypeVar("_Entry", bound=Labelled)


def readable(parse: Callable[[bytes], _Answer]) -> Callable[[bytes], _Answer | None]:
    """Return a parser that returns None for bytes that it cannot parse.

    gRPC also returns None for such bytes, but logs a traceback each time.
    """

    def parsed(data: bytes) -> _Answer | None:
        try:
            return parse(data)
        except DecodeError:
            return None

    return parsed


class ReadableAnswers:
    """A channel for generated stubs. Its calls return None for an answer that cannot be parsed."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def unary_unary(self, method: str, *, response_deserializer: Callable[[bytes], Any], **options: Any) -> Any:
        """Make a call of one request and one answer, as :class:`grpc.aio.Channel` does."""
        return self._channel.unary_unary(method, response_deserializer=readable(response_deserializer), **options)

    def unary_stream(self, method: str, *, response_deserializer: Callable[[bytes], Any], **options: Any) -> Any:
        """Make a call of one request and many answers, as :class:`grpc.aio.Channel` does."""
        return self._channel.unary_stream(method, response_deserializer=readable(response_deserializer), **options)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the channel itself, such as a streaming call that the client does not make."""
        return getattr(self._channel, name)


def asked_for(listed: Iterable[_Entry], labels: Mapping[str, str], **fields: str) -> tuple[_Entry, ...]:
    """Return the entries of a list that have the requested labels and fields, each once. A field of "" is ignored.

    If a runtime ignored a filter, containers of another pod, or of somebody else, would be ended. If it listed a
    sandbox twice, the pod would be ended, since it may have only one. Two entries are the same if they are one object:
    `KnownItems` returns one object for equal items.
    """
    wanted = [(name, value) for name, value in fields.items() if value]
    return tuple(
        {
            id(each): each
            for each in listed
            if labels.items() <= each.labels.items() and all(getattr(each, name) == value for name, value in wanted)
        }.values()
    )


def is_id(text: str) -> bool:
    """Return whether a text can be the id of a sandbox or a container, and can be part of a file's name."""
    return _ID.fullmatch(text) is not None


def word(text: str) -> str:
    """Return a short text on one line: cut, and with control characters replaced."""
    short = text[:LONGEST_WORD]
    return short if short.isprintable() else "".join(one if one.isprintable() else "?" for one in short)


def message(text: str) -> str:
    """Return a text for people, cut to :data:`LONGEST_MESSAGE`."""
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


def path(text: str) -> str:
    """Return the path, or "" if it has a NUL byte or is too long for a system call."""
    return "" if "\0" in text or len(text) >= _PATH_MAX else text


def address(text: str) -> str:
    """Return the text, or "" if it is not an IP address. The kubelet ignores it too (determinePodSandboxIPs)."""
    try:
        ip_address(text)
    except ValueError:
        return ""
    # Python accepts any text as the zone of an address.
    return text if text.isprintable() and len(text) <= _LONGEST_ADDRESS else ""


def addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are IP addresses, at most :data:`_MOST_ADDRESSES`; a pod usually has two."""
    return tuple(islice(filter(None, map(address, texts)), _MOST_ADDRESSES))


def process_id(number: object) -> int:
    """Return the number, or 0 if it cannot be the id of a process."""
    return number if type(number) is int and 0 < number <= _LARGEST_PID else 0
