"""Errors of the API: each is a Kubernetes Status with one sentence."""

from __future__ import annotations

from typing import Any, Final

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
}


class ApiError(Exception):
    """A request that fails, with an HTTP code and a message."""

    def __init__(self, code: int, message: str, *, allow: str = "", details: dict[str, Any] | None = None) -> None:
        """`code` is the HTTP status code. `allow` has the allowed methods of a path, for 405."""
        super().__init__(message)
        self.code, self.message, self.allow, self.details = code, message, allow, details

    @property
    def document(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": _REASONS[self.code],
            "code": self.code,
        }
        return status | ({"details": self.details} if self.details else {})


def not_found(resource: str, name: str, why: str = "") -> ApiError:
    """Return the error that a resource (``pods``) has no object of this name, in the words of kube-apiserver.

    `why` is a clause that is added to them; "" = none.
    """
    sentence = f'{resource} "{name}" not found{why and f" ({why})"}'
    return ApiError(404, sentence, details={"name": name, "kind": resource})
