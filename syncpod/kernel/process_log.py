"""The format of a process's log: control characters are escaped, and the system's errors are sentences.

Strangers choose some of the logged names and texts. Without escapes, these could control the terminal that shows the
log.
"""

from __future__ import annotations

import logging
from typing import Final

from typing_extensions import override

from syncpod.kernel.os_errors import where_and_why

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEFT: Final = "\n\t"
"""Control characters that are not escaped: tracebacks have them."""


class PrintableFormatter(logging.Formatter):
    """Formats as `logging.Formatter` does, and escapes control characters except line ends and tabs."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return "".join(
            one if one.isprintable() or one in _LEFT else one.encode("unicode_escape").decode("ascii")
            for one in super().format(record)
        )


class SentencesInLog(logging.Filter):
    """Replaces each OSError among a line's arguments by a sentence. Drops no line."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple) and any(isinstance(each, OSError) for each in record.args):
            record.args = tuple(where_and_why(each) if isinstance(each, OSError) else each for each in record.args)
        return True


def log_printable(*filters: logging.Filter) -> None:
    """Make this process log to stderr at level INFO and above, with these filters in this order."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter(_FORMAT))
    for each in filters:
        handler.addFilter(each)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
