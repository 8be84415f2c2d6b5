"""The port for reads: what the workflow's queries returned."""

from typing import Any, Protocol


class Reads(Protocol):
    """Answers queries about one state. It never changes, and may be read in any thread."""

    def answer(self, query: str, *args: Any) -> Any:
        """Return what the workflow's query of this name returned then. Raises KeyError if it has none."""
