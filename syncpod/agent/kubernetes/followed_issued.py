"""Follows the trust anchors and certificates of one pod's volumes, and keeps them in the node's store.

Mirrors pkg/kubelet/clustertrustbundle and podcertificate, v1.36. Trust anchors follow their ClusterTrustBundles. For a
certificate the node makes a key and a PodCertificateRequest, and waits for the signer. The next request follows up to
five minutes after the time that the signer has set. A denied or failed request is not repeated by this worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from secrets import SystemRandom
from typing import Any, Final

from syncpod.agent.background import cancel_all
from syncpod.agent.kubernetes.followed_gift import FollowedGift
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.certificates import key_and_request
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.issued import (
    BUNDLES,
    GROUP,
    REQUESTS,
    VERSIONS,
    Issued,
    NotIssued,
    certificate_request,
    issued,
    trust_anchors,
)
from syncpod.kubernetes.json_documents import mapping, mappings
from syncpod.kubernetes.reflector import Backoff, Reflector
from syncpod.objects import (
    BundleNeed,
    CertificateNeed,
    ObjectRefused,
    ObjectStore,
    ObjectUnreadable,
    kept_bundle,
    kept_certificate,
    refresh_at,
)
from syncpod.redaction import of_process

RETRY_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 60.0
"""Seconds between two checks of the clock, which may be set, or stop while the machine is suspended."""
ANSWER_SECONDS: Final = (0.5, 10.0)
"""The first wait for a signer, and the longest; each wait is 1.5 times the previous one."""
ABANDONED: Final = timedelta(minutes=10)
"""How long a request may be without an answer before another one is made."""
JITTER: Final = timedelta(minutes=5)
"""The longest random delay of the next request."""
_CHANCE: Final = SystemRandom().random


async def served_version(client: ApiClient, resource: str) -> str:
    """Return the preferred API version that serves a resource. Raises NotIssued, ClusterError, Unreachable."""
    for version in VERSIONS:
        try:
            served = await client.ask("GET", f"{GROUP}/{version}")
        except ClusterError as error:
            if error.code == 404:
                continue
            raise
        if any(each.get("name") == resource for each in mappings(served.get("resources"))):
            return version
    raise NotIssued(f"the cluster serves no {resource}")


class FollowedBundle(FollowedGift):
    """The trust anchors of one volume. All methods belong to one event loop."""

    def __init__(self, client: ApiClient, store: ObjectStore, need: BundleNeed, tell: Callable[[], None]) -> None:
        """Keep the anchors in `store`; `tell` is called when they are there, and with each new reason why not."""
        super().__init__(store, need.ref, tell, f"pod {need.ref.namespace}/{need.pod} has no trust anchors")
        self._client, self._need = client, need

    async def run(self) -> None:
        """Follow the anchors until cancelled."""
        while True:
            try:
                version = await served_version(self._client, BUNDLES)
                break
            except (ClusterError, Unreachable, NotIssued) as error:
                self._fail(str(error))
                await asyncio.sleep(RETRY_SECONDS)
        need = self._need
        wanted = f"metadata.name={need.name}" if need.name else f"spec.signerName={need.signer}"
        path, params = f"{GROUP}/{version}/{BUNDLES}", {"fieldSelector": wanted}
        reflector = Reflector(self._client, path, "ClusterTrustBundle", params=params, level=logging.DEBUG)
        self._again = reflector.news
        following = asyncio.create_task(reflector.run(), name=f"watch of trust bundles for pod {need.pod}")
        try:
            while True:
                await self._rest(None)
                if reflector.is_complete:
                    await self._keep(reflector)
        finally:
            await cancel_all((following,))

    async def _keep(self, reflector: Reflector) -> None:
        try:
            kept = kept_bundle(self._need.ref, trust_anchors(reflector.objects.values(), self._need))
            await asyncio.to_thread(self._store.keep, kept, "bundle")
        except NotIssued as error:
            self._fail(str(error))
        except (OSError, ValueError) as error:
            self._fail(where_and_why(error))
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self.keep_again)
        else:
            self._succeed()


class FollowedCertificate(FollowedGift):
    """The certificate of one volume. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        store: ObjectStore,
        need: CertificateNeed,
        node: Callable[[], Mapping[str, Any] | None],
        tell: Callable[[], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Keep the certificate in `store`; `node` returns the newest v1 Node.

        `tell` is called when the certificate is in the store, and with each new reason why it is not.
        """
        lacks = f"pod {need.ref.namespace}/{need.pod} has no new certificate of {need.signer}"
        super().__init__(store, need.ref, tell, lacks, level=logging.INFO)
        self._client, self._need, self._node, self._now = client, need, node, now

    async def run(self) -> None:
        """Keep the certificate valid until cancelled."""
        backoff = Backoff(time.monotonic, _CHANCE)
        while True:
            wait: float | None
            try:
                wait = await self._round()
            except NotIssued as error:
                self._fail(str(error))
                wait = None  # final, as in the kubelet
            except (ClusterError, Unreachable, OSError, ObjectRefused) as error:
                self._fail(where_and_why(error))
                wait = backoff.next(error)
            await self._rest(wait)

    async def _round(self) -> float:
        """Request a certificate if one is due; return the seconds until the next check."""
        due = await asyncio.to_thread(self._due)
        if due is not None and self._now() < due:
            self._succeed()
            return min((due - self._now()).total_seconds() + 1, LOOK_SECONDS)
        need = self._need
        version = await served_version(self._client, REQUESTS)
        account = await self._client.ask(
            "GET", f"/api/v1/namespaces/{need.ref.namespace}/serviceaccounts/{need.service_account}"
        )
        key, request = await asyncio.to_thread(key_and_request, need.key_type)
        of_process.add([key])  # first, so that no text can contain it
        is_kept = False
        try:
            found = await self._issued(version, request, str(mapping(account.get("metadata")).get("uid") or ""))
            if found is not None:
                refresh = found.refresh + JITTER * _CHANCE()
                kept = kept_certificate(need.ref, key, found.chain, refresh, found.expires)
                await asyncio.to_thread(self._store.keep, kept, "certificate")
                is_kept = True
                self._succeed()
        finally:
            if not is_kept:  # the key is not used, and the next try makes another
                of_process.forget([key])
        return 0.0

    async def _issued(self, version: str, request: bytes, account_uid: str) -> Issued | None:
        """Make a request, and wait for the signer's answer; None after `ABANDONED`, or if the request is deleted.

        If the API server does not answer meanwhile, only the poll is repeated, and no second request is made.
        """
        need, node = self._need, mapping((self._node() or {}).get("metadata"))
        body = certificate_request(
            need, version, request, account_uid, str(node.get("name") or ""), str(node.get("uid") or "")
        )
        path = f"{GROUP}/{version}/namespaces/{need.ref.namespace}/{REQUESTS}"
        asked = await self._client.ask("POST", path, body=body)
        name, since, (wait, longest) = mapping(asked.get("metadata")).get("name"), self._now(), ANSWER_SECONDS
        while self._now() - since < ABANDONED:
            if (found := issued(asked)) is not None:
                return found
            self._fail("credential bundle is not issued yet")
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, longest)
            try:
                asked = await self._client.ask("GET", f"{path}/{name}")
            except ClusterError as error:
                if error.code == 404:  # a client has deleted it
                    return None
                self._fail(str(error))
            except Unreachable as error:
                self._fail(str(error))
        return None

    def _due(self) -> datetime | None:
        """Return when the next certificate is due; None = now. Blocks."""
        try:
            held = self._store.get(self._need.ref)
        except ObjectUnreadable:
            return None
        return None if held is None else refresh_at(held)
