"""``kubectl syncpod``: `explain`, `history` and `plan` of a cluster's pod, from wherever kubectl reaches the cluster.

kubectl finds this program as ``kubectl-syncpod`` on the PATH. The program reads the pod's node with ``kubectl get``.
Then it sends its request with ``kubectl get --raw``, through the API server's proxy, to the kubelet's port of the node.
So it needs only kubectl's own kubeconfig, and the permission `get` on `nodes/proxy`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NoReturn
from urllib.parse import quote, urlencode

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BAD_INPUT, FAILED, INTERRUPTED, BadInput, Failure
from syncpod.cli.standard_streams import lost_output, open_standard_streams
from syncpod.kernel.os_errors import sentence_of
from syncpod.kubernetes.mirror_pod import mirrored_uid
from syncpod.kubernetes.plugin_commands import FLAGS, PREFIX, note_of_another, read_answer

_KUBECTL: Final = frozenset(("kubeconfig", "context", "cluster", "user", "server", "token", "as", "request-timeout"))
"""Flags that are kubectl's own, each with a value."""
_SHORT: Final = {"n": "namespace", "o": "output", "c": "container", "s": "server"}
_USAGE: Final = """\
usage: kubectl syncpod {explain|history|plan} POD [FLAGS]

  explain  why the pod is as it is, and what happens next
           --at, --since, --uid, --start, --restart, --container, --output=json
  history  what was decided and done, when and why: --no-headers, --output=json
  plan     what is about to be done: --output=json

  -n, --namespace NAME  the pod's namespace (default: that of the context)
  --node NAME           the node, for a pod that the cluster no longer has
  --kubeconfig, --context and kubectl's other flags of this kind are kubectl's
"""


def main() -> NoReturn:
    """Run the command line of this process, and end it: 0 done, 1 failed or not found, 2 wrong input."""
    open_standard_streams()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        if code == 0 and (why := lost_output()) is not None:
            raise Failure(sentence_of(why))
    except Failure as failure:
        remark(f"kubectl-syncpod: {failure}")
        code = failure.code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Return the exit code of one command line. Raises Failure."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(_USAGE.rstrip())
        return 0 if arguments else BAD_INPUT
    command, rest = arguments[0], list(arguments[1:])
    if command not in FLAGS:
        raise BadInput(f"{command}: must be one of {', '.join(FLAGS)}")
    names, own, flags = _read(command, rest)
    if "help" in flags:
        say(_USAGE.rstrip())
        return 0
    if len(names) != 1:
        raise BadInput(f"name one pod: kubectl syncpod {command} POD")
    pod = names[0].partition("/")[2] if names[0].startswith(("pod/", "pods/", "po/")) else names[0]
    namespace, node = flags.pop("namespace", ""), flags.pop("node", "")
    kubectl, uid = _Kubectl(own), ""
    if not node:
        namespace, node, uid = kubectl.place(pod, namespace)
    return kubectl.ask(node, command, namespace or "default", pod, flags, uid)


def _read(command: str, rest: list[str]) -> tuple[list[str], list[str], dict[str, str]]:
    """Return the names, kubectl's own flags, and the others by name. Raises BadInput."""
    with_value = {name for name, takes in FLAGS[command].items() if takes} | {"namespace", "node"}
    without = {name for name, takes in FLAGS[command].items() if not takes} | {"help"}
    names: list[str] = []
    own: list[str] = []
    flags: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        if word == "-h":
            word = "--help"
        if not word.startswith("-"):
            names.append(word)
            continue
        name, value = _flag(word)
        if name in with_value | _KUBECTL and value is None:
            if not rest:
                raise BadInput(f"{word}: needs a value")
            value = rest.pop(0)
        if name in _KUBECTL:
            own.append(f"--{name}={value}")
        elif name in with_value:
            flags[name] = value or ""
        elif name in without and value in (None, "true"):
            flags[name] = "true"
        else:
            raise BadInput(f"{word}: no flag of `kubectl syncpod {command}`; see `kubectl syncpod --help`")
    return names, own, flags


def _flag(word: str) -> tuple[str, str | None]:
    """Return the long name of a flag, and its value if the same word has it; else None."""
    if word.startswith("--"):
        name, is_given, value = word[2:].partition("=")
        return name, value if is_given else None
    name, value = _SHORT.get(word[1:2], word[1:]), word[2:].removeprefix("=")
    return name, value or None


class _Kubectl:
    """kubectl, with those flags of the command line that are kubectl's own."""

    def __init__(self, flags: Sequence[str]) -> None:
        program = shutil.which("kubectl")
        if program is None:
            raise Failure("there is no kubectl on the PATH", BAD_INPUT)
        self._command = (program, *flags)

    def place(self, pod: str, namespace: str) -> tuple[str, str, str]:
        """Return a pod's namespace, node and UID; for a mirror pod, the UID of its static pod. Raises Failure."""
        where = [f"--namespace={namespace}"] if namespace else []
        found = json.loads(self._said("get", "pod", *where, "--output=json", "--", pod))
        node = found["spec"].get("nodeName")
        if not node:
            raise Failure(f"pod {pod} has no node yet: `kubectl describe pod {pod}` shows the scheduler's events")
        uid = mirrored_uid(found) or str(found["metadata"].get("uid") or "")
        return found["metadata"]["namespace"], node, uid

    def ask(self, node: str, command: str, namespace: str, pod: str, flags: dict[str, str], uid: str) -> int:
        """Print a node's answer about a pod, with a note if its UID is another one; return the answer's exit code.

        Raises Failure.
        """
        path = f"/api/v1/nodes/{quote(node)}/proxy{PREFIX}/{command}/{quote(namespace)}/{quote(pod)}"
        try:
            text = self._said("get", "--raw", f"{path}?{urlencode(flags)}")
        except Failure as failure:
            if "NotFound" in str(failure) or "404 page not found" in str(failure):
                raise Failure(f"node {node} is no node of syncpod, or of an earlier version") from None
            raise
        try:
            given = json.loads(text)
            code, out, err = read_answer(given)
        except ValueError:
            raise Failure(f"node {node} has given no answer of a node of syncpod") from None
        for said, tell in ((note_of_another(given, pod, uid), remark), (err, remark), (out, say)):
            if said:
                tell(said.removesuffix("\n"))
        return code

    def _said(self, *words: str) -> str:
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(done.stderr.strip() or f"kubectl ended with {done.returncode}", FAILED)
        return done.stdout


if __name__ == "__main__":
    main()
