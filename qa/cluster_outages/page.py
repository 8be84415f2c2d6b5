"""Writes docs/cluster.md, about a cluster's node without its API server, from the recorded results of the trials.

python -m qa.cluster_outages.page
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from qa.cluster_outages import away, hollow, killed, record, rights, server_faults, starts
from qa.cluster_outages.room import Room

TRIALS: Final[dict[str, Callable[[Room], str]]] = {
    "pods-go-on": away.pods_go_on,
    "resize-goes-on": away.a_resize_goes_on,
    "reboot": away.a_reboot_without_it,
    "missed-deletion": away.a_missed_deletion,
    "updates": server_faults.restarts_during_updates,
    "backup": server_faults.an_older_backup,
    "half-open": server_faults.a_half_open_connection,
    "clocks": server_faults.clocks_apart,
    "killed-start": killed.killed_at_points(killed.START),
    "killed-delete": killed.killed_at_points(killed.DELETE),
    "killed-status": killed.killed_at_points(killed.STATUS),
    "killed-token": killed.killed_at_points(killed.TOKEN),
    "hollow": hollow.a_thousand_pods,
    "rights": rights.the_nodes_key,
}
"""All trials by name, in the order in which they run. Each returns its numbers as a clause, or raises Fell."""
DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
_HEAD: Final = """\
# A cluster's node without its API server

Kubernetes' own tests judge a node whose API server answers. These trials judge one whose server goes, whose worker
is killed, and whose key is stolen: `python -m qa.cluster_outages` runs them against an upstream control plane of
Kubernetes 1.36 and [a node of ours](kubernetes.md) with containerd 2.4, in a network namespace of their own. Each
line is what the last recorded run measured, on two cores that were busy with other work (load averages of 30 to
60). The same rules are held in the usual tests, against a scripted server: `tests/kubernetes/`.

"""
_PARTS: Final = (
    ("The API server is away", ("pods-go-on", "resize-goes-on", "reboot", "missed-deletion")),
    ("It is back, and not as it was", ("updates", "backup", "half-open", "clocks")),
    ("The worker is killed", ("killed-start", "killed-delete", "killed-status", "killed-token")),
)
_FENCING: Final = """
A kubelet that is restarted while its server is away runs none of the cluster's pods until it has reached it. A
node of ours runs those of the last list, since each is a workflow on the node's own Temporal server. So after a
reboot without the API server **a pod may run that the cluster has given up meanwhile**, and, for a Deployment or
after a forced deletion, has replaced elsewhere: two copies of it. A kubelet without its server keeps such pods
too, as long as nobody reboots it. The node learns it from its first list, and ends them. Until then:

- A Deployment's pods are meant to bear a second copy.
- A StatefulSet's pod is not replaced before its node has confirmed its end, or somebody has forced it. By
  forcing it you vouch that the node is off, as with any kubelet: cut its power, or its way to the storage, first. The
  taint `node.kubernetes.io/out-of-service` means the same.
- What must never run twice takes a lease of its own, and ends itself when it cannot renew it. A node does not do
  that for pods of a cluster: `syncpod.dev/when-lost: stop-after=5m`, with which a cut-off node stops a pod by
  itself, is for workloads of [a fleet](fleet.md).

A watch that loses an event, which no real server does on request, is tried against a scripted one: the next list
makes up for it *(tests/kubernetes/test_reflector.py)*. The reboot is the end of every process of the machine at
once, containers and Temporal server among them, and the loss of what lies in memory; the kernel is the same one.
"""
_KILLED: Final = """
A point is the moment before or after a call that changes something in the runtime or at the API server, or before
a file of a pod is made, renamed or removed. At each one a worker with a fresh pod kills itself, as `kill -9`
would, and the next worker goes on. Then the container has started once, its status at the API server is right, and
no event of it was written twice. Each point was tried, of a start in two runs: a run tries twenty, evenly spread, or
those that it is asked for. The calls to the runtime are also tried [one by one](crash-points.md), on each runtime.
"""
_STARTS: Final = """\
## From creation to Running

Seconds from the creation of a Deployment until all its pods are Running at the API server, with a kubelet and with
a node of ours in its place, in the same cluster with the same version of containerd, one after the other (`python
-m qa.cluster_outages.starts`). The load average was {load}, on two cores: the ratio is what counts.

| pods | kubelet | syncpod | ratio |
|---|---|---|---|
"""
_HOLLOW: Final = """\
## A hollow node

`syncpod up --simulate --kubeconfig FILE` is a node whose containers are timers. All else is the node itself: its
decisions, back-offs, probes, statuses, events and Lease, each pod a workflow. kubemark's hollow node likewise is a
kubelet with a fake runtime, from a build of its own, and has most of a kubelet's decisions; kwok has no node at
all: one controller writes the statuses of thousands of pods by rules that somebody has written down, which costs
far less and decides nothing. A hollow node of ours is for what a kubelet would do: crash loops, faults of the
runtime and their [scripts](simulated.md), at the cost of a process and a Temporal server for each node. The last
recorded run:
"""
_RIGHTS: Final = """
## What a node's key can do

The key of a node is its certificate, of group `system:nodes`. The Node authorizer and the plugin `NodeRestriction`
of the API server bound what it can do; both have to be on, as with kubeadm and k3s. A thief who takes it from
`kubernetes/client-current.pem` or the kubeconfig can do this, from anywhere:

| request | done | the server's answer |
|---|---|---|
"""
_THIEF: Final = """
So a thief reads the Secrets and has the accounts of **the pods of that node**, may lie about the node and its
pods, end them, and fill the list of events; other nodes' pods and Secrets are out of reach. To shut it out, taint
the Node (`NoExecute`): its pods leave, nothing new comes, and what the key is good for goes with them. A node
cannot take the taint away, but where the Node is deleted it may make it anew, without one. The certificate counts
until its end, since an API server has no list of revoked ones; only another authority ends it at once. The node's
root can do more: [the threat model](threat-model.md).
"""


def write() -> None:
    """Write the page."""
    DOCUMENT.write_text(rendered())


def rendered() -> str:
    """Return the page for the recorded results."""
    results = record.read()
    parts = []
    for title, names in _PARTS:
        rows = [_row(TRIALS[name], results[name]) for name in names if name in results]
        after = {"The API server is away": _FENCING, "The worker is killed": _KILLED}.get(title, "")
        if rows:
            parts.append(_table(title, rows) + after)
    if measured := starts.read():
        ratios = [
            f"| {each.crowd} | {each.kubelet} s | {each.ours} s | {each.ours / each.kubelet:.2f} |" for each in measured
        ]
        parts.append(_STARTS.format(load=measured[0].load) + "\n".join(ratios) + "\n")
    if "hollow" in results:
        parts.append(f"{_HOLLOW}\n{results['hollow'].numbers}.\n")
    tried = rights.read()
    if tried:
        rows = [f"| {each.what} | {'yes' if each.is_allowed else 'no'} | {_short(each.answer)} |" for each in tried]
        parts.append(_RIGHTS.lstrip("\n") + "\n".join(rows) + "\n" + _THIEF)
    return _HEAD + "\n".join(parts)


def _table(title: str, rows: Sequence[str]) -> str:
    return f"## {title}\n\n| trial | held | measured |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _row(trial: Callable[[Room], str], result: record.Result) -> str:
    what = (trial.__doc__ or "").strip().rstrip(".")
    return f"| {what} | {'yes' if result.has_held else '**no**'} | {result.numbers} |"


def _short(answer: str) -> str:
    """Return the reason in a server's error, shortened, as code; "" if there is none."""
    text = answer.partition("is forbidden: ")[2] or answer.removeprefix("Error from server (Forbidden): ")
    text = text.replace("|", "/").strip()
    return f"`{text if len(text) <= 130 else text[:129] + '…'}`" if text else ""


if __name__ == "__main__":
    write()
