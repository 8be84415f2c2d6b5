"""Reads arguments: names of pods, objects and nodes, and values that several flags share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Final

from syncpod.api.field_selector import OF_ANY, OF_PODS, FieldSelector, parse_field_selector
from syncpod.api.label_selector import Selector, parse_selector
from syncpod.cli.failure import BadInput
from syncpod.cli.input.kind_words import NODE_WORDS, OBJECTS, POD_WORDS, PODS, Kind
from syncpod.cli.input.kubectl_words import running
from syncpod.fleet.workload_traits import KINDS, TEMPLATED, one_of
from syncpod.go_durations import GoDurationTooLong, parse_go_duration

_KINDS: Final[Mapping[str, Kind]] = {**PODS, **OBJECTS}

_WORKLOADS: Final[Mapping[str, str]] = {
    word: kind for kind in TEMPLATED for word in (*KINDS[kind].words, KINDS[kind].resources)
}
"""The kinds that only a fleet has, by kubectl's words for them."""
_OF_A_FLEET: Final = one_of(tuple(f"{kind}s" for kind in TEMPLATED), "and")
_ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ev", "event", "events"), "see `syncpod events`"),
    **dict.fromkeys(NODE_WORDS, "see `syncpod get nodes`"),
    **dict.fromkeys(
        (
            *("rs", "replicaset", "replicasets", "sts", "statefulset", "statefulsets"),
            *("rc", "replicationcontroller", "replicationcontrollers"),
        ),
        f"a node has pods alone, and a fleet {_OF_A_FLEET}: `syncpod fleet get all`",
    ),
    **{word: f"a fleet has them: `syncpod fleet get {KINDS[kind].words[1]}`" for word, kind in _WORKLOADS.items()},
    **dict.fromkeys(
        ("job", "jobs", "cj", "cronjob", "cronjobs"), "a pod with `restartPolicy: OnFailure` runs to its end"
    ),
    **dict.fromkeys(
        ("svc", "service", "services", "ep", "endpoints", "ing", "ingress", "ingresses", "netpol", "networkpolicies"),
        "there are no Services: `syncpod port-forward POD PORT` reaches a pod, and `get pods -o wide` has its address",
    ),
    **dict.fromkeys(
        ("ns", "namespace", "namespaces"), "a namespace is there with its first pod: `syncpod get pods -A` shows all"
    ),
    **dict.fromkeys(
        ("pv", "persistentvolume", "persistentvolumes", "pvc", "persistentvolumeclaim", "persistentvolumeclaims"),
        "there are no claims: a pod names its hostPath or emptyDir itself",
    ),
    **dict.fromkeys(("sa", "serviceaccount", "serviceaccounts"), "pods have no accounts at an API server here"),
    "all": "name the kinds, such as `pods` or `cm,secrets`; `--all` is every object of a kind",
    **dict.fromkeys(
        (
            *("crd", "crds", "customresourcedefinition", "customresourcedefinitions", "quota", "resourcequotas"),
            *("limits", "limitranges", "pdb", "poddisruptionbudgets", "role", "roles", "rolebindings", "clusterroles"),
            *("clusterrolebindings", "sc", "storageclass", "storageclasses", "pc", "priorityclasses", "csr", "leases"),
        ),
        "only pods, configmaps, secrets and nodes are here",
    ),
    **dict.fromkeys(("hpa", "horizontalpodautoscalers"), "there are no replicas: `syncpod resize` changes a pod's CPU"),
    **dict.fromkeys(
        ("cs", "componentstatus", "componentstatuses"),
        "`syncpod node` shows the worker, the runtime and the server of this machine",
    ),
}
"""What to use instead of a kind of kubectl's, by kubectl's words for the kind."""

_IN_MANIFEST: Final = "change the manifest, and `syncpod fleet apply -f FILE` again"
_OF_WORKLOADS: Final[Mapping[str, str]] = {
    "describe": "`syncpod fleet describe {kind} NAME`",
    "delete": "`syncpod fleet delete {kind} NAME`",
    "explain": "`syncpod fleet explain {kind}/NAME`",
    "logs": "`syncpod fleet logs {kind}/NAME`",
    "exec": "`syncpod fleet exec {kind}/NAME -- COMMAND`",
    "attach": "`syncpod fleet attach {kind}/NAME`",
    "port-forward": "`syncpod fleet port-forward {kind}/NAME PORT`",
    **dict.fromkeys(("events", "history"), "`syncpod fleet describe {kind} NAME` shows the events of one"),
    "wait": "`syncpod fleet rollout status {kind}/NAME` waits for one",
    "restart": "`syncpod fleet rollout restart {kind}/NAME`",
    **dict.fromkeys(("label", "annotate", "edit", "patch", "resize", "plan"), _IN_MANIFEST),
}
"""What to use instead of a command that does not take a fleet's workloads, by command."""
_OF_NODES: Final[Mapping[str, str]] = {
    "delete": "`syncpod drain NODE`, then `syncpod down` on its machine; a fleet loses one by `syncpod fleet remove`",
    "label": "a node's labels are those of `syncpod up --node-labels`, on its machine",
    **dict.fromkeys(("annotate", "edit", "patch"), "a node is changed by `syncpod cordon`, `drain` and `up`"),
    "restart": "`syncpod down --keep-pods`, then `syncpod up`, on its machine, start its worker again",
    "events": "`syncpod describe node NAME` shows those of a node",
    "history": "`syncpod explain node` shows the past of this machine's node",
    "wait": "`syncpod get node NAME -w` shows what changes",
    "get": "nodes have a table of their own: `syncpod get nodes`",
    "describe": "nodes are described by themselves: `syncpod describe node NAME`",
}
"""What to use instead of a command that does not take nodes, by command."""

_ALL_KINDS: Final = frozenset((*_KINDS, *_ELSEWHERE))
"""The words for kinds of kubectl, also for those that are not here."""

_LONG_SPAN: Final = re.compile(r"(?=[0-9]+[yd])(?:(?P<years>[0-9]{1,9})y)?(?:(?P<days>[0-9]{1,9})d)?(?P<rest>.*)")
"""Years and days, which Go's durations do not have, and the Go duration that may follow."""
_LONGEST_DAYS: Final = 2562047 // 24
"""The days of the longest Go duration."""


def way_elsewhere(word: str) -> str:
    """Return what to use instead of the running command for this kind of kubectl's; "" if `word` is no such kind.

    For a fleet's kinds and for nodes, this depends on the command: `syncpod fleet delete deployment NAME`.
    """
    command = running.get()
    if word in _WORKLOADS and command in _OF_WORKLOADS:
        return f"a fleet has them: {_OF_WORKLOADS[command].format(kind=_WORKLOADS[word].lower())}"
    if word in NODE_WORDS and command in _OF_NODES:
        return _OF_NODES[command]
    return _ELSEWHERE.get(word, "")


def in_lower_case(words: Sequence[str]) -> list[str]:
    """Return these arguments with the words for kinds in lower case: ``Pod/web``, ``ConfigMaps,Secrets a``.

    kubectl takes kinds in any case. Names and other words stay as they are.
    """
    return [_with_lower_kind(word, can_be_kind=not at) for at, word in enumerate(words)]


def _with_lower_kind(word: str, *, can_be_kind: bool) -> str:
    """Return ``KIND/NAME``, or the kinds of a word without a name if `can_be_kind`, with the kinds in lower case."""
    kinds, slash, name = word.partition("/")
    is_kind = (slash or can_be_kind) and all(_kind_word(part) in _ALL_KINDS for part in kinds.split(","))
    return f"{kinds.lower()}{slash}{name}" if is_kind else word


def _kind_word(word: str) -> str:
    """Return a word for a kind in lower case, without the kind's group: ``Deployments.apps``."""
    return word.lower().partition(".")[0]


def named(words: Sequence[str]) -> dict[Kind, list[str]]:
    """Return names by kind: ``pods a b``, ``cm/a secret/b``, ``cm,secrets``, or just ``a b`` for pods.

    A kind without names means all of the kind; no words mean all pods. Only the first word can be a kind. A first word
    for a kind is never a pod's name. Raises BadInput.
    """
    kinds, names = _opened(words)
    if kinds:
        for name in names:
            if "/" in name:
                _refuse_elsewhere(name)
                raise BadInput(f"{name!r}: the kind is named already; write {name.rpartition('/')[2]}")
            _require_name(name, name, kinds[0])
        return {kind: list(dict.fromkeys(names)) for kind in kinds}
    found: dict[Kind, list[str]] = {}
    for word in names:
        one, name = _split(word, _KINDS, "pods, configmaps and secrets can be named here, as NAME or KIND/NAME")
        if name not in found.setdefault(one, []):
            found[one].append(name)
    return found or {"Pod": []}


def with_likely_kind(missing: Sequence[str], words: Sequence[str]) -> str:
    """Return these lines about missing objects, and suggest the kind that the first word may be a misspelling of.

    A first word that is not a kind was read as a pod's name: ``get pdos``, ``describe pdo web``.
    """
    lines = list(missing)
    first = words[0] if words else ""
    at = next((at for at, line in enumerate(lines) if f'"{first}"' in line), None)
    meant = [] if first in _KINDS else get_close_matches(first, [*_KINDS, *NODE_WORDS], n=1, cutoff=0.7)
    if meant and at is not None:
        lines[at] += f": did you mean the kind {meant[0]}?"
    return "\n".join(lines)


def pod_names(words: Sequence[str]) -> list[str]:
    """Return the pods named by ``pods a b``, ``pod/a pod/b`` or just ``a b``, each once.

    A first word ``pod`` is always the kind: alone, it names no pod. ``deploy`` alone is a pod's name, but ``deploy
    web`` is refused, as is every other kind before a name. Raises BadInput.
    """
    if len(words) == 1 and words[0] and not {"/", ","} & set(words[0]) and words[0] not in POD_WORDS:
        return list(words)
    kinds, rest = _opened(words)
    if kinds and kinds != ["Pod"]:
        raise BadInput(f"{words[0]!r}: only pods can be named here; a pod of that name is pod/{words[0]}")
    return list(
        dict.fromkeys(_split(word, PODS, "only pods can be named here, as NAME or pod/NAME")[1] for word in rest)
    )


def pod_name(words: Sequence[str]) -> str:
    """Return the one named pod; a single word is always a name, as for `kubectl exec`.

    Raises BadInput for none or several.
    """
    names = pod_names([f"pod/{words[0]}"] if len(words) == 1 and words[0] in POD_WORDS else words)
    if len(names) != 1:
        raise BadInput(f"name one pod, not {len(names)}" if names else "name a pod")
    return names[0]


def named_nodes(words: Sequence[str]) -> list[str] | None:
    """Return the nodes named by ``nodes``, ``node a b`` or ``node/a``; None if the words name something else.

    Raises BadInput.
    """
    if words and words[0] in NODE_WORDS:
        return _names_of_nodes(words[1:])
    split = [word.partition("/") for word in words]
    if split and all(slash and kind in NODE_WORDS for kind, slash, _ in split):
        return _names_of_nodes(words)
    return None


def node_names(words: Sequence[str]) -> list[str]:
    """Return the nodes named to a command for nodes: as in `named_nodes`, or just ``a b``. Raises BadInput."""
    names = _names_of_nodes(words[1:] if words[0] in NODE_WORDS else words)
    if not names:
        raise BadInput("name a node")
    return names


def nodes_among(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the nodes that are named as in `named_nodes`, or as ``node/a`` among other words; and the other words.

    Raises BadInput.
    """
    if nodes := named_nodes(words):
        return nodes, []
    of_nodes = [word for word in words if "/" in word and word.partition("/")[0] in NODE_WORDS]
    return _names_of_nodes(of_nodes), [word for word in words if word not in of_nodes]


def node_name(word: str) -> str:
    """Return the node that ``a`` or ``node/a`` names. Raises BadInput."""
    return _names_of_nodes([word])[0]


def _names_of_nodes(words: Sequence[str]) -> list[str]:
    """Return the names in ``a`` and ``node/b``, each once."""
    names = []
    for word in words:
        kind, slash, name = word.rpartition("/")
        if slash and kind not in NODE_WORDS:
            raise BadInput(f"{word!r}: only nodes can be named here, as NAME or node/NAME")
        _require_name(name, word, "Node")
        names.append(name)
    return list(dict.fromkeys(names))


def read_selector(text: str, flag: str = "--selector") -> Selector:
    """Read the label selector that `flag` was given. Raises BadInput."""
    try:
        return parse_selector(text)
    except ValueError as wrong:
        raise BadInput(f"{flag}: {wrong}") from None


def read_field_selector(text: str, *, of_pods: bool) -> FieldSelector:
    """Read a ``--field-selector``, for pods, or for other objects too. Raises BadInput."""
    try:
        return parse_field_selector(text, OF_PODS if of_pods else OF_ANY)
    except ValueError as wrong:
        raise BadInput(f"--field-selector: {wrong}") from None


def read_dry_run(text: str) -> str:
    """Return the text that kubectl appends to each line of a dry run; "" if this is not a dry run.

    Raises BadInput.
    """
    marks = {"none": "", "client": " (dry run)", "server": " (server dry run)"}
    if text not in marks:
        raise BadInput(f"--dry-run: must be none, client or server, not {text or repr(text)}")
    return marks[text]


def require_json(output: str) -> None:
    """Raise BadInput if --output has another value than ``json``; "" = it is not given."""
    if output not in ("", "json"):
        raise BadInput(f"--output: must be json, not {output}")


def named_only(output: str) -> bool:
    """Return whether ``-o name`` is given. Raises BadInput for another format."""
    if output not in ("", "name"):
        raise BadInput(f"--output: is {output!r}, must be name")
    return output == "name"


def require_choice(names: Sequence[str], *, everything: bool) -> None:
    """Raise BadInput unless either pods are named, or ``--all`` is given."""
    if everything == bool(names):
        raise BadInput("name pods, or say --all")


def read_duration(text: str) -> timedelta:
    """Read a Go duration (``30s``, ``1h30m``, ``0``), or one with years and days as ages are printed (``3d4h``).

    A year has 365 days, as in ages. Raises ValueError with what would be right.
    """
    try:
        if (long := _LONG_SPAN.fullmatch(text)) is None:
            return timedelta(microseconds=parse_go_duration(text) // 1000)
        rest = parse_go_duration(long["rest"]) if long["rest"] else 0
        days = int(long["years"] or 0) * 365 + int(long["days"] or 0)
        if days > _LONGEST_DAYS:
            raise GoDurationTooLong(text)
        return timedelta(days=days, microseconds=rest // 1000)
    except GoDurationTooLong:
        raise ValueError(f"{text!r} is too long a duration: write at most 2562047h") from None
    except ValueError:
        raise ValueError(f"{text!r} is not a duration: write 30s, 5m, 1h30m or 2d") from None


def read_timeout(text: str) -> timedelta | None:
    """Return how long to wait; None = as long as it takes. Raises BadInput."""
    try:
        return read_duration(text) or None
    except ValueError as wrong:
        raise BadInput(f"--timeout: {wrong}") from None


def _opened(words: Sequence[str]) -> tuple[list[Kind], list[str]]:
    """Return the kinds that the first word names, if any, and the other words."""
    first = words[0].split(",") if words else []
    if first and all(part in _KINDS for part in first):
        return list(dict.fromkeys(_KINDS[part] for part in first)), list(words[1:])
    for part in first:
        if way := way_elsewhere(part):
            raise BadInput(f"{part!r}: {way}; a pod of that name is pod/{part}")
    return [], list(words)


def _split(word: str, kinds: Mapping[str, Kind], sentence: str) -> tuple[Kind, str]:
    """Read ``KIND/NAME`` or ``NAME``, which is a pod's."""
    kind, slash, name = word.rpartition("/")
    if slash and kind not in kinds:
        _refuse_elsewhere(word)
        raise BadInput(f"{word!r}: {sentence}")
    one: Kind = kinds[kind] if slash else "Pod"
    _require_name(name, word, one)
    return one, name


def _require_name(name: str, word: str, kind: str) -> None:
    """Raise BadInput if the name in an argument, `word`, is empty, as that of a shell's unset variable is."""
    if not name:
        raise BadInput(f"{word!r}: the {kind.lower()}'s name is missing")


def _refuse_elsewhere(word: str) -> None:
    """Raise BadInput for a ``KIND/NAME`` that another command shows."""
    if way := way_elsewhere(word.partition("/")[0]):
        raise BadInput(f"{word!r}: {way}")
