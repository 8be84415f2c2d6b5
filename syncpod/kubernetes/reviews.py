"""The reviews by which an API server identifies a node's client and authorizes it: TokenReview and SubjectAccessReview.

Values in, values out. Mirrors pkg/kubelet/server/auth.go, v1.36, with the node's fine-grained resources
(KubeletFineGrainedAuthz). Difference: exec, attach and port-forward need the verb `create`, also for the GET of a
WebSocket. A kubelet permits them to anybody with `get` on `nodes/proxy` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncpod.kubernetes.json_documents import mapping

AUTHENTICATED: Final = "system:authenticated"
"""The group of all authenticated users."""
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_PROXY: Final = "proxy"
_COMMANDS: Final = ("/exec", "/attach", "/portForward", "/run")
"""Paths that need the verb `create`, whatever the method."""
_SUBRESOURCES: Final = (
    ("/stats", ("stats",)),
    ("/metrics", ("metrics",)),
    ("/logs", ("log",)),
    ("/checkpoint", ("checkpoint",)),
    ("/statusz", ("statusz",)),
    ("/flagz", ("flagz",)),
    ("/healthz", ("healthz", _PROXY)),
    ("/pods", ("pods", _PROXY)),
    ("/runningpods", ("pods", _PROXY)),
    ("/configz", ("configz", _PROXY)),
)
_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class User:
    """An authenticated user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Access:
    """The permission that a request needs: its verb on any one of these subresources of the node."""

    verb: str
    subresources: tuple[str, ...]


def access_of(method: str, path: str) -> Access:
    """Return the permission that a request needs."""
    if any(_is_beneath(path, command) for command in _COMMANDS):
        return Access("create", (_PROXY,))
    found = next((names for above, names in _SUBRESOURCES if _is_beneath(path, above)), (_PROXY,))
    return Access(_VERBS.get(method, ""), found)


def _is_beneath(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")


def token_review(token: str) -> dict[str, Any]:
    """Return the TokenReview of a token. Its answer names the token's user."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def reviewed_user(review: Mapping[str, Any]) -> User | None:
    """Return the token's user by the answered review; None if the token is not valid."""
    status = mapping(review.get("status"))
    user = mapping(status.get("user"))
    name = user.get("username")
    if status.get("authenticated") is not True or not isinstance(name, str) or not name:
        return None
    extra = mapping(user.get("extra"))
    return known_user(
        name,
        uid=str(user.get("uid") or ""),
        groups=_texts(user.get("groups")),
        extra=tuple((str(key), _texts(values)) for key, values in sorted(extra.items())),
    )


def known_user(
    name: str, *, uid: str = "", groups: tuple[str, ...] = (), extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> User:
    """Return a user with the group of all authenticated users among the groups."""
    return User(name, uid, groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED), extra)


def access_review(user: User, node: str, verb: str, subresource: str) -> dict[str, Any]:
    """Return the SubjectAccessReview of a user's access to a subresource of a node."""
    attributes = {
        **{"verb": verb, "group": "", "version": "v1"},
        **{"resource": "nodes", "subresource": subresource, "name": node},
    }
    spec: dict[str, Any] = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def is_allowed(review: Mapping[str, Any]) -> bool:
    """Return whether an answered access review permits the access."""
    status = mapping(review.get("status"))
    return status.get("allowed") is True and status.get("denied") is not True


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()
