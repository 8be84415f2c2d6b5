"""The one way in which a call says no: a gRPC status code and a sentence."""

from __future__ import annotations

from typing import Final

import grpc

MAX_SENTENCE: Final = 1024
"""Characters; gRPC sends the sentence in a trailer, and HTTP/2 peers take no more than 8 KiB of those."""


class Refusal(Exception):
    """A call that is answered with `code` and `sentence`, which names the field's path where a field is at fault."""

    def __init__(self, code: grpc.StatusCode, sentence: str) -> None:
        super().__init__(sentence if len(sentence) <= MAX_SENTENCE else sentence[: MAX_SENTENCE - 1] + "…")
        self.code = code

    @property
    def sentence(self) -> str:
        """What goes over the wire, at most MAX_SENTENCE long."""
        return str(self)


def invalid(path: str, problem: str) -> Refusal:
    """Say that a request is wrong whatever the state of things; `path` is the field's place in it."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"{path}: {problem}")


def unsupported(path: str, problem: str) -> Refusal:
    """Say that a request is right, but cannot be met here; `problem` says what can be done about it."""
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, f"{path}: {problem}")


def precondition(sentence: str) -> Refusal:
    """Say that a thing is not in a state in which this can be done."""
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, sentence)


def not_found(sentence: str) -> Refusal:
    """Say that there is no such thing."""
    return Refusal(grpc.StatusCode.NOT_FOUND, sentence)


def failed(sentence: str) -> Refusal:
    """Say that it was tried and did not work; the code is the one that containerd has for that."""
    return Refusal(grpc.StatusCode.UNKNOWN, sentence)
