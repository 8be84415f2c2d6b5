"""The kubelet's container hash, and canonical JSON."""

import json

from syncpod.pod.wire import Model, to_wire

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_GO_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Characters that Go's encoding/json escapes and Python's json does not."""


def container_hash(name: str, image: str) -> str:
    """Return the hash that decides whether a container must be recreated, as lower-case hex without `0x`.

    It is FNV-1a, 32 bits, of the bytes of the container's JSON as Go's spew prints them; only name and image are
    included. Mirrors `pkg/kubelet/container/helpers.go`, v1.36, HashContainer.
    """
    document = json.dumps({"image": image, "name": name}, ensure_ascii=False, separators=(",", ":"))
    encoded = document.translate(_GO_ESCAPES).encode("utf-8")
    text = f"([]uint8)[{' '.join(map(str, encoded))}]"
    total = _FNV_OFFSET
    for byte in text.encode("ascii"):
        total = (total ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return format(total, "x")


def canonical_json(model: Model) -> str:
    """Return the model's wire form as compact JSON with sorted keys: equal models give equal text."""
    return json.dumps(to_wire(model), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
