"""docs/conformance.md: what Kubernetes' own tests say of a node of ours and of the kubelet, from recorded results.

python -m qa.conformance.page
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from qa.conformance import suite
from qa.conformance.programs import VERSION

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
_STOPS: Final = "when|should|with|optional|updates|binary|pod|volume on|combined|blackbox|When|action|will|of"
_SUBJECT: Final = re.compile(rf"\[(sig-[a-z]+)\] (?:\[[^]]*\] ?)*(.*?)(?: \[| (?:{_STOPS}) |: |$)")
_HEAD: Final = """\
# Kubernetes' own tests

`make conformance` starts an upstream control plane of Kubernetes {version} with one node, and runs the end-to-end
tests that judge a node: those labelled NodeConformance that share it ({total}), of which {both} are Conformance too.
The kubelet was judged by the same tests on a machine of the same kind, with containerd 1.6.20, and a node of ours
with containerd 2.4.2; a run exchanges the node alone (`--node kubelet`). [How it is
run](testing.md#kubernetes-own-tests).

**The kubelet {version} passes {kubelet} of {total}, a node of ours {ours}.** {worse}

| subject | tests | kubelet | syncpod |
|---|---|---|---|
"""


def write() -> None:
    """Write the page."""
    DOCUMENT.write_text(rendered())


def rendered() -> str:
    """The page as the recorded results have it now."""
    kubelet = {each.name: each for each in suite.kubelets()}
    ours = {each.name: each for each in suite.ours()}
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(kubelet):
        groups[_subject(name)].append(name)
    worse = [name for name, each in kubelet.items() if each.passed and not _passed(ours, name)]
    better = [name for name, each in kubelet.items() if not each.passed and _passed(ours, name)]
    sentence = "It passes every test that the kubelet passes."
    if worse:
        sentence = f"{len(worse)} that the kubelet passes do not pass."
    head = _HEAD.format(
        version=VERSION,
        total=len(kubelet),
        both=sum("[Conformance]" in name for name in kubelet),
        kubelet=sum(each.passed for each in kubelet.values()),
        ours=sum(_passed(ours, name) for name in kubelet),
        worse=sentence,
    )
    rows = [
        f"| {subject} | {len(names)} | {_count(kubelet, names)} | {_count(ours, names)} |"
        for subject, names in sorted(groups.items())
    ]
    neither = [name for name, each in kubelet.items() if not each.passed and not _passed(ours, name)]
    lists = [
        *_listed("These pass with the kubelet alone:", worse),
        *_listed("These pass with a node of ours alone:", better),
        *_listed(
            "These pass with neither, for reasons of this machine and of the images that are made on it:", neither
        ),
    ]
    return head + "\n".join([*rows, *lists]) + "\n"


def _passed(results: Mapping[str, suite.Result], name: str) -> bool:
    return name in results and results[name].passed


def _count(results: Mapping[str, suite.Result], names: list[str]) -> str:
    passed = sum(_passed(results, name) for name in names)
    return "all" if passed == len(names) else str(passed)


def _listed(title: str, names: list[str]) -> list[str]:
    return ["", title, "", *(f"- {name}" for name in sorted(names))] if names else []


def _subject(name: str) -> str:
    found = _SUBJECT.match(name)
    return f"{found[1]}: {found[2].strip()}" if found and found[2].strip() else name.split("]")[0].strip("[")


if __name__ == "__main__":
    write()
