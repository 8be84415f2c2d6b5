"""The gate's record for `syncpod fleet invite`: the address for nodes, and their namespace."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file

FILE_NAME: Final = "gate.json"


@dataclass(frozen=True)
class GateRecord:
    """The address with which the gate was last started."""

    address: str
    """``host:port`` for nodes; "" = the gate listens at all addresses, and no name was given."""
    namespace: str


def write_gate_record(fleet_directory: Path, record: GateRecord) -> None:
    """Write the record. Atomic; readable by its owner only. Raises OSError."""
    replace_file(fleet_directory / FILE_NAME, json.dumps(asdict(record), indent=2) + "\n", durable=True)


def read_gate_record(fleet_directory: Path) -> GateRecord | None:
    """Return the record; None if no gate has been started yet, or the file is not a valid record."""
    try:
        said = json.loads((fleet_directory / FILE_NAME).read_text())
        return GateRecord(str(said["address"]), str(said["namespace"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
