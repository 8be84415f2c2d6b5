"""References in a container's command, arguments and environment: ``$(NAME)``, with ``$$`` for a dollar sign."""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$(?:\(([^)]*)\)|(.))", re.DOTALL)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` whose name has a value; leave the others as they stand, and write ``$`` for ``$$``.

    No value is expanded again. A dollar sign before anything else stays, and so does one that ends the text
    (third_party/forked/golang/expansion, v1.36, Expand). One difference: a character beyond ASCII after it stays, too,
    where Expand takes its first byte for a character, and tears it apart.
    """

    def one(match: re.Match[str]) -> str:
        name, following = match.groups()
        if name is not None:
            return values.get(name, match.group())
        return "$" if following == "$" else match.group()

    return _DOLLAR.sub(one, text)


def references(text: str) -> frozenset[str]:
    """Return the names that `text` refers to, whether they have values or not."""
    return frozenset(match[1] for match in _DOLLAR.finditer(text) if match[1] is not None)
