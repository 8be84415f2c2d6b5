"""kubectl's commands and options that this program lacks, with what it has instead; and kubectl's order of words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from typer.core import TyperGroup

from syncpod.cli.failure import BadInput

running: Final[ContextVar[str]] = ContextVar("running", default="")
"""The name of the running command, without the names of its groups: `delete`."""
MANIFEST_SUFFIXES: Final = (".yaml", ".yml", ".json")
"""The suffixes of manifests in a directory."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    "rollout": "a pod has no rollouts: `syncpod restart POD` restarts its containers, `syncpod history POD` shows what "
    "has been done; `syncpod fleet rollout` is for a fleet's Deployments and DaemonSets",
    "diff": "`syncpod plan -f FILE` shows what an apply would do",
    "replace": "`syncpod apply -f FILE` changes a pod; `syncpod delete -f FILE` first, where it may not be changed",
    "set": "`syncpod apply -f FILE` changes images, and `syncpod resize` CPU and memory; all else of a container needs "
    "a new pod: `syncpod delete -f FILE` first",
    "scale": "one node has no replicas: apply each pod under a name of its own; a fleet has Deployments (`syncpod "
    "fleet apply -f FILE`)",
    "autoscale": "there are no replicas: `syncpod resize` changes a pod's CPU and memory",
    "expose": "there are no Services: `syncpod port-forward POD PORT` reaches a pod from here",
    "proxy": "there is no API server: `syncpod port-forward POD PORT` reaches a pod from here",
    "explain": "https://kubernetes.io/docs/reference/kubernetes-api/ explains a Pod's fields",
    **dict.fromkeys(
        ("config", "ctx"),
        "TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE name the server, SYNCPOD_STATE_DIR the state directory, and -n the "
        "pods' namespace, in each command",
    ),
    "ns": "`-n NAME` names the namespace, in each command, and `syncpod get pods -A` shows those of all",
    "convert": "a manifest is v1; `syncpod plan -f FILE` says what an apply would do with it",
    "cluster-info": "`syncpod get nodes` shows the nodes, and `syncpod node` this machine",
    "taint": "`syncpod cordon NODE` has a node take no new pods",
    "auth": "there are no roles: a node of `syncpod up` obeys those who can read the key in its state directory, and a "
    "worker without --signed everybody who reaches its Temporal server (docs/security.md)",
    "api-resources": "there are pods (po), configmaps (cm), secrets, nodes (no) and events (ev), all of v1; `syncpod "
    "fleet` has deployments and daemonsets",
    "api-versions": "there is v1, and apps/v1 of a fleet",
    "certificate": "`syncpod fleet certificates` shows those of a fleet's nodes",
    "kustomize": "pipe `kubectl kustomize DIR` into `syncpod apply -f -`",
    "help": "`syncpod --help` lists the commands, and `syncpod COMMAND --help` explains one",
    "options": "`syncpod --help` lists the commands, and `syncpod COMMAND --help` all options of one",
    **dict.fromkeys(("plugin", "krew"), "there are no plugins"),
    "alpha": "no command is in stages: `syncpod --help` lists them all",
}
"""What to use instead of a command of kubectl that is missing here, by command."""
_OF_CREATE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("deployment", "deploy"), "a fleet has Deployments: `syncpod fleet apply -f FILE`; here is `syncpod run NAME`"
    ),
    **dict.fromkeys(("namespace", "ns"), "a namespace need not be created: it is there with its first pod, `-n NAME`"),
    **dict.fromkeys(
        ("job", "cronjob", "cj"),
        "a pod with `restartPolicy: OnFailure` runs to its end: `syncpod run NAME --restart OnFailure`",
    ),
    **dict.fromkeys(
        ("service", "svc", "ingress", "ing"),
        "there are no Services: `syncpod port-forward POD PORT` reaches a pod from here",
    ),
    **dict.fromkeys(
        ("role", "rolebinding", "clusterrole", "clusterrolebinding"),
        "there are no roles: docs/security.md says who commands a node",
    ),
    **dict.fromkeys(("serviceaccount", "sa", "token"), "pods have no accounts at an API server here"),
    **dict.fromkeys(
        ("quota", "poddisruptionbudget", "pdb", "priorityclass", "pc"),
        "there is no such kind here; `syncpod up --capacity` and `priority` in a pod's manifest are what a node obeys",
    ),
}
"""What to use instead of an argument of kubectl's `create` that is missing here, by argument."""
_SELECT_PODS: Final = "name the pods: `syncpod {}get pods --field-selector SELECTOR -o name` prints their names"
_EACH_LINE: Final = "it prints a line with kind and name for each object: leave it out"
_IN_NAMESPACE: Final = "it describes those of one namespace, -n NAME: `syncpod {}get pods -A` lists those of all"
_NAME_THEM: Final = "name the nodes: `syncpod fleet get nodes -l SELECTOR -o name` prints their names"
_CHANGED: Final = "change it in the manifest, and `syncpod fleet apply -f FILE` again"
_OF_FLEET: Final[Mapping[str, str]] = {
    **dict.fromkeys(("scale", "autoscale"), "set `replicas` in the manifest, and `syncpod fleet apply -f FILE` again"),
    **dict.fromkeys(("set", "patch", "edit", "annotate"), _CHANGED),
    "label": f"{_CHANGED}; a node's labels are those of `syncpod up --node-labels`, on the node",
    **dict.fromkeys(("create", "replace", "run"), "`syncpod fleet apply -f FILE` creates and changes"),
    "diff": "`syncpod fleet get deployment NAME -o yaml` shows what was applied, with its defaults",
    "wait": "`syncpod fleet rollout status` waits for a workload, and `syncpod fleet get pods -w` shows what changes",
    **dict.fromkeys(
        ("events", "history"),
        "`syncpod fleet describe` shows the events of a workload or a node, `syncpod fleet explain` the past of a pod",
    ),
    "taint": "`syncpod fleet cordon NODE` has a node get no new pods",
    "expose": "there are no Services: `syncpod fleet port-forward POD PORT` reaches a pod from here",
    "debug": "`syncpod debug POD` on its node; `syncpod fleet exec POD` runs a command in its containers from here",
    "tree": "`syncpod fleet get pods -o wide` lists the pods of all nodes, `syncpod fleet describe node NAME` those of "
    "one; `syncpod tree` on a node draws what its pods wait for",
    "join": "`syncpod join FILE`, on the node",
    "leave": "`syncpod leave`, on the node",
}
"""What to use instead of a command that `fleet` does not have, by command."""
_OPTIONS_ELSEWHERE: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        **dict.fromkeys(
            ("--context", "--cluster", "--user", "--kubeconfig", "--server", "--as", "--token"),
            "there is no kubeconfig: TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE name the server, SYNCPOD_STATE_DIR this "
            "node's state directory, and `--fleet` as the first word means the fleet",
        ),
        "--field-manager": "fields have no managers here: leave it out",
        "--chunk-size": "there are no lists in chunks here: leave it out",
        "--request-timeout": "`timeout 10 syncpod ...` ends any command; those that wait have --timeout",
        "--pod-running-timeout": "wait for the pod first: `syncpod wait pod POD --for condition=Ready --timeout 60s`",
        **dict.fromkeys(
            ("-v", "--v"), "a command has nothing more to say; `syncpod up` prints where the logs of the node are"
        ),
    },
    "apply": {
        "--prune": "a directory that the node follows does it, `syncpod up --manifests DIR`: a pod ends with its file. "
        "`syncpod delete -f FILE` deletes what a manifest names",
        **dict.fromkeys(("--output", "-o"), "`syncpod get -f FILE -o yaml` prints what has been applied"),
        "--force": "`syncpod delete -f FILE`, then `syncpod apply -f FILE`",
    },
    "get": {
        "--ignore-not-found": "a pod that is not there is one line on standard error and exit code 1; `-l` selects "
        "without either",
        "--show-managed-fields": "fields have no managers here: leave it out",
        "--allow-missing-template-keys": "a field that is not there is printed as nothing, or as <none>: leave it out",
        "--subresource": "the status is part of what `-o yaml` prints: leave it out",
        "--timeout": "`timeout 10 syncpod get ... -w` ends a watch",
        "--watch-only": "--watch prints what there is, then each change",
        "--output-watch-events": "--watch prints a line for each change",
        "--raw": "there is no API server: `-o json` prints objects, and docs/temporal.md lists what Temporal's own "
        "clients may ask",
    },
    "describe": {
        **dict.fromkeys(("--filename", "-f"), "name the pods, or choose them with -l"),
        "--show-events": "the events are the last part of what is printed: leave it out",
        **dict.fromkeys(("--output", "-o"), "`syncpod get POD -o yaml` prints the object"),
        **dict.fromkeys(("--all-namespaces", "-A"), _IN_NAMESPACE.format("")),
    },
    "events": {
        "--field-selector": "`--for pod/NAME` has those of one pod, and --types those of a type",
        **dict.fromkeys(
            ("--selector", "-l"), "name the pods: `syncpod get pods -l SELECTOR -o name` prints what to name here"
        ),
    },
    "delete": {
        **dict.fromkeys(("--recursive", "-R"), "name each directory with -f"),
        "--cascade": "nothing is deleted with a pod but what is the pod's own: leave it out",
        **dict.fromkeys(("--output", "-o"), _EACH_LINE),
    },
    "drain": {
        "--skip-wait-for-delete-timeout": "each pod is waited for, as long as --timeout says: leave it out",
    },
    **dict.fromkeys(
        ("top node", "top nodes", "top no"),
        dict.fromkeys(("--selector", "-l"), "this machine's node is the only one here: leave it out"),
    ),
    **dict.fromkeys(("top pod", "top pods", "top po"), dict.fromkeys(("--field-selector",), _SELECT_PODS.format(""))),
    "label": {"--list": "`syncpod get pod NAME --show-labels` shows them"},
    "annotate": {"--list": "`syncpod describe pod NAME` shows them"},
    "logs": {"--all-pods": "-l selects pods, and their logs are printed together: leave it out"},
    "exec": dict.fromkeys(("-q", "--quiet"), "notes are on standard error: `2>/dev/null` hides them"),
    "debug": {
        "--custom": "profiles are taken as they are, --profile: a manifest of `syncpod get POD -o yaml` can be changed",
        **dict.fromkeys(("--filename", "-f"), "name the pod"),
    },
    "create": {"--edit": "edit the file first, or the pod afterwards: `syncpod edit POD`"},
    "version": dict.fromkeys(("--output", "-o"), "its lines have all that there is: a name and a version each"),
    "resize": dict.fromkeys(
        ("--cpu", "--memory", "--mem"), "amounts are given as in kubectl: `--limits cpu=1,memory=256Mi`, or --requests"
    ),
    "run": {
        "--expose": "there are no Services: `syncpod port-forward POD PORT` reaches a pod from here",
        **dict.fromkeys(
            ("--limits", "--requests", "--cpu", "--memory"),
            "kubectl has none either: `syncpod run ... --dry-run=client -o yaml` prints a manifest to add `resources` "
            "to, and `syncpod resize` changes those of a pod that runs",
        ),
    },
    "explain": dict.fromkeys(
        ("--recursive", "--api-version"),
        "this explains the state of a pod; https://kubernetes.io/docs/reference/kubernetes-api/ explains its fields",
    ),
    "fleet": {
        "--pod-running-timeout": "wait for the pod first: `syncpod fleet get pod POD -w` shows its state",
    },
    "fleet apply": {
        "--prune": "`syncpod fleet delete -f FILE` deletes what a manifest names",
    },
    "fleet describe": dict.fromkeys(("--all-namespaces", "-A"), _IN_NAMESPACE.format("fleet ")),
    **dict.fromkeys(
        ("fleet top node", "fleet top nodes", "fleet top no"), dict.fromkeys(("--selector", "-l"), _NAME_THEM)
    ),
    **dict.fromkeys(
        ("fleet top pod", "fleet top pods", "fleet top po"),
        dict.fromkeys(("--field-selector",), _SELECT_PODS.format("fleet ")),
    ),
    "fleet delete": {
        **dict.fromkeys(("--output", "-o"), _EACH_LINE),
        **dict.fromkeys(
            ("--grace-period", "--now"),
            "each pod ends within its own grace period: a node is sent a list of pods, which has no other. While a pod "
            "is ending, `syncpod delete POD --now` on its node shortens it",
        ),
    },
    "fleet cordon": dict.fromkeys(("--selector", "-l"), _NAME_THEM),
    "fleet uncordon": dict.fromkeys(("--selector", "-l"), _NAME_THEM),
    "fleet drain": {
        "--grace-period": "each pod ends within its own grace period, since its workload ends it in its turn",
        "--disable-eviction": "there are no PodDisruptionBudgets to bypass. A Deployment's own maxUnavailable says how "
        "many of its pods are away at once; `syncpod fleet delete pod POD` ends one at once",
        "--pod-selector": "a drain goes on until the node is empty. To end only some of its pods, use `syncpod fleet "
        "cordon` and `syncpod fleet delete pod`",
        **dict.fromkeys(("--selector", "-l"), _NAME_THEM),
        "--chunk-size": "there are no lists in chunks here: leave it out",
    },
}
"""What to use instead of an option of kubectl's, or why it is missing; by command and by option.

"" = any command, "fleet" = any of a fleet."""
_HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        ("apply", "fleet apply"),
        frozenset({"--server-side", "--force-conflicts", "--validate=true", "--validate=strict", "--overwrite"}),
    ),
    "create": frozenset({"--validate=true", "--validate=strict", "--save-config"}),
    "version": frozenset({"--client", "--client=true", "--short"}),
    "patch": frozenset({"--subresource=resize"}),
}
"""kubectl's flags that a command ignores, since the command always behaves as these flags request; by command."""
_HARMLESS_PAIRS: Final[Mapping[str, frozenset[tuple[str, str]]]] = {
    "patch": frozenset({("--subresource", "resize")}),
}
"""Options that a command ignores for the same reason, if option and value are two words; by command."""
_OTHER_VALUES: Final[Mapping[tuple[str, str], str]] = {
    **dict.fromkeys(
        ((each, "--validate") for each in ("apply", "create", "fleet apply")), "manifests are always checked strictly"
    ),
    ("patch", "--subresource"): "only `resize` is patched: a pod's node writes its status, and `syncpod condition` "
    "sets a condition of it",
}
"""Why a flag takes no other value than the ones above, by command and flag."""
_HARMFUL: Final = frozenset({"delete", "down", "drain", "prune", "remove", "retire", "revoke"})
"""Commands that end something: suggested only for a word that can hardly mean anything else."""


def refuse_word(word: str, known: Sequence[str], program: str = "syncpod") -> None:
    """Raise BadInput for a word that is no command of `program`; its text has what to use instead, or similar words."""
    elsewhere = {"syncpod": _ELSEWHERE, "syncpod create": _OF_CREATE, "syncpod fleet": _OF_FLEET}.get(program, {})
    if way := elsewhere.get(word):
        if elsewhere is _OF_CREATE:
            raise BadInput(f"create {word}: {way}")
        raise BadInput(f"{word!r} is not a command {'of a fleet' if elsewhere is _OF_FLEET else 'here'}: {way}")
    if program == "syncpod create" and (way := without_flag(word, "create")):
        raise BadInput(way)
    likely = [
        each
        for each in get_close_matches(word, known)
        if each not in _HARMFUL or (each[0] == word[:1] and get_close_matches(word, [each], cutoff=0.8))
    ]
    meant = f". Did you mean {', '.join(map(repr, likely))}?" if likely else ""
    raise BadInput(f"No such command {word!r}{meant}; see `{program} --help`")


def without_flag(word: str, command: str = "") -> str:
    """Return a sentence that a manifest is named with ``-f``, if an argument looks like one; "" if it does not.

    `command` takes manifests, such as ``fleet apply``; "" = any command.
    """
    if word.endswith("-last-applied"):
        return f"{word}: `syncpod get -f FILE -o yaml` prints what was applied, and `syncpod plan -f FILE` the change"
    is_there = word == "-" or Path(word).exists()
    if not (is_there or word.endswith(MANIFEST_SUFFIXES)):
        return ""
    if not command:
        return "a manifest is named with -f FILE"
    if is_there:
        return f"{word}: name a manifest with -f: syncpod {command} -f {shlex.quote(word)}"
    return f"{word}: there is no such file, and a manifest is named with -f: syncpod {command} -f FILE"


def no_such_pod(name: str, namespace: str) -> str:
    """Return the sentence that a pod does not exist; if the name looks like a manifest, also how to name a manifest."""
    way = without_flag(name)
    return f'pods "{name}" not found in namespace {namespace}{f": {way}" if way else ""}'


def other_value(command: str, option: str) -> str:
    """Return a sentence why an option takes only values that change nothing; "" for any other option."""
    why = _OTHER_VALUES.get((command, option))
    return f"{option}: {why}" if why else ""


def option_elsewhere(command: str, option: str) -> str:
    """Return a clause with what to use instead of an option of kubectl; "" if nothing is known about the option.

    `command` may have several words, as in ``fleet drain``.
    """
    of_any = ("fleet", "") if command.startswith("fleet ") else ("",)
    ways = (_OPTIONS_ELSEWHERE.get(each, {}).get(option, "") for each in (command, *of_any))
    return next(filter(None, ways), "")


def arranged(program: Any, words: Sequence[str]) -> list[str]:
    """Return a command line with ``-n`` behind the command; kubectl takes it anywhere: ``kubectl -n prod get pods``.

    ``get events`` becomes ``events``, ``get all`` becomes ``get pods``, and flags that change nothing are left out.
    """
    left, namespace = list(words), list[str]()
    while left and (count := _namespace_words(left[0])):
        namespace += left[:count]
        left = left[count:]
    command = command_words(program, left)
    rest = left[len(command) :]
    if command == ["get"] and rest:
        if rest[0] in ("events", "event", "ev"):
            command, rest = ["events"], rest[1:]
        elif rest[0] == "all":
            rest = ["pods", *rest[1:]]
    return [*command, *namespace, *_without_harmless(" ".join(command), rest)]


def _without_harmless(command: str, words: Sequence[str]) -> list[str]:
    """Return the words behind a command without flags that change nothing; words after ``--`` stay as they are."""
    ours = list(words[: words.index("--")] if "--" in words else words)
    kept = [word for word in ours if word not in _HARMLESS.get(command, ())]
    for pair in _HARMLESS_PAIRS.get(command, ()):
        at = next((at for at in range(len(kept) - 1) if (kept[at], kept[at + 1]) == pair), None)
        if at is not None:
            del kept[at : at + 2]
    return [*kept, *words[len(ours) :]]


def _namespace_words(word: str) -> int:
    """Return how many words the namespace flag that begins with this word has; 0 if it is not such a flag."""
    if word in ("-n", "--namespace"):
        return 2
    return int(word.startswith("--namespace=") or (word.startswith("-n") and len(word) > 2))


def command_words(program: Any, words: Sequence[str]) -> list[str]:
    """Return the words at the beginning that name a command: ``create secret generic``."""
    found: list[str] = []
    group = program
    while isinstance(group, TyperGroup) and len(found) < len(words) and words[len(found)] in group.commands:
        group = group.commands[words[len(found)]]
        found.append(words[len(found)])
    return found
