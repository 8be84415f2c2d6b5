"""Trust anchors and certificates of pods, as an API server has them. Values in, values out.

Mirrors pkg/kubelet/clustertrustbundle/clustertrustbundle_manager.go and podcertificate/podcertificatemanager.go, v1.36.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from syncpod.fleet.selectors import selects
from syncpod.kubernetes.json_documents import mapping, mappings
from syncpod.objects import BundleNeed, CertificateNeed

GROUP: Final = "/apis/certificates.k8s.io"
VERSIONS: Final = ("v1", "v1beta1")
"""The versions of the group that this node supports, the preferred one first."""
BUNDLES: Final = "clustertrustbundles"
REQUESTS: Final = "podcertificaterequests"
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*?\n(.*?)-----END \1-----", re.DOTALL)
_HEADER: Final = re.compile(r"^[^\n:]+:[^\n]*\n", re.MULTILINE)
_LINE: Final = 64


class NotIssued(Exception):
    """The cluster gives a pod no trust anchors or no certificate; the text is a clause, in the kubelet's words."""


@dataclass(frozen=True)
class Issued:
    """A certificate that a signer has issued."""

    chain: str
    """The certificate chain as PEM, without anything between the blocks."""
    refresh: datetime
    expires: datetime


def trust_anchors(bundles: Iterable[Mapping[str, Any]], need: BundleNeed) -> str:
    """Return the trust anchors for a pod's volume, as PEM, each once; "" if there are none and the volume allows that.

    The anchors are sorted by their bytes; a kubelet's order changes with each of its starts. Raises NotIssued.
    """
    if need.name:
        chosen = [each for each in bundles if mapping(each.get("metadata")).get("name") == need.name]
        missing = f'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "{need.name}" not found'
    else:
        chosen = [each for each in bundles if _is_of_signer(each, need)]
        missing = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
    if not chosen and not need.is_optional:
        raise NotIssued(missing)
    texts = (str(mapping(each.get("spec")).get("trustBundle") or "") for each in chosen)
    return "".join(_block(each) for each in sorted({anchor for text in texts for anchor in _blocks(text)}))


def certificate_request(
    need: CertificateNeed, version: str, request: bytes, account_uid: str, node: str, node_uid: str
) -> dict[str, Any]:
    """Return the PodCertificateRequest for a pod; `request` is a PKCS#10 request, in DER, that proves the key."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": need.pod, "uid": need.uid}
    spec: dict[str, Any] = {
        "signerName": need.signer,
        "podName": need.pod,
        "podUID": need.uid,
        "serviceAccountName": need.service_account,
        "serviceAccountUID": account_uid,
        "nodeName": node,
        "nodeUID": node_uid,
        "stubPKCS10Request": base64.b64encode(request).decode(),
    }
    if need.seconds is not None:
        spec["maxExpirationSeconds"] = need.seconds
    if need.annotations:
        spec["unverifiedUserAnnotations"] = dict(need.annotations)
    return {
        "apiVersion": f"certificates.k8s.io/{version}",
        "kind": "PodCertificateRequest",
        "metadata": {"namespace": need.ref.namespace, "generateName": "req-", "ownerReferences": [owner]},
        "spec": spec,
    }


def issued(request: Mapping[str, Any]) -> Issued | None:
    """Return the certificate that a signer has issued for a request; None if the signer has not answered yet.

    Raises NotIssued if it refuses for good.
    """
    status = mapping(request.get("status"))
    for condition in mappings(status.get("conditions")):
        kind = condition.get("type")
        if kind in ("Denied", "Failed"):
            reason, message = condition.get("reason") or "", condition.get("message") or ""
            said = f'reason="{reason}" message="{message}"'
            raise NotIssued(f"PodCertificateRequest was permanently {kind.lower()}: {said}")
        if kind == "Issued":
            return _issued(status)
    return None


def _issued(status: Mapping[str, Any]) -> Issued:
    chain = "".join(_block(each) for each in _blocks(str(status.get("certificateChain") or "")))
    try:
        refresh, expires = (datetime.fromisoformat(str(status[name])) for name in ("beginRefreshAt", "notAfter"))
    except (KeyError, ValueError):
        chain = ""
    if not chain or refresh.tzinfo is None or expires.tzinfo is None:
        raise NotIssued("the answer to the PodCertificateRequest is no certificate")
    return Issued(chain, refresh, expires)


def _is_of_signer(bundle: Mapping[str, Any], need: BundleNeed) -> bool:
    labels = {str(key): str(value) for key, value in mapping(mapping(bundle.get("metadata")).get("labels")).items()}
    return mapping(bundle.get("spec")).get("signerName") == need.signer and selects(need.selector, labels)


def _blocks(text: str) -> Iterator[bytes]:
    """Yield the bytes of each block of a PEM text; an invalid block is left out, as by Go's decoder."""
    for found in _BLOCK.finditer(text):
        body = _HEADER.sub("", found[2])
        try:
            yield base64.b64decode("".join(body.split()), validate=True)
        except (binascii.Error, ValueError):
            continue


def _block(content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
