"""Replaces a node's certificates before they expire: its client certificate, and that of the kubelet's port.

Mirrors client-go's util/certificate/certificate_manager.go (v0.36): each is replaced at a random time between 70 and
90 % of its life, so that the nodes of a cluster do not all send requests at once.
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
"""The longest pause between two checks whether another certificate is wanted: the node's addresses may change."""
ANSWER_SECONDS: Final = 900.0
"""Seconds to wait for the approval of a request before the next try (certificateWaitTimeout)."""
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
        """Request the certificate that `wanted` describes; call `replaced` when `file` has a new one.

        `chance` returns a random number from 0 to 1.
        """
        self._client, self._file, self._wanted, self._replaced = client, file, wanted, replaced
        self._chance = chance()
        self._draw = chance

    async def run(self) -> None:
        """Keep the certificate valid until cancelled."""
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
        """Return the seconds until a new certificate is due; 0 or less = now."""
        pair = await asyncio.to_thread(self._file.read)
        if (wanted.names or wanted.addresses) and not is_for(pair, wanted.names, wanted.addresses):
            return 0.0
        try:
            due = rotation_due(pair, self._chance)
        except ValueError:  # there is no certificate, or it is damaged
            return 0.0
        return (due - datetime.now(UTC)).total_seconds()
