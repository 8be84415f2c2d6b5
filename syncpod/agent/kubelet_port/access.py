"""Authenticates the clients of the kubelet's port, and asks the API server whether it permits their requests.

Mirrors pkg/kubelet/server/server.go, v1.36, InstallAuthFilter, and app/auth.go with the defaults of its settings: no
anonymous requests; a token's user is cached for two minutes, a permission for five minutes, and a denial for 30 s.
Settings may permit anonymous requests, and all requests of authenticated clients (AlwaysAllow).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from syncpod.agent.kubelet_port.remembered import Remembered
from syncpod.api.statuses import ApiError
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.client_certificates import user_of_certificate
from syncpod.kubernetes.reviews import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Access,
    User,
    access_review,
    is_allowed,
    reviewed_user,
    token_review,
)
from syncpod.settings.node import CLOSED, PortAccess

log = logging.getLogger(__name__)

TOKEN_SECONDS: Final = 120.0
"""Seconds for which a token's user is cached: authentication.webhook.cacheTTL."""
ALLOWED_SECONDS: Final = 300.0
"""Seconds for which a permission is cached: authorization.webhook.cacheAuthorizedTTL."""
DENIED_SECONDS: Final = 30.0
"""Seconds for which a denial is cached: authorization.webhook.cacheUnauthorizedTTL."""
_KEPT: Final = 4096
"""The most cached answers of each kind."""
_AT_ONCE: Final = 16
"""The most concurrent reviews of each kind: unknown clients may send any number of tokens."""


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))
"""A client that has no valid certificate, and sends no token."""


@dataclass(frozen=True)
class _Token:
    """The user of a reviewed token; None = the token is invalid."""

    user: User | None


class Guard:
    """Authenticates and authorizes requests to one node. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient | None,
        node: str,
        access: PortAccess = CLOSED,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Review requests to this node with `client`. `clock` is monotonic, in seconds.

        `client` is None without an API server; then `access` must not need one (`PortAccess.needs_api_server`).
        """
        assert client is not None or not access.needs_api_server
        self._client, self._node, self._access = client, node, access
        self._secret = secrets.token_bytes(32)
        self._tokens: Remembered[bytes, _Token] = Remembered(_KEPT, _AT_ONCE, clock)
        self._permissions: Remembered[tuple[User, str, str], bool] = Remembered(_KEPT, _AT_ONCE, clock)

    async def user(self, certificate: bytes | None, authorization: str) -> User:
        """Return the user of a client certificate (DER), which TLS has verified, or of an Authorization header.

        Raises ApiError if there is none.
        """
        if certificate is not None:
            known = user_of_certificate(certificate, datetime.now(UTC))
            if known is not None:
                return known
        scheme, _, token = authorization.strip().partition(" ")
        shows_token = self._access.reviews_tokens and scheme.lower() == "bearer" and bool(token.strip())
        user = await self._user_of_token(token.strip()) if shows_token else None
        if user is None and self._access.anonymous and not shows_token:  # an invalid token is not anonymous
            return ANONYMOUS
        if user is None:
            raise ApiError(401, "Unauthorized")
        return user

    async def _user_of_token(self, token: str) -> User | None:
        """Return the user of a token; None if it is invalid, or if the API server does not answer."""
        client = self._client
        assert client is not None

        async def ask() -> _Token:
            return _Token(reviewed_user(await client.ask("POST", TOKEN_REVIEWS, body=token_review(token))))

        # The key is a digest, so that the token itself does not stay in memory with the answer.
        question = hmac.digest(self._secret, token.encode(errors="surrogateescape"), hashlib.sha256)
        try:
            return (await self._tokens.answer(question, ask, lambda _: TOKEN_SECONDS)).user
        except (ClusterError, Unreachable) as error:
            log.warning("cannot review the token of a request: %s", error)
            return None

    async def require(self, user: User, access: Access) -> None:
        """Raise ApiError if the user may not have this access to the node, or if the API server does not answer."""
        if self._access.always_allow:
            return
        names = " ".join(access.subresources)
        who = f"(user={user.name}, verb={access.verb}, resource=nodes, subresource(s)=[{names}])"
        try:
            for subresource in access.subresources:
                if await self._may(user, access.verb, subresource):
                    return
        except (ClusterError, Unreachable) as error:
            log.warning("cannot ask what %s may do here: %s", user.name, error)
            raise ApiError(500, f"Authorization error {who}") from None
        raise ApiError(403, f"Forbidden {who}")

    async def _may(self, user: User, verb: str, subresource: str) -> bool:
        client = self._client
        assert client is not None

        async def ask() -> bool:
            review = access_review(user, self._node, verb, subresource)
            return is_allowed(await client.ask("POST", ACCESS_REVIEWS, body=review))

        question = (user, verb, subresource)
        return await self._permissions.answer(
            question, ask, lambda allowed: ALLOWED_SECONDS if allowed else DENIED_SECONDS
        )
