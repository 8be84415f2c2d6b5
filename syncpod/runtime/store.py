"""The server's files of sandboxes and containers. No crash leaves a file half-written.

One directory for each sandbox and container, named by its id::

    sandboxes/<id>/record        the request that made it, and the server's additions
    sandboxes/<id>/pause/        the files of the pause's process; see `port.Processes`
    containers/<id>/record       the same for a container
    containers/<id>/process/     made when a start begins, so it exists only if one has begun
    containers/<id>/ended        how the container ended; final

A directory without a `record` is half made or half removed, and does not count: `record` is written last and removed
first.
"""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.runtime.port import Exited

_RECORD = "record"
_ENDED = "ended"
_RECENT: Final = 64
"""Maximum number of cached records, of a few KiB each. The start of a container reads the records of the container and
its sandbox a dozen times."""
_recent: Final[OrderedDict[str, tuple[dict[str, Any], bytes]]] = OrderedDict()
"""The cached records, by directory. No other process writes the files: a directory belongs to one server."""


def replace(path: Path, data: bytes) -> None:
    """Replace a file atomically; mode 0600. Raises OSError.

    The file is not synced to disk: after a crash of the machine, nothing that it describes still runs.
    """
    replace_file(path, data, durable=False)


def write_record(directory: Path, facts: Mapping[str, Any], request: bytes) -> None:
    """Write the record of a sandbox or container: from then on, the object exists.

    `facts` are JSON, `request` is a serialised CRI message.
    """
    _recent.pop(str(directory), None)
    replace(directory / _RECORD, json.dumps(facts).encode() + b"\n" + request)


def read_record(directory: Path) -> tuple[dict[str, Any], bytes] | None:
    """Return the facts and the request; None if there is no record. Raises ValueError if it is invalid."""
    try:
        data = (directory / _RECORD).read_bytes()
    except FileNotFoundError:
        return None
    facts, _, request = data.partition(b"\n")
    decoded = json.loads(facts)
    if not isinstance(decoded, dict):
        raise ValueError(f"{directory / _RECORD} does not begin with a JSON object")
    return decoded, request


def recent_record(directory: Path) -> tuple[Mapping[str, Any], bytes] | None:
    """Return the result of `read_record`, from the cache if the record was read recently."""
    key = str(directory)
    record = _recent.get(key)
    if record is None:
        record = read_record(directory)
        if record is None:
            return None
        _recent[key] = record
        if len(_recent) > _RECENT:
            _recent.popitem(last=False)
    else:
        _recent.move_to_end(key)
    return record


def write_ended(directory: Path, exited: Exited) -> None:
    """Write how a container ended."""
    replace(directory / _ENDED, json.dumps(asdict(exited)).encode())


def read_ended(directory: Path) -> Exited | None:
    """Return how a container ended; None if that is not recorded.

    Raises ValueError if the file is invalid, and OSError.
    """
    try:
        found = json.loads((directory / _ENDED).read_bytes())
    except FileNotFoundError:
        return None
    kinds = {"exit_code": int, "reason": str, "message": str, "started_at": int, "finished_at": int}
    if not isinstance(found, dict) or {name: type(value) for name, value in found.items()} != kinds:
        raise ValueError(f"{directory / _ENDED} does not say how a container ended")
    return Exited(**found)


def unmake(directory: Path) -> None:
    """Remove the directory of a sandbox or container that contains at most its record. Raises OSError.

    It opens no file, so it works without free descriptors.
    """
    _recent.pop(str(directory), None)
    for name in (_RECORD, f".{_RECORD}.new"):
        (directory / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        directory.rmdir()


def forget(directory: Path) -> None:
    """Remove the record of a sandbox or container: its remains no longer count."""
    _recent.pop(str(directory), None)
    (directory / _RECORD).unlink(missing_ok=True)
