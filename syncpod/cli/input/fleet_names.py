"""Reads the kinds and names in the arguments of a fleet's command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from syncpod.cli.failure import BadInput
from syncpod.cli.input.kind_words import POD_WORDS, WORKLOADS
from syncpod.fleet.workload_traits import POD

_KIND: Final = re.compile(
    "all|configmaps?|cm|cronjobs?|cj|ds|daemonsets?|deploy|deployments?|ep|endpoints|ev|events?|ing|ingress(es)?|jobs?|"
    "no|nodes?|ns|namespaces?|pods?|po|pv|persistentvolumes?|pvc|persistentvolumeclaims?|rc|replicationcontrollers?|"
    "rs|replicasets?|sa|serviceaccounts?|secrets?|svc|services?|sts|statefulsets?"
)
"""Words that name a kind in kubectl. Before other words they are never a pod's name."""


def fleet_names(
    words: Sequence[str], kinds: Mapping[str, str], known: str, bare: str = "", every: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return names by kind, each once: ``deployment a b``, or ``deployment/a pod/b``; without names, the list is empty.

    Names after several kinds, ``deployments,pods a``, mean an object of each kind, as for kubectl. `kinds` has the
    kinds by word, and `known` lists them for the error about another word. `bare` is the kind of names without a kind;
    "" = a kind must be named. `every` are the kinds that ``all`` means. Raises BadInput if any word is wrong.
    """
    if any("/" in word for word in words):
        return _pairs(words, kinds, known)
    first, rest = words[0], words[1:]
    is_kind = "," in first or (bool(rest) and _KIND.fullmatch(first.lower().partition(".")[0]) is not None)
    chosen: dict[str, list[str]] = {}
    for word in first.split(","):
        if every and word.lower() == "all":
            chosen |= {kind: _named(rest) for kind in every}
        elif (kind := kinds.get(word.lower())) is not None:
            chosen[kind] = _named(rest)
        elif bare and not is_kind:
            return {bare: _named(words)}
        else:
            raise BadInput(f"KIND: must be {known}, not {word or repr(word)}{_meant(word, kinds)}")
    return chosen


def kind_and_name(words: Sequence[str]) -> tuple[str, str]:
    """Return a kind, such as ``Pod``, and the name. Raises BadInput, also for a kind alone."""
    parts = [part for word in words for part in word.split("/", 1)]
    if len(parts) == 1 and (parts[0] in POD_WORDS or parts[0] in WORKLOADS):
        raise BadInput(f"NAME: required: which one, such as `{parts[0]}/web` (a pod of this name: `pod/{parts[0]}`)")
    kind = POD.name if len(parts) < 2 or parts[0] in POD_WORDS else WORKLOADS.get(parts[0], "")
    names = parts[1:] if len(parts) > 1 else parts
    if not kind or len(names) != 1 or not names[0]:
        raise BadInput(f"{' '.join(words) or 'NAME'}: name one pod, `web`, or a workload, `deployment/web`")
    return kind, names[0]


def labels_are_sealed(flag: str, kind: str) -> BadInput:
    """Return the error that a flag which needs labels is given for a ConfigMap or a Secret of a fleet."""
    return BadInput(f"{flag}: not for a {kind}: its labels are sealed, and only its nodes can read them")


def require_pods(kinds: Iterable[str], flags: Mapping[str, bool]) -> None:
    """Raise BadInput if one of these flags for pods is given for another of the named kinds."""
    other = next((kind for kind in kinds if kind != POD.name), "")
    if other and (flag := next((flag for flag, is_given in flags.items() if is_given), "")):
        raise BadInput(f"{flag}: is for pods, not for a {other}")


def _pairs(words: Sequence[str], kinds: Mapping[str, str], known: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in words:
        first, slash, name = word.partition("/")
        if not slash or "/" in name:
            raise BadInput(f"{word!r}: must be KIND/NAME, such as deployment/web")
        if (kind := kinds.get(first.lower())) is None:
            raise BadInput(f"{word!r}: its kind must be {known}{_meant(first, kinds)}")
        found.setdefault(kind, []).append(name)
    return {kind: _named(names) for kind, names in found.items()}


def _meant(word: str, kinds: Mapping[str, str]) -> str:
    """Return a clause with the kind that a wrong word may mean; "" if it resembles none."""
    candidates = [each for each in kinds if len(each) > 2 and each[0] == word[:1].lower()]
    likely = get_close_matches(word.lower(), candidates, n=1)
    return f": did you mean {likely[0]}?" if likely else ""


def _named(names: Sequence[str]) -> list[str]:
    if "" in names:
        raise BadInput("NAME: must not be empty")
    return list(dict.fromkeys(names))
