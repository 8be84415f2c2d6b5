"""Commands as a user of kubectl types them from memory: each works, or is refused with the way on.

None of those here reaches a server: a command that would work fails for want of one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from syncpod.cli.main import run

NO_SERVER = "no Temporal server at 127.0.0.1:1"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "a", "image": "b"}]},
}

UNDERSTOOD = (
    "get pods",
    "get po web -o yaml",
    "get pods -A -o wide",
    "get pods --all-namespaces --show-labels",
    "get pods -l app=web",
    "get pods --sort-by=.metadata.creationTimestamp",
    "get pods --field-selector=status.phase=Running",
    "get pods -o jsonpath={.items[*].metadata.name}",
    "get pods -o custom-columns=NAME:.metadata.name",
    "get all",
    "get events",
    "get events --sort-by=.lastTimestamp",
    "get events --sort-by={.metadata.creationTimestamp}",
    "get nodes",
    "get no -o wide",
    "get -f pod.yaml",
    "describe pod web",
    "describe node n1",
    "apply -f pod.yaml",
    "apply -f pod.yaml --server-side",
    "apply --server-side --force-conflicts -f pod.yaml",
    "apply -f pod.yaml --validate=strict",
    "apply -f pod.yaml --dry-run=client",
    "create -f pod.yaml",
    "create -f pod.yaml --save-config",
    "delete pod web",
    "delete -f pod.yaml",
    "delete pods --all",
    "delete po web --now",
    "delete pod web --grace-period=0 --force",
    "edit pod web",
    "patch pod web -p {}",
    "patch pod web --subresource resize -p {}",
    "patch pod web --subresource=resize --type=merge -p {}",
    "label pod web a=b",
    "annotate pod web a=b",
    "logs web",
    "logs -f web -c a --tail=5",
    "logs web --previous",
    "exec web -- ls",
    "exec -it web -- sh",
    "attach web",
    "cp web:/etc/hosts hosts",
    "port-forward web 8080:80",
    "debug web -it --image=busybox",
    "run web --image=b",
    "run web -it --rm --image=b --restart=Never -- sh",
    "wait --for=condition=Ready pod/web",
    "wait --for=delete pod/web",
    "cordon n1",
    "uncordon n1",
    "drain n1",
    "events --for pod/web",
    "get pods -A -o wide --show-labels",
    "get pod/web pod/db",
    "get pods -o name",
    "get pods --no-headers",
    "get pods --field-selector spec.nodeName=n1",
    "get events --for pod/web",
    "logs -f --since=5m web",
    "logs -l app=web --all-containers --prefix",
    "logs web --since-time=2026-01-01T00:00:00Z --timestamps",
    "describe pods -l app=web",
    "cp web:/etc/hosts ./hosts -c a",
    "port-forward pod/web :80",
    "wait --for=jsonpath={.status.phase}=Running pod/web --timeout=30s",
    "annotate pod web a=b --overwrite",
    "label pods --all a=b",
    "exec -it web -c a -- sh",
    "exec web ls",
    "apply -f . -R",
    "attach -it web -c a",
    "patch pod web --type=json -p []",
    "drain n1 --ignore-daemonsets --delete-emptydir-data",
    "events --types=Warning",
)
REFUSED = (
    (
        "explain pod.spec",
        "pod.spec: this explains the state of a pod, `explain NAME`; a Pod's fields are explained in ",
    ),
    ("explain pods", "pods: this explains the state of a pod"),
    ("run web --rm --image=b", "--rm: only with -i or --attach"),
    ("run web -t --image=b", "--tty: needs --stdin (-it)"),
    ("rollout status deployment/web", "'rollout' is not a command here: a pod has no rollouts: "),
    ("scale deployment web --replicas=3", "'scale' is not a command here: one node has no replicas: "),
    ("create deployment web --image=b", "create deployment: a fleet has Deployments: "),
    ("create ns foo", "create ns: a namespace needs not be created"),
    ("create job x --image=b", "create job: a pod with `restartPolicy: OnFailure` runs to its end"),
    ("get deploy", "'deploy': a fleet has them: `syncpod fleet get deployments`"),
    ("get ds,pods", "'ds': a fleet has them: `syncpod fleet get daemonsets`"),
    ("get svc", "'svc': there are no Services: "),
    ("get ns", "'ns': a namespace is there with its first pod: "),
    ("get pvc", "'pvc': there are no claims: "),
    ("get cronjobs", "'cronjobs': a pod with `restartPolicy: OnFailure` runs to its end"),
    ("api-resources", "'api-resources' is not a command here: there are pods (po), "),
    ("api-versions", "'api-versions' is not a command here: there is v1"),
    ("auth can-i create pods", "'auth' is not a command here: there are no roles: a node of `syncpod up` obeys "),
    ("config view", "'config' is not a command here: TEMPORAL_ADDRESS"),
    ("debug node/n1 -it --image=b", "'node/n1': a node is a machine, so its own shell debugs it"),
    ("get pods --context=prod", "No such option: --context: there is no kubeconfig: TEMPORAL_ADDRESS"),
    ("--context prod get pods", "No such option: --context: there is no kubeconfig: TEMPORAL_ADDRESS"),
    ("get pods --kubeconfig x", "No such option: --kubeconfig: there is no kubeconfig"),
    ("apply -f pod.yaml -o yaml", "No such option: -o: `syncpod get -f FILE -o yaml` prints what has been applied"),
    ("apply -f pod.yaml --prune", "No such option: --prune: a directory that the node follows does it"),
    ("apply -f pod.yaml --validate=false", "No such option: --validate: manifests are always checked strictly"),
    ("apply pod.yaml", "pod.yaml: name a manifest with -f: syncpod apply -f pod.yaml"),
    ("apply no.yaml", "no.yaml: there is no such file, and a manifest is named with -f: syncpod apply -f FILE"),
    ("fleet apply pod.yaml", "pod.yaml: name a manifest with -f: syncpod fleet apply -f pod.yaml"),
    ("up pod.yaml", "pod.yaml: name a manifest with -f: syncpod up -f pod.yaml"),
    ("create no.json", "no.json: there is no such file, and a manifest is named with -f: syncpod create -f FILE"),
    ("up web", "Got unexpected extra argument"),
    ("get pods -o go-template={{.items}}", "--output: go-template is not here: jsonpath='{PATH}' prints fields"),
    ("get web -f pod.yaml", "name what to list, or give its manifest with -f, not both"),
    ("get events --sort-by=.a -w", "--sort-by: a watch prints events in the order in which they come"),
    ("patch pod web --subresource=status -p {}", "No such option: --subresource"),
    ("certificate approve x", "'certificate' is not a command here: `syncpod fleet certificates`"),
    ("kustomize .", "'kustomize' is not a command here: pipe `kubectl kustomize DIR` into "),
    ("replace -f pod.yaml", "'replace' is not a command here: `syncpod apply -f FILE` changes a pod"),
    ("set image pod/web a=b", "'set' is not a command here: `syncpod apply -f FILE` changes images"),
    ("set env pod/web A=b", "'set' is not a command here: `syncpod apply -f FILE` changes images"),
    ("taint nodes n1 a=b:NoSchedule", "'taint' is not a command here: `syncpod cordon NODE`"),
    ("expose pod web --port=80", "'expose' is not a command here: there are no Services"),
    ("diff -f pod.yaml", "'diff' is not a command here: `syncpod plan -f FILE` shows"),
    ("options", "'options' is not a command here: "),
    ("plugin list", "'plugin' is not a command here: "),
    ("get pods --watch-only", "No such option: --watch-only: --watch prints what there is, then each change"),
    ("get --raw /healthz", "No such option: --raw: there is no API server"),
    ("get rs", "'rs': a node has pods alone, and a fleet Deployments and DaemonSets"),
    ("get crd", "'crd': only pods, configmaps, secrets and nodes are here"),
    ("get pv", "'pv': there are no claims: a pod names its hostPath or emptyDir itself"),
    ("get sa", "'sa': pods have no accounts at an API server here"),
    ("get pods -w -o yaml", "--watch prints tables and names, not yaml"),
    ("delete -f . -R", "No such option: -R: name each directory with -f"),
    ("delete all --all", "'all': name the kinds, such as `pods` or `cm,secrets`; `--all` is every object of a kind"),
    ("delete ns foo", "'ns': a namespace is there with its first pod"),
    ("delete deployment web", "'deployment': a fleet has them: `syncpod fleet get deployments`"),
    ("apply -k .", "-k: kustomizations are not built here: kubectl kustomize . | syncpod apply -f -"),
    ("apply view-last-applied pod/web", "view-last-applied: `syncpod get -f FILE -o yaml` prints what was applied"),
    ("replace --force -f pod.yaml", "'replace' is not a command here: `syncpod apply -f FILE` changes a pod; "),
    ("run web --image=b --port=80 --expose", "No such option: --expose: there are no Services"),
    ("logs deploy/web", "'deploy/web': only pods have logs: name one, or choose the pods by their labels"),
    ("port-forward svc/web 80", "'svc/web': there are no Services: `syncpod port-forward POD PORT` reaches a pod"),
    ("config get-contexts", "'config' is not a command here: TEMPORAL_ADDRESS"),
    ("cluster-info dump", "'cluster-info' is not a command here: `syncpod get nodes` shows the nodes"),
    ("proxy --port=8001", "'proxy' is not a command here: there is no API server"),
    ("autoscale deployment web --max=3", "'autoscale' is not a command here: there are no replicas"),
    ("rollout restart deployment/web", "'rollout' is not a command here: a pod has no rollouts: `syncpod restart POD`"),
    ("version -o yaml", "No such option: -o: one line has it all"),
    ("get pods --request-timeout=5s", "No such option: --request-timeout: `timeout 10 syncpod ...` ends any command"),
    ("get pods -v=6", "No such option: -v: a command has nothing more to say; `syncpod up` prints where the logs"),
    ("get pod a --ignore-not-found", "No such option: --ignore-not-found: a pod that is not there is one line on"),
    ("get pods --allow-missing-template-keys=true", "No such option: --allow-missing-template-keys: a field that is"),
    ("get pod web --subresource=status", "No such option: --subresource: the status is part of what `-o yaml` prints"),
    ("get pod web --show-managed-fields -o yaml", "No such option: --show-managed-fields: fields have no managers"),
    ("get componentstatuses", "'componentstatuses': `syncpod node` shows the worker, the runtime and the server"),
    ("get hpa", "'hpa': there are no replicas: `syncpod resize` changes a pod's CPU"),
    ("delete pod web --cascade=foreground", "No such option: --cascade: nothing is deleted with a pod but what is"),
    ("exec web -q -- date", "No such option: -q: notes are on standard error: `2>/dev/null` hides them"),
    ("create -f pod.yaml --edit", "No such option: --edit: edit the file first, or the pod afterwards"),
    ("port-forward web 80 --pod-running-timeout=1s", "No such option: --pod-running-timeout: wait for the pod first"),
    ("attach web --pod-running-timeout=1s", "No such option: --pod-running-timeout: wait for the pod first"),
    ("logs web --pod-running-timeout=1s", "No such option: --pod-running-timeout: wait for the pod first"),
    ("alpha events", "'alpha' is not a command here: what is here is not in stages"),
)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a manifest, and no server."""
    import json

    (tmp_path / "pod.yaml").write_text(json.dumps(POD))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("line", UNDERSTOOD)
def test_a_command_of_kubectl_is_understood(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    said = [each for each in capsys.readouterr().err.splitlines() if not each.startswith("Note: no terminal")]
    assert said[0].startswith(f"syncpod: {NO_SERVER}"), line


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_what_is_not_here_is_refused_with_the_way_on(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err.startswith(f"syncpod: {said}"), line


@pytest.mark.parametrize("flag", ["--client", "--short"])
def test_the_version_is_the_clients(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", flag]) == 0
    assert capsys.readouterr().out.startswith("syncpod ")
