"""Refusals of calls: a gRPC status code and a sentence."""

from __future__ import annotations

from typing import Final

import grpc

MAX_SENTENCE: Final = 1024
"""Maximum characters of a sentence: gRPC sends it in a trailer, and HTTP/2 peers accept at most 8 KiB of trailers."""


class Refusal(Exception):
    """The call is answered with `code` and `sentence`, which names the field's path if a field is at fault."""

    def __init__(self, code: grpc.StatusCode, sentence: str) -> None:
        super().__init__(sentence if len(sentence) <= MAX_SENTENCE else sentence[: MAX_SENTENCE - 1] + "…")
        self.code = code

    @property
    def sentence(self) -> str:
        """The sentence as it is sent, at most MAX_SENTENCE long."""
        return str(self)


def invalid(path: str, problem: str) -> Refusal:
    """Return a refusal: the request is invalid in every state of the runtime; `path` is the field's path in it."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"{path}: {problem}")


def unsupported(path: str, problem: str) -> Refusal:
    """Return a refusal: the request is valid but not supported here; `problem` includes a remedy."""
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, f"{path}: {problem}")


def precondition(sentence: str) -> Refusal:
    """Return a refusal: the state of the sandbox or container does not allow the call."""
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, sentence)


def not_found(sentence: str) -> Refusal:
    """Return a refusal: the sandbox, container or image does not exist."""
    return Refusal(grpc.StatusCode.NOT_FOUND, sentence)


def failed(sentence: str) -> Refusal:
    """Return a refusal: the call was tried and failed; the code is containerd's."""
    return Refusal(grpc.StatusCode.UNKNOWN, sentence)
