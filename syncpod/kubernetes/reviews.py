"""The reviews that ask an API server who a client is and what it may do at a node: TokenReview and SubjectAccessReview.

Values in, values out. Mirrors pkg/kubelet/server/auth.go, v1.36, with the node's fine-grained resources
(KubeletFineGrainedAuthz). Difference: to run a command in a container, to attach to one and to forward a port takes the
verb `create`, also where a WebSocket asks for it with GET. With a kubelet, who may read `nodes/proxy` may do so too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncpod.kubernetes.json_documents import mapping

AUTHENTICATED: Final = "system:authenticated"
"""The group of everybody who is known."""
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_PROXY: Final = "proxy"
_COMMANDS: Final = ("/exec", "/attach", "/portForward", "/run")
"""Paths whose use is no reading, by whichever method."""
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
    """Somebody who is known."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Access:
    """An access to a node that a client asks for: permission for one of its subresources is enough."""

    verb: str
    subresources: tuple[str, ...]


def access_of(method: str, path: str) -> Access:
    """Return what a request wants."""
    if any(_is_beneath(path, command) for command in _COMMANDS):
        return Access("create", (_PROXY,))
    found = next((names for above, names in _SUBRESOURCES if _is_beneath(path, above)), (_PROXY,))
    return Access(_VERBS.get(method, ""), found)


def _is_beneath(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")


def token_review(token: str) -> dict[str, Any]:
    """Return the question whose a token is."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def reviewed_user(review: Mapping[str, Any]) -> User | None:
    """Return whose the token is; None = nobody's."""
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
    """Return a user, in the group of everybody who is known."""
    return User(name, uid, groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED), extra)


def access_review(user: User, node: str, verb: str, subresource: str) -> dict[str, Any]:
    """Return the question whether somebody may use a subresource of a node."""
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
    """Say whether the answer to an access review is yes."""
    status = mapping(review.get("status"))
    return status.get("allowed") is True and status.get("denied") is not True


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()
