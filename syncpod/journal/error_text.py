"""An error's text in one line: all of it, or only its innermost clause, which names the fault."""

from __future__ import annotations

import re
from typing import Final

_WRAPPING: Final = re.compile(
    r"failed to |unable to |error |rpc error|OCI runtime |runc |absent$|exited \d"
    r"|Back-off |ErrImage|ImagePull|RunContainer"
)
"""The beginnings of clauses that only name the attempt."""
_STATUS: Final = re.compile(r"^code = \w+ desc = ")
"""gRPC's text between `rpc error: ` and the error itself."""


def one_line(text: str) -> str:
    """Return an error in one line."""
    return " ".join(text.split())


def innermost(text: str) -> str:
    """Return an error in one line, without the leading clauses that only name the attempt."""
    clauses = one_line(text).split(": ")
    while len(clauses) > 1 and _WRAPPING.match(clauses[0]):
        del clauses[0]
        clauses[0] = _STATUS.sub("", clauses[0])
    return ": ".join(clauses)
