"""The commands of ``kubectl syncpod``, which a pod's node runs, and their path at the kubelet's port.

Values in, values out. A kubelet has no such path, and answers 404.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

PREFIX: Final = "/syncpod"
FLAGS: Final[Mapping[str, Mapping[str, bool]]] = {
    "explain": {
        "output": True,
        "at": True,
        "since": True,
        "uid": True,
        "start": False,
        "restart": True,
        "container": True,
    },
    "history": {"output": True, "no-headers": False},
    "plan": {"output": True},
}
"""The flags of each command, and whether each flag takes a value. No flag names a file of the node, or changes
anything."""
_LONGEST: Final = 253
"""Maximum bytes of a flag's value: no flag needs more than a name."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class CommandInvalid(ValueError):
    """A command cannot be run; the text is one sentence."""


def words(command: str, namespace: str, pod: str, asked: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the command line of the node's ``syncpod`` for a request with these parameters. Raises CommandInvalid."""
    flags = FLAGS.get(command)
    if flags is None:
        raise CommandInvalid(f"{command[:40]}: must be one of {', '.join(FLAGS)}")
    for name in (namespace, pod):
        if _NAME.fullmatch(name) is None:
            raise CommandInvalid(f"{name[:40]!r} is no name")
    found = []
    for flag, given in asked.items():
        if flag not in flags:
            known = ", ".join(f"--{each}" for each in flags)
            raise CommandInvalid(f"--{flag[:40]}: `{command}` of a cluster's pod takes {known}")
        value = given[-1] if given else ""
        if len(value.encode()) > _LONGEST or not value.isprintable():
            raise CommandInvalid(f"--{flag}: must be at most {_LONGEST} printable bytes")
        if not flags[flag] and value != "true":
            raise CommandInvalid(f"--{flag}: takes no value")
        found.append(f"--{flag}={value}" if flags[flag] else f"--{flag}")
    # Each argument has its prefix: so a value that begins with a dash is no flag, and a pod named like a kind is no
    # kind.
    return command, f"--namespace={namespace}", *found, f"pod/{pod}"


def answer(code: int, out: bytes, err: bytes, uid: str) -> dict[str, Any]:
    """Return the answer of a node for a command that has ended; `uid` is the UID of the node's pod; "" = none."""
    said = {"stdout": out.decode(errors="replace"), "stderr": err.decode(errors="replace")}
    return {"exitCode": code, **said, "uid": uid}


def note_of_another(given: Any, pod: str, uid: str) -> str:
    """Return a note if an answer is about an earlier pod of that name; "" if it is about the cluster's pod.

    `uid` is the UID of the cluster's pod; "" = not known.
    """
    there = given.get("uid") if isinstance(given, Mapping) else ""
    if not uid or not isinstance(there, str) or there in ("", uid):
        return ""
    now = f"the cluster's (uid {uid}) begins once that one has ended"
    return f"Note: this is about an earlier pod {pod} (uid {there}); {now}"


def read_answer(given: Any) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of an answer. Raises ValueError."""
    if isinstance(given, Mapping):
        code, out, err = given.get("exitCode"), given.get("stdout"), given.get("stderr")
        if isinstance(code, int) and isinstance(out, str) and isinstance(err, str):
            return code if 0 <= code < 256 else 1, out, err
    raise ValueError("no answer of a node of syncpod")
