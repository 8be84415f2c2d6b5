"""Asks a cluster for a certificate, and waits until somebody has approved it and it is issued.

Mirrors client-go's util/certificate/csr (v0.36), RequestCertificate, WaitForCertificate. A request that was interrupted
is gone on with: its key is on disk, and its name follows from the key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from syncpod.kubernetes.certificate_files import CertificateFile
from syncpod.kubernetes.certificates import (
    CertificateInvalid,
    WantedCertificate,
    answered,
    request_document,
    require_ours,
)
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable

REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LOOK_SECONDS: Final = (0.5, 10.0)
"""The first wait for an answer, and the longest; each is half as long again as the one before."""


class CertificateRefused(Exception):
    """The cluster issues no certificate for a request; the text is a clause that says why."""


def _nobody(_name: str) -> None:
    """Tell nobody of a request."""


async def obtain(
    client: ApiClient, wanted: WantedCertificate, file: CertificateFile, *, asked: Callable[[str], None] = _nobody
) -> None:
    """Have `file` have a new certificate from the cluster. Waits without a limit until the request is answered.

    `asked` is told the name of the request, which somebody may have to approve. Raises CertificateRefused, after which
    the next request has another key; ClusterError, Unreachable and OSError, after which the next one is the same.
    """
    key = await asyncio.to_thread(file.key_of_request)
    try:
        document = request_document(wanted, key)
    except ValueError:  # the file was damaged: another key will do
        await asyncio.to_thread(file.give_up)
        raise CertificateRefused("the key of the request that was under way cannot be read") from None
    name = document["metadata"]["name"]
    try:
        await client.ask("POST", REQUESTS, body=document)
    except ClusterError as error:
        if error.reason != "AlreadyExists":
            raise
    asked(name)
    certificate, why = await _answer(client, name)
    if not why:
        try:
            require_ours(certificate, key, wanted)
        except CertificateInvalid as wrong:
            why = str(wrong)
    if why:
        await asyncio.to_thread(file.give_up)
        raise CertificateRefused(f"request {name}: {why}")
    await asyncio.to_thread(file.keep, certificate, key)


async def _answer(client: ApiClient, name: str) -> tuple[bytes, str]:
    """Return the certificate, and why there is none. Raises ClusterError; a server that is away is waited for."""
    seconds, longest = LOOK_SECONDS
    while True:
        try:
            certificate, why = answered(await client.ask("GET", f"{REQUESTS}/{name}"))
        except (Unreachable, ClusterError) as error:
            if isinstance(error, ClusterError) and error.code < 500 and error.code not in (408, 429):
                raise
        else:
            if certificate or why:
                return certificate, why
        await asyncio.sleep(seconds)
        seconds = min(seconds * 1.5, longest)
