"""Requests a service account token for a pod's volumes, keeps it in the node's store, and rotates it.

Mirrors token/token_manager.go, v1.36: a token is replaced after 80 % of its lifetime, or after a day. Difference: while
no new token can be requested, the expired token stays in the volume, and the pod's other files are kept up to date.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from secrets import SystemRandom
from typing import Final

from syncpod.agent.kubernetes.followed_gift import FollowedGift
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.reflector import Backoff
from syncpod.kubernetes.token_requests import NoToken, TokenWish, request_token
from syncpod.objects import TOKEN_KEY, ObjectRef, ObjectRefused, ObjectStore, ObjectUnreadable, TokenNeed
from syncpod.objects.tokens import expiry, former_token, kept_token
from syncpod.pod import ConfigMap, Secret
from syncpod.pod.kinds import values
from syncpod.redaction import of_process

LONGEST: Final = timedelta(hours=24)
"""The age at which a token is replaced, even if it is valid for longer."""
JITTER: Final = timedelta(seconds=10)
"""The longest random time by which a token is replaced earlier."""
LOOK_SECONDS: Final = 60.0
"""Seconds between two checks of the clock, which may be set, or stop while the machine is suspended."""
_CHANCE: Final = SystemRandom().random


class FollowedToken(FollowedGift):
    """One token. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        store: ObjectStore,
        need: TokenNeed,
        tell: Callable[[], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = _CHANCE,
    ) -> None:
        """Keep the token in `store`; `tell` is called as in `FollowedGift`. `chance` returns a number from 0 to 1."""
        lacks = f"pod {need.ref.namespace}/{need.pod} has no new token of service account {need.service_account}"
        super().__init__(store, need.ref, tell, lacks)
        self._client, self._need = client, need
        self._now, self._chance = now, chance

    async def run(self) -> None:
        """Keep the token valid until cancelled."""
        backoff = Backoff(time.monotonic, self._chance)
        while True:
            try:
                wait = await self._round()
            except (ClusterError, Unreachable, NoToken, OSError, ObjectRefused) as error:
                self._fail(where_and_why(error))
                wait = backoff.next(error)
            await self._rest(wait)

    async def _round(self) -> float:
        """Request a token if one is due; return the seconds until the next check."""
        held = await asyncio.to_thread(self._held)
        due = None if held is None else self._due(held)
        if held is not None and due is not None and self._now() < due:
            self._succeed()
            return min((due - self._now()).total_seconds() + 1, LOOK_SECONDS)
        token, expires = await self._request()
        of_process.add([token])  # first, so that no text can contain it
        await asyncio.to_thread(self._keep, token, expires, held)
        if held is not None and (old := former_token(held)):
            await asyncio.to_thread(of_process.forget, [old])
        self._succeed()
        return 0.0

    def _held(self) -> ConfigMap | Secret | None:
        try:
            return self._store.get(self._need.ref)
        except ObjectUnreadable:
            return None

    def _keep(self, token: str, expires: datetime, held: ConfigMap | Secret | None) -> None:
        self._store.keep(kept_token(self._need.ref, token, expires, held), "token")

    def _due(self, held: ConfigMap | Secret) -> datetime | None:
        """Return when a token must be replaced; None = now."""
        expires = expiry(held)
        if expires is None or TOKEN_KEY not in values(held):
            return None
        life, jitter = timedelta(seconds=self._need.seconds), JITTER * self._chance()
        return min(expires - life + LONGEST, expires - life / 5) - jitter

    async def _request(self) -> tuple[str, datetime]:
        """Return a new token, and when it expires. Raises ClusterError, Unreachable, NoToken."""
        need = self._need
        wish = TokenWish(need.ref.namespace, need.service_account, need.pod, need.uid, need.audience, need.seconds)
        token = await request_token(self._client, wish)
        return token.text, token.expires


def forget_token(store: ObjectStore, ref: ObjectRef) -> None:
    """Remove a token from the store, and stop redacting it, since its pod is gone. Blocks. Raises OSError."""
    try:
        held = store.get(ref)
    except ObjectUnreadable:
        held = None
    store.forget(ref)
    if held is not None:
        of_process.forget(each.decode(errors="surrogateescape") for each in values(held).values())
