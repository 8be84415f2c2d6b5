"""References in a container's command, arguments and environment: ``$(NAME)``, with ``$$`` for a dollar sign."""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$(?:\(([^)]*)\)|(.))", re.DOTALL)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` that has a value and leave the others; replace ``$$`` by ``$``.

    Values are not expanded again. A dollar sign before anything else stays, and so does one at the end
    (third_party/forked/golang/expansion, v1.36, Expand). Difference: a non-ASCII character after a dollar sign stays
    whole, where Expand splits off its first byte.
    """

    def one(match: re.Match[str]) -> str:
        name, following = match.groups()
        if name is not None:
            return values.get(name, match.group())
        return "$" if following == "$" else match.group()

    return _DOLLAR.sub(one, text)


def references(text: str) -> frozenset[str]:
    """Return the names that `text` refers to."""
    return frozenset(match[1] for match in _DOLLAR.finditer(text) if match[1] is not None)
