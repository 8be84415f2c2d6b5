"""Requests a certificate from a cluster, and waits until the request is approved and the certificate issued.

Mirrors client-go's util/certificate/csr (v0.36), RequestCertificate, WaitForCertificate. An interrupted request is
continued: its key is on disk, and its name follows from the key.
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
"""The first pause between two reads of a request, and the longest, in seconds. Each is 1.5 times the one before."""


class CertificateRefused(Exception):
    """The cluster issues no certificate for a request; the text is a clause that says why."""


def _nobody(_name: str) -> None:
    """Ignore the name of a request."""


async def obtain(
    client: ApiClient, wanted: WantedCertificate, file: CertificateFile, *, asked: Callable[[str], None] = _nobody
) -> None:
    """Request a certificate from the cluster and write it to `file`. Waits without a limit for the answer.

    `asked` is called with the name of the request, which an administrator may have to approve. Raises
    CertificateRefused; the next call then uses another key. Raises ClusterError, Unreachable and OSError; the next call
    then continues this request.
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
    """Return the certificate (b"" = refused) and the reason of the refusal ("" = issued). Raises ClusterError.

    Waits while the server is unreachable.
    """
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
