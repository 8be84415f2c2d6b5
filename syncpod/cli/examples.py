"""The end of each command's help page: examples, each with its purpose, and notes such as exit codes.

The keys are paths of commands: ``create secret generic``. A test checks each example against the command's flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "apply": (
        ("A file, and a directory of them", "syncpod apply -f pod.yaml -f conf.d"),
        ("Wait until every pod is ready, a minute at most", "syncpod apply -f pod.yaml --wait --timeout 1m"),
        ("All manifests of a directory and of those below it", "syncpod apply -R -f conf.d"),
        ("The pods of a file that also has a Service", "syncpod apply -f app.yaml --ignore-other-kinds"),
        ("Run a cluster's pod here", "kubectl get pod web -o yaml | syncpod apply -f -"),
    ),
    "run": (
        ("A pod of one container", "syncpod run web --image nginx:1 --port 80"),
        (
            "A job, and wait until it has ended",
            "syncpod run sum --image busybox:1 --restart Never --wait -- expr 1 + 1",
        ),
        ("Its manifest", "syncpod run web --image nginx:1 --dry-run=client -o yaml"),
    ),
    "debug": (
        ("A shell that sees the processes of a container", "syncpod debug web -it --image busybox --target app"),
        ("One command, whose exit code is passed on", "syncpod debug web --image busybox --attach -- nslookup db"),
        ("A script", "cat script.sh | syncpod debug web -i --image busybox -- sh"),
        ("A shell beside a copy of the pod", "syncpod debug web -it --image busybox --copy-to web-debug"),
        (
            "A shell in place of a container's own program, in a copy",
            "syncpod debug web -it --copy-to web-debug -c app -- sh",
        ),
        (
            "A copy with other images, in place of the pod",
            "syncpod debug web --copy-to web-2 --set-image app=busybox:2 --replace",
        ),
    ),
    "explain": (
        ("Why does it restart?", "syncpod explain web"),
        ("What was it at two, and what had happened in the hour before?", "syncpod explain web --at 14:02 --since 1h"),
        ("All ends of its containers", "syncpod explain web -o json"),
        ("Which pods of this node restart, and why", "syncpod explain node --since 6h"),
    ),
    "env": (
        ("What `temporal` and `tctl` need", "syncpod env"),
        ("For a tool whose command line names no workflow", "syncpod env --workflow pod/default/web"),
    ),
    "fleet": (("A node's invitation, which it joins with", "syncpod fleet invite n1 --gate fleet.example.com:7300"),),
    "fleet up": (
        ("A fleet for a first look, whose nodes are on this machine", "syncpod fleet up"),
        ("For nodes of other machines", "syncpod fleet up --listen 0.0.0.0:7300 --name fleet.example.com"),
    ),
    "fleet down": (("Before the machine is switched off", "syncpod fleet down"),),
    "fleet get": (
        ("The fleet's nodes", "syncpod fleet get nodes -o wide"),
        ("Its pods, on all nodes", "syncpod fleet get pods -A"),
        ("Those of an application, as they change", "syncpod fleet get pods -l app=web -w"),
        ("Its workloads", "syncpod fleet get deployments,daemonsets"),
    ),
    "fleet describe": (("Why a pod of a workload is on no node", "syncpod fleet describe deployment web"),),
    "fleet explain": (
        ("Why a pod restarts, from its node's journal", "syncpod fleet explain web-1"),
        ("What happened to a node in the last day", "syncpod fleet explain node n1"),
        ("Why a pod is on no node, or on this one", "syncpod fleet explain --placement web-1"),
        ("Where the next pod of a workload would be", "syncpod fleet explain --placement deployment web"),
    ),
    "fleet logs": (
        ("Follow one of a workload's pods", "syncpod fleet logs -f deployment/web --tail 20"),
        ("Of the run before the last restart", "syncpod fleet logs web-1 --previous"),
    ),
    "fleet exec": (
        ("Look into a container", "syncpod fleet exec web-1 -- cat /etc/resolv.conf"),
        ("With a terminal, where its node listens", "syncpod fleet exec -it web-1 -- sh"),
    ),
    "fleet attach": (("See what a container says from now on", "syncpod fleet attach web-1"),),
    "fleet port-forward": (("A pod's port 80 as port 8080 here", "syncpod fleet port-forward deployment/web 8080:80"),),
    "fleet cp": (("Fetch a directory", "syncpod fleet cp web-1:/var/log/nginx ./logs"),),
    "fleet top": (("The pods of all nodes that use most", "syncpod fleet top pods -A --sort-by memory"),),
    "fleet top pod": (("The busiest of all nodes", "syncpod fleet top pods -A --sort-by cpu"),),
    "fleet top node": (("All nodes", "syncpod fleet top nodes"),),
    "fleet apply": (
        ("A Deployment, placed by the fleet", "syncpod fleet apply -f examples/fleet/deployment.yaml"),
        ("A pod, for any node or the one in its spec.nodeName", "syncpod fleet apply -f examples/fleet/pod.yaml"),
        ("A Secret, for the nodes whose pods refer to it", "syncpod fleet apply -f keys.yaml"),
    ),
    "fleet delete": (
        ("End a pod of the fleet", "syncpod fleet delete web"),
        ("A workload with all its pods, without waiting", "syncpod fleet delete deployment web --wait=false"),
        ("What a manifest has brought", "syncpod fleet delete -f app.yaml"),
        ("All workloads with a label", "syncpod fleet delete deployments -l app=web"),
        ("One of a node that never comes back", "syncpod fleet delete --force web"),
    ),
    "fleet drain": (("Before maintenance", "syncpod fleet drain n1 --ignore-daemonsets"),),
    "fleet remove": (
        ("A node that is drained, and has left", "syncpod fleet remove n1"),
        ("One that never comes back", "syncpod fleet remove --force n1"),
    ),
    "fleet codec": (("Show decrypted payloads in the fleet's Temporal UI", "syncpod fleet codec"),),
    "fleet key": (("A new key in place of one that somebody may have read", "syncpod fleet key rotate"),),
    "fleet key list": (("Which keys there are, and which one signs and encrypts", "syncpod fleet key list"),),
    "fleet key rotate": (
        ("Sign and encrypt with a new key from now on", "syncpod fleet key rotate"),
        ("Seal messages to nodes with a new key", "syncpod fleet key rotate --sealing"),
    ),
    "fleet key create": (("Make a key, to copy it to the fleet's other machines first", "syncpod fleet key create"),),
    "fleet key use": (
        ("Sign and encrypt with a key that all machines have", "syncpod fleet key use 0123456789abcdef"),
    ),
    "fleet key remove": (("Remove an earlier key", "syncpod fleet key remove 0123456789abcdef"),),
    "fleet rollout": (("Back to the previous template", "syncpod fleet rollout undo deployment/web"),),
    "fleet rollout history": (
        ("The templates of a Deployment, and how their rollouts ended", "syncpod fleet rollout history deployment/web"),
        ("The template of one revision", "syncpod fleet rollout history deployment/web --revision 2"),
    ),
    "fleet rollout status": (
        ("Wait for a rollout, for five minutes at most", "syncpod fleet rollout status deployment/web --timeout 5m"),
    ),
    "fleet rollout restart": (("Replace all pods, one by one", "syncpod fleet rollout restart deployment/web"),),
    "fleet rollout pause": (("Apply several changes as one rollout", "syncpod fleet rollout pause deployment/web"),),
    "fleet rollout resume": (("Roll them out", "syncpod fleet rollout resume deployment/web"),),
    "fleet rollout undo": (
        ("Back to the previous template", "syncpod fleet rollout undo deployment/web"),
        ("Back to an earlier one", "syncpod fleet rollout undo deployment/web --to-revision 2"),
    ),
    "fleet cordon": (("Place nothing new on a node", "syncpod fleet cordon n1"),),
    "fleet uncordon": (("Place pods there again", "syncpod fleet uncordon n1"),),
    "fleet serve": (("On the fleet's machine, beside its Temporal server", "syncpod fleet serve"),),
    "install": (
        ("Serve pods from now on, also after a reboot or a crash", "syncpod install"),
        ("What systemd would be given", "syncpod install --print"),
    ),
    "uninstall": (("Serve them without systemd again", "syncpod uninstall"),),
    "fleet install": (
        ("For nodes of other machines", "syncpod fleet install --listen 0.0.0.0:7300 --name fleet.example.com"),
    ),
    "fleet uninstall": (("Before the fleet moves to another machine", "syncpod fleet uninstall"),),
    "join": (("With the file that the fleet's machine has written", "syncpod join n1.invitation"),),
    "leave": (("Belong to no fleet any more", "syncpod leave"),),
    "fleet gate": (
        ("For nodes of other machines", "syncpod fleet gate --listen 0.0.0.0:7300 --name fleet.example.com"),
    ),
    "fleet invite": (
        ("For a year, in ./n1.invitation", "syncpod fleet invite n1"),
        ("For a month, without a file on this machine", "syncpod fleet invite n1 --for 30d -o - | ssh n1 cat"),
    ),
    "fleet revoke": (("A node that was stolen", "syncpod fleet revoke n1"),),
    "fleet certificates": (("Which nodes may come, and until when", "syncpod fleet certificates"),),
    "fleet rotate": (("Before the authority ends, or when its key is known", "syncpod fleet rotate"),),
    "fleet retire": (("When all nodes have new invitations", "syncpod fleet retire"),),
    "key": (("A new key in place of one that somebody may have read", "syncpod key rotate"),),
    "key list": (("The keys, and which of them signs", "syncpod key list"),),
    "key rotate": (("Sign with a new key from now on", "syncpod key rotate"),),
    "key remove": (("Take an earlier key away", "syncpod key remove 7f2c3a9d10e4b586"),),
    "label": (
        ("Set one label, remove another", "syncpod label pod web app=front tier-"),
        ("On all pods with a label", "syncpod label -l app=front track=stable --overwrite"),
    ),
    "patch": (
        (
            "Another image",
            """syncpod patch pod web -p '{"spec": {"containers": [{"name": "app", "image": "app:2"}]}}'""",
        ),
        (
            "By a JSON patch",
            """syncpod patch web --type json -p '[{"op": "remove", "path": "/metadata/labels/tier"}]'""",
        ),
    ),
    "edit": (("In an editor of your own", "syncpod edit pod web --editor nano"),),
    "annotate": (("Set an annotation", "syncpod annotate pod web owner='night shift'"),),
    "get": (
        ("The pods of all namespaces, with addresses and nodes", "syncpod get pods -A -o wide"),
        ("Pods with certain labels, and each change of them", "syncpod get pods -l 'app=web,tier in (front,back)' -w"),
        ("A pod as YAML", "syncpod get pod web -o yaml"),
        ("One of its fields", "syncpod get pod web -o jsonpath='{.status.podIP}'"),
        (
            "The image of each container of all pods",
            "syncpod get pods -o jsonpath='{.items[*].spec.containers[*].image}'",
        ),
        (
            "A line for each pod, with its name and its node",
            """syncpod get pods -o jsonpath='{range .items[*]}{.metadata.name}{"\\t"}{.spec.nodeName}{"\\n"}{end}'""",
        ),
        ("In columns", "syncpod get pods -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image"),
        (
            "The pods that have failed, the oldest first",
            "syncpod get pods --field-selector status.phase=Failed --sort-by .status.startTime",
        ),
        ("The nodes, with their machines and runtimes", "syncpod get nodes -o wide"),
        ("With one label as a column, and all labels in the last", "syncpod get pods -L app --show-labels"),
        ("The names of all ConfigMaps and Secrets", "syncpod get cm,secrets -o name"),
    ),
    "describe": (
        ("A pod, and what it waits for", "syncpod describe pod web"),
        ("All pods with a label", "syncpod describe -l app=web"),
        ("All pods of a namespace", "syncpod describe pods -n prod"),
        ("A node: conditions, sources of pods, what it waits for", "syncpod describe node n1"),
        ("A Secret: its keys, and how long their values are", "syncpod describe secret keys"),
    ),
    "logs": (
        ("Follow the log until the container ends", "syncpod logs web -f"),
        ("The log from before it crashed", "syncpod logs web -c app --previous"),
        ("What an earlier instance logged last, also of a pod that is gone", "syncpod logs web --restart 3"),
        ("The last hour of all pods with a label", "syncpod logs -l app=web --all-containers --prefix --since 1h"),
    ),
    "tree": (
        ("What runs on each node, and what waits for what", "syncpod tree"),
        ("The same of one node", "syncpod tree node1"),
    ),
    "history": (
        ("What was decided and done, when and why", "syncpod history web"),
        ("The same as JSON", "syncpod history web -o json"),
    ),
    "replay": (
        ("Would this version of the program decide as the running one did?", "syncpod replay web"),
        ("The same of a recorded history", "syncpod replay -f history.json"),
        ("All pods of the namespace", "syncpod replay $(syncpod get pods -o name)"),
        ("Every run that led to the newest, as JSON", "syncpod replay web --all -o json"),
        ("The workflow of a node", "syncpod replay node/worker-1"),
    ),
    "events": (
        ("The events of all pods of the namespace", "syncpod events"),
        ("Warnings in all namespaces, as they come", "syncpod events -A --types Warning -w"),
        ("The events of a pod, as v1 Event objects", "syncpod events --for pod/web -o yaml"),
    ),
    "top": (
        ("The pods that use the most memory", "syncpod top pod -A --sort-by memory"),
        ("This machine", "syncpod top node"),
    ),
    "top pod": (
        ("The pods of the namespace", "syncpod top pod"),
        ("All containers, the busiest first, and the sum", "syncpod top pod -A --containers --sort-by cpu --sum"),
        ("One pod", "syncpod top pod web --containers"),
        ("The pods, drawn again and again, the busiest first", "syncpod top pod -w --sort-by cpu"),
    ),
    "top node": (("This machine, with all that runs on it", "syncpod top node"),),
    "plan": (
        ("What applying this would do", "syncpod plan -f pod.yaml"),
        ("The same as JSON", "syncpod plan -f pod.yaml -o json"),
    ),
    "wait": (
        ("Until a pod is ready", "syncpod wait pod/web --for=condition=Ready --timeout 1m"),
        ("Until it has run to its end", "syncpod wait job --for=jsonpath='{.status.phase}'=Succeeded --timeout=-1s"),
        ("Until all pods of a label are gone", "syncpod wait pods -l app=web --for=delete"),
        ("Until it has an address, whichever it is", "syncpod wait web --for=jsonpath='{.status.podIP}'"),
    ),
    "restart": (
        ("All main containers of a pod", "syncpod restart web"),
        ("One container or sidecar, and wait until the pod is ready again", "syncpod restart web -c proxy --wait"),
    ),
    "retry": (
        ("End all back-offs, and release what a restart limit holds", "syncpod retry web"),
        ("Pull a container's image again, and wait for the pod", "syncpod retry web -c app --wait --timeout 1m"),
    ),
    "condition": (
        ("Meet a readiness gate", "syncpod condition web example.com/load-balanced=True --reason Registered"),
        ("Take it back", "syncpod condition web example.com/load-balanced=False"),
    ),
    "cordon": (("Take no new pods; those that are there keep running", "syncpod cordon n1"),),
    "uncordon": (("Take new pods again", "syncpod uncordon n1"),),
    "drain": (
        ("End all pods except those of the manifest directory", "syncpod drain n1 --force"),
        (
            "Also those whose emptyDir data is lost, within five minutes",
            "syncpod drain n1 --force --delete-emptydir-data --timeout 5m",
        ),
    ),
    "node": (("What this machine is short of, and what runs without a workflow", "syncpod node"),),
    "adopt": (
        ("After the Temporal server has lost its database: keep everything running", "syncpod adopt --all"),
        ("What would be adopted", "syncpod adopt --all --dry-run"),
        ("One pod", "syncpod adopt web -n prod"),
        ("Pods whose node has lost its state directory too", "syncpod adopt -f pods/"),
        ("One whose workflow cannot go on: replace the workflow", "syncpod adopt web --force"),
    ),
    "prune": (
        ("What would be killed", "syncpod prune --all --dry-run"),
        ("One pod, with its own grace period", "syncpod prune web"),
        ("Everything in a namespace, with a second of grace", "syncpod prune --all -n test --now"),
    ),
    "delete": (
        ("A pod, with its own grace period; wait until it is gone", "syncpod delete pod web"),
        ("At once", "syncpod delete pod web --force"),
        ("Only print which would be deleted", "syncpod delete pods --all --dry-run=client"),
        ("What a manifest names, without waiting", "syncpod delete -f pod.yaml --wait=false"),
        ("All pods with a label", "syncpod delete pods -l app=web"),
        ("All pods that have run to their end", "syncpod delete pods --field-selector status.phase=Succeeded"),
    ),
    "up": (
        ("Everything that pods need on this machine", "syncpod up"),
        ("And a pod", "syncpod up -f pod.yaml"),
        ("And the pods of a directory, as long as their files are there", "syncpod up --manifests manifests.d"),
        ("A node on which no pod forks without end", "syncpod up --pod-max-pids 4096"),
        ("A node whose labels pods ask for", "syncpod up --node-labels disk=ssd,example.com/rack=7"),
        ("Use the embedded runtime although containerd is there", "syncpod up --embedded -f pod.yaml"),
        ("Simulate: containers are timers, so a laptop takes ten thousand pods", "syncpod up --simulate"),
    ),
    "down": (
        ("End the pods, and everything that `up` has started", "syncpod down"),
        ("Leave the pods running for the next `up`", "syncpod down --keep-pods"),
        ("Also remove all files", "syncpod down --purge"),
    ),
    "server": (("A Temporal dev server at the usual ports", "syncpod server --port 7233 --ui-port 8233"),),
    "runtime": (
        ("For crictl, or for another agent", "syncpod runtime --socket /run/syncpod/cri.sock"),
        ("With timers instead of containers", "syncpod runtime --simulate"),
    ),
    "load": (
        ("A file that `podman save` wrote", "syncpod load nginx.tar"),
        ("An OCI layout without a name", "syncpod load ./alpine --name alpine:3"),
    ),
    "worker": (("A node of a remote Temporal server", "TEMPORAL_ADDRESS=temporal:7233 syncpod worker --node rack7"),),
    "completion": (
        ("In this bash", "source <(syncpod completion bash)"),
        ("In every bash", "syncpod completion bash > /etc/bash_completion.d/syncpod"),
        ("In every zsh; the directory must be in $fpath", "syncpod completion zsh > ~/.zfunc/_syncpod"),
        ("In every fish", "syncpod completion fish > ~/.config/fish/completions/syncpod.fish"),
    ),
    "version": (("The versions, for a bug report", "syncpod version"),),
    "create": (
        ("What a manifest has, unless it exists already", "syncpod create -f pod.yaml"),
        ("Whether that would be done", "syncpod create -f pod.yaml --dry-run=server"),
        ("A ConfigMap from a directory's files", "syncpod create configmap settings --from-file=conf.d"),
        (
            "A Secret whose value is in no argument",
            "pass db | syncpod create secret generic db --from-file=pw=/dev/stdin",
        ),
    ),
    "create configmap": (
        ("From literal values", "syncpod create configmap settings --from-literal=level=debug"),
        (
            "From files, under their own names or others",
            "syncpod create configmap web --from-file=app.conf --from-file=log=l.conf",
        ),
        ("Only print it", "syncpod create configmap settings --from-env-file=app.env --dry-run=client -o yaml"),
    ),
    "create secret": (
        ("A token for a program", "syncpod create secret generic keys --from-file=token=/run/token"),
        ("A certificate for a web server", "syncpod create secret tls web --cert=web.crt --key=web.key"),
    ),
    "create secret generic": (
        ("From a file", "syncpod create secret generic keys --from-file=token=/run/token"),
        ("From another program's output", "pass db | syncpod create secret generic db --from-file=pw=/dev/stdin"),
    ),
    "create secret tls": (
        ("From a certificate and its key", "syncpod create secret tls web --cert=web.crt --key=web.key"),
    ),
    "create secret docker-registry": (
        (
            "To pull from a registry; pods name it in imagePullSecrets",
            "syncpod create secret docker-registry hub --from-file=$HOME/.docker/config.json",
        ),
    ),
}

NOTES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("exec", "fleet exec"),
        "The exit code is the command's. It is also 1 if the command could not be run, and 2 for wrong input.",
    ),
    "wait": "Exit codes: 0 all pods meet it, 1 a timeout or a pod that does not exist, 2 wrong input.",
    "top": "Both ask only this machine: its runtime and its kernel. Neither needs the Temporal server.",
    "adopt": "Exit codes: 0 all are adopted, 1 at least one could not be adopted, 2 wrong input.",
    "prune": "Exit codes: 0 all are pruned, 1 at least one could not be pruned, 2 wrong input.",
    "replay": (
        "Exit codes: 0 the code at hand makes the same decisions, 1 it differs, 2 wrong input, or a run that cannot be "
        "replayed."
    ),
    "retry": "Exit codes: 0 something is retried, 1 nothing waits, or with --wait the pod is not ready.",
}
