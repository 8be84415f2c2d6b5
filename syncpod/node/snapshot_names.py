"""The file names of snapshots, for readers that do without the models of their content."""

from __future__ import annotations

from typing import Final

NODE_SNAPSHOT_NAME: Final = "node-workflow.json"
"""The file name of the snapshot of the node's own workflow, in the state directory."""
