"""Values as Go prints them, for events and messages in the kubelet's words."""

from __future__ import annotations


def go_duration(seconds: float) -> str:
    """Return a duration as Go prints it, cut to milliseconds: `0s`, `532ms`, `1.2s`, `2m3.5s`, `1h0m0.5s`."""
    milliseconds = int(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    whole, fraction = divmod(rest, 1000)
    text = f"{whole}.{fraction:03d}".rstrip("0").rstrip(".") if fraction else str(whole)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{text}s"
    return f"{minutes}m{text}s" if minutes else f"{text}s"
