"""Replaces the node's certificates before they end: the one that it has joined with, and the one that it serves with.

Mirrors client-go's util/certificate/certificate_manager.go (v0.36): the next one is asked for at 70 to 90 % of the life
of each, by chance, so that the nodes of a cluster do not all come at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from secrets import SystemRandom
from typing import Final

from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.certificate_files import CertificateFile
from syncpod.kubernetes.certificate_requests import CertificateRefused, obtain
from syncpod.kubernetes.certificates import WantedCertificate, is_for, rotation_due
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.reflector import Backoff

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
"""How often it is looked whether another certificate is wanted, since the node's addresses may change."""
ANSWER_SECONDS: Final = 900.0
"""How long a request may take to be approved; then it is asked for again (certificateWaitTimeout)."""
_CHANCE: Final = SystemRandom().random


class Rotation:
    """One certificate of a node. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        file: CertificateFile,
        wanted: Callable[[], Awaitable[WantedCertificate]],
        *,
        replaced: Callable[[], Awaitable[None]],
        chance: Callable[[], float] = _CHANCE,
    ) -> None:
        """Ask by `client` for what `wanted` returns; `replaced` is called when `file` has another certificate.

        `chance` returns a number from 0 to 1.
        """
        self._client, self._file, self._wanted, self._replaced = client, file, wanted, replaced
        self._chance = chance()
        self._draw = chance

    async def run(self) -> None:
        """Keep the certificate good until cancelled."""
        backoff, logged = Backoff(time.monotonic, SystemRandom().random), ""
        while True:
            wanted = await self._wanted()
            if (seconds := await self._seconds_left(wanted)) > 0:
                await asyncio.sleep(min(seconds, LOOK_SECONDS))
                continue
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await obtain(self._client, wanted, self._file, asked=self._asked)
                await self._replaced()
                log.info("the node has a new certificate of signer %s", wanted.signer)
                self._chance, logged = self._draw(), ""
            except (CertificateRefused, ClusterError, Unreachable, OSError, TimeoutError) as error:
                why = where_and_why(error) if error.args else f"not approved within {ANSWER_SECONDS:g} s"
                if why != logged:
                    log.warning("the node gets no certificate of signer %s: %s", wanted.signer, why)
                    logged = why
                await asyncio.sleep(backoff.next(error))

    def _asked(self, name: str) -> None:
        log.info("certificate request %s waits for its approval", name)

    async def _seconds_left(self, wanted: WantedCertificate) -> float:
        """Return after how many seconds a new certificate is to be asked for; 0 or less = now."""
        pair = await asyncio.to_thread(self._file.read)
        if (wanted.names or wanted.addresses) and not is_for(pair, wanted.names, wanted.addresses):
            return 0.0
        try:
            due = rotation_due(pair, self._chance)
        except ValueError:  # there is none, or it is damaged
            return 0.0
        return (due - datetime.now(UTC)).total_seconds()
