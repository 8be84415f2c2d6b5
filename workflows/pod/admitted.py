"""Admits a pod's document, and only once where it comes again at once.

A first apply brings it three times: with the start, and to the validator and the handler of its update.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

from syncpod.pod import Admission, admit

_REMEMBERED: Final = 32
"""Documents whose admission is kept: of more pods than that no first task runs at the same time."""
_LONGEST: Final = 16 * 1024
"""Characters of a document whose admission is kept, as JSON: so all that are kept take a few MiB at most."""


def admitted(document: Any) -> Admission:
    """Admit a document as :func:`syncpod.pod.admit` does, which decides by the document alone. Raises PodInvalid."""
    try:
        text = json.dumps(document)
    except (TypeError, ValueError, RecursionError):  # it is no JSON, as its admission will say
        return admit(document)
    return _admitted(text) if len(text) <= _LONGEST else admit(document)


@lru_cache(maxsize=_REMEMBERED)
def _admitted(text: str) -> Admission:
    return admit(json.loads(text))
