"""The build id with which a worker is known to the Temporal server."""

from __future__ import annotations

from importlib import metadata

from syncpod.lifecycle import version
from workflows.source_digest import source_digest


def build_id() -> str:
    """Return the build id for the server: the program's version, and its decisions' version and source digest.

    Without a build id, the SDK would compile the source of every module to make one: a third of a cold start.
    """
    try:
        program = f"syncpod-{metadata.version('syncpod')}"
    except metadata.PackageNotFoundError:
        program = "syncpod-checkout"
    return version.build_id(program, source_digest())
