"""The values of a ConfigMap or Secret as bytes by key."""

import base64

from syncpod.pod import ConfigMap, Secret


def values(found: ConfigMap | Secret) -> dict[str, bytes]:
    """Return each key's bytes: ``data`` and ``binaryData``, or ``data`` with ``stringData`` laid over it.

    The object must have passed validation. Raises ValueError, which shows no value, for invalid base64.
    """
    if isinstance(found, ConfigMap):
        texts, encoded = found.data, found.binary_data
    else:
        texts, encoded = found.string_data, found.data
    return {
        **{key: base64.b64decode(text) for key, text in encoded.items()},
        **{key: text.encode() for key, text in texts.items()},
    }
