"""The trial of a node's rights at the API server: each request is sent with the node's own kubeconfig.

A thief of the node's key has the same rights.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qa.cluster_outages.room import IMAGE, RUNS, Fell, Room, held, proxied
from qa.conformance.control_plane import NODE
from qa.conformance.namespace import WITHIN
from qa.conformance.programs import program

_TAINT: Final = "example.com/kept"
RECORD: Final = Path(__file__).with_name("rights.tsv")
OTHER: Final = "n2"
_TOKEN: Final[Mapping[str, Any]] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
_READY: Final = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
_EVICTION: Final = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "theirs"}}


@dataclass(frozen=True)
class Right:
    """One request, and whether the API server should allow it."""

    what: str
    is_allowed: bool
    words: tuple[str, ...]
    """The arguments of kubectl, or PATCH and a path."""
    document: Mapping[str, Any] | None = None
    """The object on kubectl's standard input, or the body of the PATCH."""


@dataclass(frozen=True)
class Tried:
    """The outcome of a request."""

    what: str
    is_allowed: bool
    answer: str
    """The API server's error if it refused; "" if it did not."""


def _pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": IMAGE, "command": ["sh", "-c", RUNS]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": containers, "terminationGracePeriodSeconds": 1, **spec},
    }


def _mirror(node: str, **spec: Any) -> dict[str, Any]:
    """Return a mirror pod, the only kind of pod that a node may create."""
    made = _pod(f"static-{node}", node, automountServiceAccountToken=False, **spec)
    made["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": "7",
        "kubernetes.io/config.hash": "7",
        "kubernetes.io/config.source": "file",
    }
    return made


def _token(pod: Mapping[str, Any] | None) -> dict[str, Any]:
    bound = {} if pod is None else {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **pod}}
    return {**_TOKEN, "spec": {"audiences": [], **bound}}


def rights(uids: Mapping[str, str], node_uid: str) -> Sequence[Right]:
    """Return all requests. `uids` has the UIDs of the pods `mine` and `theirs`; `node_uid` is the Node's."""
    raw = ("create", "-f", "-", "--raw")
    get, patch = ("get", "-o", "name"), ("patch", "--type=merge", "-p")
    accounts, pods = "/api/v1/namespaces/default/serviceaccounts", "/api/v1/namespaces/default/pods"
    mine, theirs = ({"name": name, "uid": uids[name]} for name in ("mine", "theirs"))
    owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": node_uid, "controller": True}
    mirror = _mirror(NODE)
    mirror["metadata"]["ownerReferences"] = [owner]
    elsewhere = _mirror(OTHER)
    elsewhere["metadata"]["ownerReferences"] = [owner]
    own_label = json.dumps({"metadata": {"labels": {"node-restriction.kubernetes.io/team": "a"}}})
    return (
        Right("read its own Node", True, (*get, f"node/{NODE}")),
        Right("read another Node", False, (*get, f"node/{OTHER}")),
        Right(
            "write its own Node's status",
            True,
            ("PATCH", f"/api/v1/nodes/{NODE}/status"),
            {"status": {"volumesInUse": []}},
        ),
        Right("write another Node's status", False, ("PATCH", f"/api/v1/nodes/{OTHER}/status"), _READY),
        Right("give itself a label `node-restriction.kubernetes.io/…`", False, (*patch, own_label, f"node/{NODE}")),
        Right("remove its own taints", False, (*patch, '{"spec":{"taints":null}}', f"node/{NODE}")),
        Right("delete its own Node", False, ("delete", f"node/{NODE}")),
        Right("renew another node's Lease", False, ("-n", "kube-node-lease", *patch, '{"spec":{}}', f"lease/{OTHER}")),
        Right("read a pod that is bound to it", True, (*get, "pod/mine")),
        Right("read a pod of another node", False, (*get, "pod/theirs")),
        Right("list all pods", False, (*get, "pods", "--all-namespaces")),
        Right("read the Secret of a pod that is bound to it", True, (*get, "secret/of-mine")),
        Right("read the Secret of a pod of another node", False, (*get, "secret/of-theirs")),
        Right("list Secrets", False, (*get, "secrets")),
        Right("write that Secret", False, (*patch, '{"data":{"word":"eA=="}}', "secret/of-mine")),
        Right("read the ConfigMap of a pod of another node", False, (*get, "configmap/of-theirs")),
        Right(
            "write the status of a pod that is bound to it",
            True,
            ("PATCH", f"{pods}/mine/status"),
            {"status": {"message": "by a thief"}},
        ),
        Right(
            "write the status of a pod of another node",
            False,
            ("PATCH", f"{pods}/theirs/status"),
            {"status": {"phase": "Failed"}},
        ),
        Right(
            "change the spec of a pod that is bound to it",
            False,
            (*patch, '{"metadata":{"labels":{"a":"b"}}}', "pod/mine"),
        ),
        Right("create a pod that is bound to it", False, ("create", "-f", "-"), _pod("made", NODE)),
        Right("create a pod that is bound to another node", False, ("create", "-f", "-"), _pod("made", OTHER)),
        Right("create the mirror of a static pod of its own", True, ("create", "-f", "-"), mirror),
        Right("create a mirror on another node", False, ("create", "-f", "-"), elsewhere),
        Right("bind a pod", False, (*raw, "/api/v1/namespaces/default/pods/loose/binding"), _binding()),
        Right(
            "a token of the account of a pod that is bound to it", True, (*raw, f"{accounts}/mine/token"), _token(mine)
        ),
        Right(
            "a token of the account of a pod of another node", False, (*raw, f"{accounts}/theirs/token"), _token(theirs)
        ),
        Right("a token of such an account for its own pod", False, (*raw, f"{accounts}/theirs/token"), _token(mine)),
        Right("a token that is bound to no pod", False, (*raw, f"{accounts}/mine/token"), _token(None)),
        Right(
            "evict a pod of another node", False, (*raw, "/api/v1/namespaces/default/pods/theirs/eviction"), _EVICTION
        ),
        Right("delete a pod of another node", False, ("delete", "pod", "theirs", "--wait=false")),
        Right("run a command in a pod, by way of the API server", False, ("exec", "mine", "--", "true")),
        Right("read all Services", True, (*get, "services", "--all-namespaces")),
        Right("write Events of others", True, ("create", "-f", "-"), _event()),
        Right("approve a certificate request", False, ("auth", "can-i", "approve", "certificatesigningrequests")),
        Right("read RBAC's roles", False, (*get, "clusterroles")),
        Right("delete a pod that is bound to it", True, ("delete", "pod", "mine", "--wait=false")),
    )


def _binding() -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "loose"}, "target": target}


def _event() -> dict[str, Any]:
    involved = {"kind": "Pod", "namespace": "default", "name": "theirs"}
    metadata = {"generateName": "told-", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": involved,
        "reason": "Told",
        "message": "by a thief",
        "type": "Normal",
        "source": {"component": "kubelet", "host": NODE},
    }


def the_nodes_key(room: Room) -> str:
    """The node's key has the expected rights and no others: each request was sent with the node's own kubeconfig."""
    kubectl = room.cluster.kubectl
    kubectl("taint", "node", NODE, f"{_TAINT}=yes:PreferNoSchedule", "--overwrite")
    room.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER}})
    for name, node in (("mine", NODE), ("theirs", OTHER)):
        kubectl("create", "serviceaccount", name)
        kubectl("create", "secret", "generic", f"of-{name}", "--from-literal=word=open")
        kubectl("create", "configmap", f"of-{name}", "--from-literal=word=open")
        source = [{"secretRef": {"name": f"of-{name}"}}, {"configMapRef": {"name": f"of-{name}"}}]
        made = _pod(name, node, serviceAccountName=name)
        made["spec"]["containers"][0]["envFrom"] = source
        room.apply(made)
    loose = _pod("loose", "")
    del loose["spec"]["nodeName"]
    room.apply(loose | {"spec": {**loose["spec"], "schedulingGates": [{"name": "example.com/wait"}]}})
    room.running("mine")
    try:
        uids = {name: room.pod(name)["metadata"]["uid"] for name in ("mine", "theirs")}
        node_uid = json.loads(kubectl("get", "node", NODE, "-o", "json"))["metadata"]["uid"]
        tried, wrong = [], []
        for right in rights(uids, node_uid):
            found = _try(room, right)
            tried.append(found)
            if found.is_allowed != right.is_allowed:
                wrong.append(f"{right.what}: {found.answer or 'done'}")
        write(tried)
        held(not wrong, "; ".join(wrong))
    finally:
        kubectl("taint", "node", NODE, f"{_TAINT}-", check=False)
        kubectl("delete", "node", OTHER, "--ignore-not-found")
        kubectl("delete", "serviceaccount", "mine", "theirs", "--ignore-not-found")
    allowed = sum(each.is_allowed for each in tried)
    return f"{len(tried)} requests: {allowed} done, {len(tried) - allowed} refused, as expected"


def _try(room: Room, right: Right) -> Tried:
    if right.words[0] == "PATCH":
        with proxied(room.cluster, room.cluster.node) as ask:
            code, answer = ask(right.words[0], right.words[1], right.document)
        if code not in (200, 403):
            raise Fell(f"{right.what}: {code} {answer}")
        return Tried(right.what, code == 200, "" if code == 200 else answer["message"])
    command = [*WITHIN, str(program("kubectl")), "--kubeconfig", str(room.cluster.node), *right.words]
    text = None if right.document is None else json.dumps(right.document)
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False, timeout=60)
    if done.returncode == 0:
        return Tried(right.what, True, "")
    if right.words[:2] == ("auth", "can-i"):
        return Tried(right.what, False, "")
    answer = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
    if not any(each in answer for each in ("orbidden", "is not allowed")):
        raise Fell(f"{right.what}: {answer}")
    return Tried(right.what, False, answer)


def write(tried: Sequence[Tried], path: Path = RECORD) -> None:
    """Write the outcomes to the file."""
    rows = [(each.what, "yes" if each.is_allowed else "no", each.answer.replace("\t", " ")) for each in tried]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def read(path: Path = RECORD) -> list[Tried]:
    """Return the outcomes of the last recorded trial."""
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    return [Tried(what, allowed == "yes", answer) for what, allowed, answer in rows]
