"""What the commands' pages show: examples, each with what it is for, and what else has to be said below the options.

By a command's path: ``create secret generic``. They are data, so that a test can hold each to the flags there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "apply": (
        ("A file, a directory of them, or what another program writes", "syncpod apply -f pod.yaml -f conf.d"),
        ("Go on when every pod is ready, or give up after a minute", "syncpod apply -f pod.yaml --wait --timeout 1m"),
        ("A pod that runs in a cluster, here", "kubectl get pod web -o yaml | syncpod apply -f -"),
    ),
    "get": (
        ("All pods of the namespace, or of every namespace with addresses and nodes", "syncpod get pods -A -o wide"),
        ("Some, and each change of them", "syncpod get pods -l 'app=web,tier in (front,back)' -w"),
        ("One as a document", "syncpod get pod web -o yaml"),
        ("One field of it", "syncpod get pod web -o jsonpath='{.status.podIP}'"),
        (
            "The image of each container of all pods",
            "syncpod get pods -o jsonpath='{.items[*].spec.containers[*].image}'",
        ),
        ("The nodes, and what they run on", "syncpod get nodes -o wide"),
        ("With a label as a column, and all of them in the last", "syncpod get pods -L app --show-labels"),
        ("The names of all ConfigMaps and Secrets", "syncpod get cm,secrets -o name"),
    ),
    "describe": (
        ("What a pod is, and what it waits for", "syncpod describe pod web"),
        ("All pods with a label", "syncpod describe -l app=web"),
        ("All pods of a namespace", "syncpod describe pods -n prod"),
        ("A node: conditions, sources of pods, what it waits for", "syncpod describe node n1"),
        ("Which keys a Secret has, and how long their values are", "syncpod describe secret keys"),
    ),
    "logs": (
        ("Go on until the container ends, over restarts of the log", "syncpod logs web -f"),
        ("What it said before it crashed", "syncpod logs web -c app --previous"),
        ("The last hour of some pods", "syncpod logs -l app=web --all-containers --prefix --since 1h"),
    ),
    "history": (
        ("What was decided and done, when and why", "syncpod history web"),
        ("The same for a program", "syncpod history web -o json"),
    ),
    "events": (
        ("What has happened to all pods of the namespace", "syncpod events"),
        ("What goes wrong anywhere, as it happens", "syncpod events -A --types Warning -w"),
        ("The events of a pod, as v1 Event objects", "syncpod events --for pod/web -o yaml"),
    ),
    "top": (
        ("The pods that use the most memory", "syncpod top pod -A --sort-by memory"),
        ("This machine", "syncpod top node"),
    ),
    "top pod": (
        ("The pods of the namespace", "syncpod top pod"),
        ("Containers, the busiest first, and the sum", "syncpod top pod -A --containers --sort-by cpu --sum"),
        ("One pod", "syncpod top pod web --containers"),
    ),
    "top node": (("This machine: all that runs on it", "syncpod top node"),),
    "plan": (
        ("What applying this would do; nothing is done", "syncpod plan -f pod.yaml"),
        ("The same for a program", "syncpod plan -f pod.yaml -o json"),
    ),
    "wait": (
        ("Until a pod is ready", "syncpod wait pod/web --for=condition=Ready --timeout 1m"),
        ("Until it has run to its end", "syncpod wait job --for=jsonpath='{.status.phase}'=Succeeded --timeout=-1s"),
        ("Until all pods of a label are gone", "syncpod wait pods -l app=web --for=delete"),
        ("Until it has an address, whichever", "syncpod wait web --for=jsonpath='{.status.podIP}'"),
    ),
    "restart": (
        ("All main containers of a pod", "syncpod restart web"),
        ("One of them, or a sidecar, until the pod is ready again", "syncpod restart web -c proxy --wait"),
    ),
    "retry": (
        ("Do not wait for the end of any back-off, nor be held by a restart limit", "syncpod retry web"),
        ("Pull this container's image again, and see what comes of it", "syncpod retry web -c app --wait --timeout 1m"),
    ),
    "condition": (
        ("Meet a readiness gate", "syncpod condition web example.com/load-balanced=True --reason Registered"),
        ("Take it back", "syncpod condition web example.com/load-balanced=False"),
    ),
    "cordon": (("No new pods; those that are there go on", "syncpod cordon n1"),),
    "uncordon": (("New pods again", "syncpod uncordon n1"),),
    "drain": (
        ("End all pods but those of the manifest directory", "syncpod drain n1 --force"),
        (
            "Those with data that is lost as well, and give up after five minutes",
            "syncpod drain n1 --force --delete-emptydir-data --timeout 5m",
        ),
    ),
    "node": (("What is this machine short of, and what runs that nobody asks for?", "syncpod node"),),
    "adopt": (
        ("After the Temporal server has lost its database: all that runs goes on", "syncpod adopt --all"),
        ("What would be adopted", "syncpod adopt --all --dry-run"),
        ("One pod", "syncpod adopt web -n prod"),
        ("One whose workflow cannot go on, in place of it", "syncpod adopt web --force"),
    ),
    "prune": (
        ("What nobody asks for, and would be killed", "syncpod prune --all --dry-run"),
        ("One pod, with its own grace", "syncpod prune web"),
        ("All of a namespace, at once", "syncpod prune --all -n test --now"),
    ),
    "delete": (
        ("A pod, with its own grace, until it is gone", "syncpod delete pod web"),
        ("At once", "syncpod delete pod web --force"),
        ("Only say which would be", "syncpod delete pods --all --dry-run=client"),
        ("What a manifest names, and do not wait", "syncpod delete -f pod.yaml --wait=false"),
        ("Every pod of a label", "syncpod delete pods -l app=web"),
    ),
    "up": (
        ("Everything that pods need on this machine", "syncpod up"),
        ("And a pod", "syncpod up -f pod.yaml"),
        ("And the pods of a directory, for as long as their files are there", "syncpod up --manifests manifests.d"),
        ("Without containerd, although it is there", "syncpod up --embedded -f pod.yaml"),
        ("Ten thousand pods on a laptop: containers are timers", "syncpod up --simulate"),
    ),
    "down": (
        ("End the pods, and all that `up` has started", "syncpod down"),
        ("Let the pods run on for the next `up`", "syncpod down --keep-pods"),
        ("Leave no file either", "syncpod down --purge"),
    ),
    "server": (("A Temporal dev server where others expect one", "syncpod server --port 7233 --ui-port 8233"),),
    "runtime": (
        ("For crictl, or for another agent", "syncpod runtime --socket /run/syncpod/cri.sock"),
        ("With timers for containers", "syncpod runtime --simulate"),
    ),
    "load": (
        ("What `podman save` wrote, for the embedded runtime", "syncpod load nginx.tar"),
        ("An OCI layout that does not say its name", "syncpod load ./alpine --name alpine:3"),
    ),
    "worker": (
        ("A node of a Temporal server elsewhere", "TEMPORAL_ADDRESS=temporal:7233 syncpod worker --node rack7"),
    ),
    "completion": (
        ("In this bash", "source <(syncpod completion bash)"),
        ("In every bash", "syncpod completion bash > /etc/bash_completion.d/syncpod"),
        ("In every zsh; the directory must be in $fpath", "syncpod completion zsh > ~/.zfunc/_syncpod"),
        ("In every fish", "syncpod completion fish > ~/.config/fish/completions/syncpod.fish"),
    ),
    "version": (("What to name in a report", "syncpod version"),),
    "create": (
        ("A ConfigMap of a directory's files", "syncpod create configmap settings --from-file=conf.d"),
        ("A Secret, its value in no argument", "pass db | syncpod create secret generic db --from-file=pw=/dev/stdin"),
    ),
    "create configmap": (
        ("Of values as they stand", "syncpod create configmap settings --from-literal=level=debug"),
        (
            "Of files, by their names or by another",
            "syncpod create configmap web --from-file=app.conf --from-file=log=l.conf",
        ),
        ("Only print it", "syncpod create configmap settings --from-env-file=app.env --dry-run=client -o yaml"),
    ),
    "create secret": (
        ("For a program", "syncpod create secret generic keys --from-file=token=/run/token"),
        ("For a web server", "syncpod create secret tls web --cert=web.crt --key=web.key"),
    ),
    "create secret generic": (
        ("Of a file", "syncpod create secret generic keys --from-file=token=/run/token"),
        ("Of what another program writes", "pass db | syncpod create secret generic db --from-file=pw=/dev/stdin"),
    ),
    "create secret tls": (
        ("Of a certificate and its key", "syncpod create secret tls web --cert=web.crt --key=web.key"),
    ),
    "create secret docker-registry": (
        (
            "To pull from a registry; pods name it in imagePullSecrets",
            "syncpod create secret docker-registry hub --from-file=$HOME/.docker/config.json",
        ),
    ),
}

NOTES: Final[Mapping[str, str]] = {
    "exec": "The exit code is the command's. 1 is also that it could not be run, 2 that something is wrong with how.",
    "wait": "Exit codes: 0 all have come to it, 1 time is over or a pod is not there, 2 something is wrong with how.",
    "top": "Both ask this machine alone: its runtime and its kernel. Neither needs the Temporal server.",
    "adopt": "Exit codes: 0 all are adopted, 1 one of them could not be, 2 something is wrong with how.",
    "prune": "Exit codes: 0 nothing of them is left, 1 one of them could not be pruned, 2 something is wrong with how.",
    "retry": "Exit codes: 0 something is tried again, 1 nothing waits, or with --wait the pod has not come up.",
}
