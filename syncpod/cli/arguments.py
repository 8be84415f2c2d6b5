"""Reading what is named on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from syncpod.cli.failure import BadInput

if TYPE_CHECKING:
    from syncpod.cli.selector import Selector

_POD_WORDS: Final = ("pod", "pods", "po")

_OTHER_KIND: Final = re.compile(
    "all|cm|configmaps?|cronjobs?|ds|daemonsets?|deploy|deployments?|ep|endpoints|ev|events?|ing|ingress(es)?|jobs?|"
    "no|nodes?|ns|namespaces?|pv|pvc|rs|replicasets?|sa|secrets?|svc|services?|sts|statefulsets?"
)
"""What kubectl takes for a kind in the first place."""


def pod_names(words: Sequence[str]) -> list[str]:
    """Return the pods named by ``pods a b``, ``pod/a pod/b`` or plainly ``a b``, each once.

    A word for the kind is one only in the first place, and there it is always one: ``pod`` alone names no pod.
    """
    rest = list(words)
    if rest and rest[0] in _POD_WORDS:
        del rest[0]
    elif rest and _OTHER_KIND.fullmatch(rest[0]):
        raise BadInput(f"{rest[0]!r}: only pods are here; a pod of that name is pod/{rest[0]}")
    names: list[str] = []
    for word in rest:
        kind, slash, name = word.rpartition("/")
        if slash and kind not in _POD_WORDS:
            raise BadInput(f"{word!r}: only pods can be named here, as NAME or pod/NAME")
        if not name:
            raise BadInput(f"{word!r}: the pod's name is missing")
        if name not in names:
            names.append(name)
    return names


def pod_name(words: Sequence[str]) -> str:
    """Return the one pod that is named. Raises BadInput for none or several."""
    names = pod_names(words)
    if len(names) != 1:
        raise BadInput(f"name one pod, not {len(names)}" if names else "name a pod")
    return names[0]


def read_selector(text: str) -> Selector:
    """Read ``-l``. Raises BadInput."""
    from syncpod.cli.selector import parse_selector

    try:
        return parse_selector(text)
    except ValueError as wrong:
        raise BadInput(f"--selector: {wrong}") from None
