"""The work of ``syncpod version``."""

from __future__ import annotations

from importlib import metadata


def installed_versions(part: str) -> str:
    """Return the version of a package; a source checkout that is not installed has none."""
    try:
        return metadata.version(part)
    except metadata.PackageNotFoundError:
        return "(not installed)"
