"""Writes docs/conformance.md: the recorded results of Kubernetes' own tests, for a node of ours and for the kubelet.

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
tests that judge a node: those labelled NodeConformance, {total}, of which {both} are Conformance too.
The kubelet was judged by the same tests on a machine of the same kind, with containerd 1.6.20, and a node of ours
with containerd 2.4.2; a run exchanges the node alone (`--node kubelet`). [How it is
run](testing.md#kubernetes-own-tests).

**The kubelet {version} passes {kubelet} of {total}, a node of ours {ours}.** {worse}

| subject | tests | kubelet | syncpod |
|---|---|---|---|
"""
_TWO_HEAD: Final = """
## Two nodes

`python -m qa.conformance --nodes 2` runs Conformance as a whole, {total} tests, against two nodes. As far as
the network goes, they stand on two machines; each has a containerd 2.4.2 and a kube-proxy of its own, and
CoreDNS is a Deployment on them. `--node kubelet` exchanges both nodes. {one} of these tests are among those
above. The other {others} were run with two nodes, {share} of them. A test that had failed ran again once its cause
was mended, be it in the images, the network or the node; its last run counts.

**The kubelet {version} passes {kubelet} of {run}, two nodes of ours {ours}.**

| subject | tests | kubelet | syncpod |
|---|---|---|---|
"""
_NODE_HEAD: Final = """
## A node by itself

`e2e_node.test` starts an API server and the node that it judges, and restarts the node as it likes:
`python -m qa.conformance --suite standalone`, `node`, `node-serial` or `criproxy`, with `--node kubelet` or
`syncpod-kubelet`, on containerd 2.4.2.

**The kubelet passes {kubelet} of {total}, `syncpod-kubelet` {ours}.**

| subject | tests | kubelet | syncpod |
|---|---|---|---|
"""
_LEFT_OUT: Final = """\
Not run, and why:

| tests | |
|---|---|"""


def write() -> None:
    """Write the page."""
    DOCUMENT.write_text(rendered())


def rendered() -> str:
    """The page for the recorded results."""
    return f"{_of_cluster()}{_of_two_nodes()}{_of_node()}"


def _of_cluster() -> str:
    """The part about e2e.test."""
    kubelet = {each.name: each for each in suite.kubelets()}
    ours = {each.name: each for each in suite.ours()}
    worse = [name for name, each in kubelet.items() if each.passed and not _passed(ours, name)]
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
    return head + "\n".join([*_rows(kubelet, ours), *_lists(kubelet, ours, suite.WHY_CLUSTER)]) + "\n"


def _of_two_nodes() -> str:
    """The part about e2e.test with two nodes, for the tests that have results with both kinds of nodes."""
    kubelet = {each.name: each for each in suite.recorded(suite.TWO_NODES.kubelet)}
    ours = {each.name: each for each in suite.recorded(suite.TWO_NODES.ours)}
    one = {each.name for each in suite.kubelets() if "[Conformance]" in each.name}
    kubelet = {name: each for name, each in kubelet.items() if name in ours and name not in one}
    if not kubelet:
        return ""
    head = _TWO_HEAD.format(
        version=VERSION,
        total=suite.TESTS_OF_CONFORMANCE,
        one=len(one),
        others=suite.TESTS_OF_CONFORMANCE - len(one),
        share="all" if len(kubelet) == suite.TESTS_OF_CONFORMANCE - len(one) else len(kubelet),
        run=len(kubelet),
        kubelet=sum(each.passed for each in kubelet.values()),
        ours=sum(_passed(ours, name) for name in kubelet),
    )
    return head + "\n".join([*_rows(kubelet, ours), *_lists(kubelet, ours, suite.WHY_TWO_NODES)]) + "\n"


def _of_node() -> str:
    """The part about e2e_node.test, for the tests that have results with both kinds of nodes."""
    recorded = {each.name: each for each in suite.recorded(suite.NODE.kubelet)}
    ours = {each.name: each for each in suite.recorded(suite.NODE.ours)}
    kubelet = {name: each for name, each in recorded.items() if name in ours}
    if not kubelet:
        return ""
    passed = sum(each.passed for each in kubelet.values())
    head = _NODE_HEAD.format(total=len(kubelet), kubelet=passed, ours=sum(_passed(ours, name) for name in kubelet))
    left_out = [f"| {what} | {why} |" for what, why in suite.NOT_RUN.items()]
    return (
        head
        + "\n".join([*_rows(kubelet, ours), *_lists(kubelet, ours, suite.WHY_NODE), "", _LEFT_OUT, *left_out])
        + "\n"
    )


def _rows(kubelet: Mapping[str, suite.Result], ours: Mapping[str, suite.Result]) -> list[str]:
    """The rows of a table, one for each subject."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(kubelet):
        groups[_subject(name)].append(name)
    return [
        f"| {subject} | {len(names)} | {_count(kubelet, names)} | {_count(ours, names)} |"
        for subject, names in sorted(groups.items())
    ]


def _lists(kubelet: Mapping[str, suite.Result], ours: Mapping[str, suite.Result], why: Mapping[str, str]) -> list[str]:
    """The tests that do not pass with both kinds of nodes, each with its reason if it is known."""
    worse = [name for name, each in kubelet.items() if each.passed and not _passed(ours, name)]
    better = [name for name, each in kubelet.items() if not each.passed and _passed(ours, name)]
    neither = [name for name, each in kubelet.items() if not each.passed and not _passed(ours, name)]
    return [
        *_listed("These pass with the kubelet alone:", worse, why),
        *_listed("These pass with a node of ours alone:", better, why),
        *_listed(
            "These pass with neither, for reasons of this machine and of the images that are made on it:", neither, why
        ),
    ]


def _passed(results: Mapping[str, suite.Result], name: str) -> bool:
    return name in results and results[name].passed


def _count(results: Mapping[str, suite.Result], names: list[str]) -> str:
    passed = sum(_passed(results, name) for name in names)
    return "all" if passed == len(names) else str(passed)


def _listed(title: str, names: list[str], why: Mapping[str, str]) -> list[str]:
    return ["", title, "", *(f"- {name}{_because(name, why)}" for name in sorted(names))] if names else []


def _because(name: str, why: Mapping[str, str]) -> str:
    return next((f": {reason}" for part, reason in why.items() if part in name), "")


def _subject(name: str) -> str:
    found = _SUBJECT.match(name)
    return f"{found[1]}: {found[2].strip()}" if found and found[2].strip() else name.split("]")[0].strip("[")


if __name__ == "__main__":
    write()
