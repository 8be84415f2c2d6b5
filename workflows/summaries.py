"""The length of the summaries of steps and timers, which the Temporal UI shows beside their names."""

from __future__ import annotations

LONGEST_SUMMARY = 120
"""How many characters the Temporal UI shows in one line: a step's name and its summary. The server keeps 200 bytes."""


def clip(text: str, longest: int = LONGEST_SUMMARY) -> str:
    """Cut a summary to `longest` characters, and to the bytes that the server keeps."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    raw = short.encode()
    return short if len(raw) <= 200 else raw[:197].decode(errors="ignore") + "…"
