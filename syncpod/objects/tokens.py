"""The tokens of service accounts that a cluster issues for a pod, and how a node stores them.

A node stores a token as it stores a Secret of the cluster, in memory and with its value hidden, under a name made from
the pod's UID and the token's purpose. The cluster does not have this Secret, and no pod can refer to it by name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from syncpod.objects.refs import ObjectRef
from syncpod.pod import ConfigMap, ObjectMeta, Pod, Secret
from syncpod.pod.kinds import values
from syncpod.pod.volumes import ServiceAccountTokenProjection

TOKEN_KEY: Final = "token"
_FORMER_KEY: Final = "former"
_EXPIRES: Final = "syncpod.dev/expires"
_DEFAULT_SECONDS: Final = 3600
_DEFAULT_ACCOUNT: Final = "default"


@dataclass(frozen=True)
class TokenNeed:
    """A token that a pod's volumes contain."""

    ref: ObjectRef
    """The reference under which the node stores it."""
    pod: str
    uid: str
    """The pod's UID: the token is valid only as long as this pod exists."""
    service_account: str
    audience: str
    """The token's audience; "" = the API server itself."""
    seconds: int
    """The requested lifetime in seconds."""


def token_ref(pod: Pod, wanted: ServiceAccountTokenProjection) -> ObjectRef:
    """Return the reference to a token of a pod. Equal sources share one reference."""
    said = f"{wanted.audience}\0{_seconds(wanted)}\0{pod.spec.service_account_name or _DEFAULT_ACCOUNT}"
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return ObjectRef("Secret", pod.metadata.namespace or "default", f"{pod.metadata.uid}-{digest}", "token")


def token_needs(pod: Pod) -> Iterator[TokenNeed]:
    """Yield the tokens that a pod of a cluster needs, one for each source."""
    for volume in pod.spec.volumes:
        for part in volume.projected.sources if volume.projected is not None else ():
            if (wanted := part.service_account_token) is not None:
                yield TokenNeed(
                    token_ref(pod, wanted),
                    pod.metadata.name,
                    pod.metadata.uid,
                    pod.spec.service_account_name or _DEFAULT_ACCOUNT,
                    wanted.audience,
                    _seconds(wanted),
                )


def kept_token(ref: ObjectRef, token: str, expires: datetime, before: ConfigMap | Secret | None) -> Secret:
    """Return the Secret in which a node stores a token; `before` is the Secret stored so far, None if there is none.

    The previous token is stored too, since a program may still write it to its output: its value stays hidden until the
    next token replaces this one.
    """
    data = {TOKEN_KEY: token.encode()}
    if before is not None and TOKEN_KEY in values(before):
        data[_FORMER_KEY] = values(before)[TOKEN_KEY]
    metadata = ObjectMeta(name=ref.name, namespace=ref.namespace, annotations={_EXPIRES: expires.isoformat()})
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return Secret(metadata=metadata, data=encoded, type="Opaque")


def former_token(kept: ConfigMap | Secret) -> str:
    """Return the previous token in a kept token's Secret; "" = none."""
    return values(kept).get(_FORMER_KEY, b"").decode()


def expiry(kept: ConfigMap | Secret) -> datetime | None:
    """Return the time at which a kept token expires; None if that cannot be read."""
    try:
        return datetime.fromisoformat(kept.metadata.annotations[_EXPIRES])
    except (KeyError, ValueError):
        return None


def _seconds(wanted: ServiceAccountTokenProjection) -> int:
    return wanted.expiration_seconds or _DEFAULT_SECONDS
