"""Requests a token of a service account for one pod (authentication.k8s.io/v1 TokenRequest)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.json_documents import mapping


class NoToken(Exception):
    """The API server's answer is no token; the text shows nothing of it."""


@dataclass(frozen=True)
class TokenWish:
    """A request for a token, which is valid only as long as the pod exists."""

    namespace: str
    service_account: str
    pod: str
    uid: str
    """The pod's UID."""
    audience: str
    """The token's audience; "" = the API server itself."""
    seconds: int | None
    """The requested lifetime; None = the API server's default."""


@dataclass(frozen=True)
class Token:
    """A token that was issued."""

    text: str
    expires: datetime
    written: str
    """The expiry as the API server has written it."""


async def request_token(client: ApiClient, wish: TokenWish) -> Token:
    """Request a token. Raises ClusterError, Unreachable, NoToken."""
    spec: dict[str, Any] = {
        "audiences": [wish.audience] if wish.audience else [],
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": wish.pod, "uid": wish.uid},
    }
    if wish.seconds is not None:
        spec["expirationSeconds"] = wish.seconds
    answer = await client.ask(
        "POST",
        f"/api/v1/namespaces/{wish.namespace}/serviceaccounts/{wish.service_account}/token",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": spec},
    )
    status = mapping(answer.get("status"))
    token, written = status.get("token"), status.get("expirationTimestamp")
    try:
        expires = datetime.fromisoformat(str(written))
    except ValueError:
        raise NoToken("the API server's answer is no token") from None
    if not isinstance(token, str) or not token or expires.tzinfo is None:
        raise NoToken("the API server's answer is no token")
    return Token(token, expires, str(written))
