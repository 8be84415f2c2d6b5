"""A log that a terminal may show: names and texts of strangers are in it, and no control character is."""

from __future__ import annotations

import logging
from typing import Final

from typing_extensions import override

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEFT: Final = "\n\t"
"""Tracebacks have these."""


class PrintableFormatter(logging.Formatter):
    """Formats as `logging.Formatter` does, with control characters escaped, but for line ends and tabs."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return "".join(
            one if one.isprintable() or one in _LEFT else one.encode("unicode_escape").decode("ascii")
            for one in super().format(record)
        )


def log_printable(*filters: logging.Filter) -> None:
    """Have this process log to stderr, from INFO on, with these filters in this order."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter(_FORMAT))
    for each in filters:
        handler.addFilter(each)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
