"""The system's error of a failed call as a sentence for people: without Python's ``[Errno 28]`` and quotes."""

from __future__ import annotations

import os
from typing import Final

_ASYNCIO_SAYS: Final = ("error while attempting to bind on address", "Connect call failed", "Multiple exceptions")
"""The beginnings of texts that say again where, in Python's form."""


def why_of(error: OSError) -> str:
    """Return why a call to the system failed, in the system's words or ours, without the file."""
    if type(error).__module__ == "ssl":  # whose numbers are not the system's
        said = getattr(error, "verify_message", "") or getattr(error, "reason", "")
        return str(said).lower().replace("_", " ") if said else "TLS failed"
    told = error.strerror or ""
    if error.errno is not None and error.errno > 0 and (not told or told.startswith(_ASYNCIO_SAYS)):
        return os.strerror(error.errno)
    return told or str(error) or type(error).__name__


def where_and_why(error: BaseException) -> str:
    """Return the file of a system's error, if it names one, and why; of any other error its text."""
    if not isinstance(error, OSError):
        return str(error)
    if not isinstance(error.filename, str | bytes):
        return why_of(error)
    return f"{os.fsdecode(error.filename)}: {why_of(error)}"
