"""What whoever queries a workflow, and the worker that answers, both know."""

from typing import Final

AHEAD: Final = "the query met signals that no workflow task has taken yet; ask again"
"""How a query fails whose replay would have run ahead of the history."""
