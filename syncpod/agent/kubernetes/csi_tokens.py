"""Requests the service account tokens that storage drivers receive with a pod's volume (CSIDriver, tokenRequests).

Mirrors pkg/volume/csi/csi_mounter.go, podServiceAccountTokenAttrs, and token/token_manager.go, v1.36: a token is reused
until 80 % of its lifetime, or a day, have passed. Tokens are only in this process's memory, and are redacted in every
text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from syncpod.agent.kubernetes.followed_token import LONGEST
from syncpod.kubernetes.claimed_volume import NotUsable
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.csi import WantedToken
from syncpod.kubernetes.token_requests import NoToken, Token, TokenWish, request_token
from syncpod.objects import ClaimNeed, ObjectRef
from syncpod.redaction import of_process

ATTRIBUTE: Final = "csi.storage.k8s.io/serviceAccount.tokens"


@dataclass(frozen=True)
class _Held:
    token: Token
    due: datetime
    """When the token must be replaced."""
    former: str
    """The previous token, which may still appear in the driver's errors; "" = there was none."""


class DriverTokens:
    """The tokens for one node's drivers. All methods belong to one event loop."""

    def __init__(self, client: ApiClient, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Request tokens with `client`."""
        self._client, self._now = client, now
        self._held: dict[ObjectRef, dict[WantedToken, _Held]] = {}

    async def attributes(self, need: ClaimNeed, wanted: Sequence[WantedToken]) -> Mapping[str, str]:
        """Return the volume attributes with a pod's tokens for a driver; empty if `wanted` is empty.

        Raises NotUsable, ClusterError, Unreachable.
        """
        if not wanted:
            return {}
        tokens = {each.audience: await self._token(need, each) for each in wanted}
        values = {
            audience: {"token": tokens[audience].text, "expirationTimestamp": tokens[audience].written}
            for audience in sorted(tokens)
        }
        return {ATTRIBUTE: json.dumps(values, separators=(",", ":"))}

    def forget(self, ref: ObjectRef) -> None:
        """Drop a volume's tokens, and stop redacting them, since its pod is gone."""
        for held in self._held.pop(ref, {}).values():
            of_process.forget([held.token.text, held.former])

    async def _token(self, need: ClaimNeed, wanted: WantedToken) -> Token:
        of_need = self._held.setdefault(need.ref, {})
        before = of_need.get(wanted)
        if before is not None and self._now() < before.due:
            return before.token
        wish = TokenWish(need.ref.namespace, need.service_account, need.pod, need.uid, wanted.audience, wanted.seconds)
        try:
            token = await request_token(self._client, wish)
        except NoToken as error:
            raise NotUsable(f"failed to fetch token: {error}") from error
        of_process.add([token.text])
        if before is not None and before.former:
            of_process.forget([before.former])
        life = token.expires - self._now() if wanted.seconds is None else timedelta(seconds=wanted.seconds)
        due = min(token.expires - life + LONGEST, token.expires - life / 5)
        of_need[wanted] = _Held(token, due, before.token.text if before is not None else "")
        return token
