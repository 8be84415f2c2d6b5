"""How long a summary may be: of a step or a timer, as the Temporal UI shows it beside its name."""

from __future__ import annotations

LONGEST_SUMMARY = 120
"""Characters that the Temporal UI shows in one line, the name of a step before its summary included; the server keeps
200 bytes."""


def clip(text: str, longest: int = LONGEST_SUMMARY) -> str:
    """Cut a summary to so many characters, and to what the server keeps."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    raw = short.encode()
    return short if len(raw) <= 200 else raw[:197].decode(errors="ignore") + "…"
