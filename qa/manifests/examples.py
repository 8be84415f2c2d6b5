"""Cases for the manifests of examples/pods, each of which begins with a comment about its purpose."""

from __future__ import annotations

from pathlib import Path

from qa.manifests.cases import Applied, Case, Check, Manifests
from qa.manifests.checks import logs, pod_limits, runs, serves_on_the_node, status, succeeds, waits
from qa.manifests.node import NotSo

DIRECTORY = Path(__file__).resolve().parents[2] / "examples" / "pods"


def shows(path: str, describes: str, *lines: str) -> Case:
    """A case for a pod that writes these lines to its log, and succeeds."""
    return Case(path, describes, (succeeds(), logs("show", *lines)))


def apply_again(path: str, old: str, new: str, *said: str) -> Check:
    """The manifest is applied again with `new` instead of `old`, and the command prints these lines."""

    async def check(applied: Applied) -> str:
        changed = applied.node.directory / f"{applied.namespace}-again.yaml"
        changed.write_text((DIRECTORY / path).read_text().replace(old, new))
        answer = await applied.node.syncpod("apply", "-f", str(changed), "--namespace", applied.namespace)
        lines = (answer.out or answer.refusal(str(changed))).splitlines()
        if lines != list(said):
            raise NotSo(f"`apply` with {new} for {old} says {lines}")
        return f"applied with {new} for {old}: `{' ⏎ '.join(said)}`"

    return check


MANIFESTS = Manifests(
    DIRECTORY,
    (
        shows("configmap-env.yaml", "Variables from a ConfigMap, with a prefix and without.", "cave, 3 lives"),
        Case(
            "configmap-volume.yaml",
            "A ConfigMap as files, which follow a change without a restart.",
            (
                runs(),
                logs("watch", "the color is blue"),
                apply_again(
                    "configmap-volume.yaml",
                    "color: blue",
                    "color: green",
                    "configmap/palette configured",
                    "pod/configmap-volume unchanged",
                ),
                logs("watch", "the color is blue", "the color is green"),
                runs(),
            ),
        ),
        shows(
            "dns.yaml", "A resolver of one's own.", "search example.test", "nameserver 192.0.2.53", "options ndots:2"
        ),
        shows(
            "downward-api.yaml",
            "The pod's own fields and requests, as variables and as a file.",
            'downward-api: 64 Mi, 250m CPU, tier="back"',
        ),
        shows("env-file.yaml", "A variable from a file that an init container has written.", "the answer is 42"),
        shows("fs-group.yaml", "A volume for a group, and a user who is in it.", "1000:2000", "3000 2000"),
        shows("hardened.yaml", "No root, no capabilities, a read-only root.", "CapEff:0000000000000000"),
        shows("host-aliases.yaml", "Names of one's own in /etc/hosts.", "192.0.2.10 database.test db"),
        shows("host-path.yaml", "A file of the node.", "the node says what it is"),
        Case(
            "host-port.yaml", "A port of the node that leads to the pod.", (runs(), serves_on_the_node(18080, "hello"))
        ),
        shows("hostname.yaml", "A host name of one's own.", "web-1"),
        shows("image-volume.yaml", "The files of an image, beside one's own.", "the tools are there"),
        Case(
            "immutable-configmap.yaml",
            "A ConfigMap that cannot be changed.",
            (
                succeeds(),
                logs("show", "pi is 3.14159"),
                apply_again(
                    "immutable-configmap.yaml",
                    "3.14159",
                    "3",
                    'The ConfigMap "constants" is invalid: data: Forbidden: field is immutable when `immutable` is set',
                ),
            ),
        ),
        shows("json.json", "A Pod in JSON.", "JSON is taken as well"),
        shows("kyaml.yaml", "A Pod in KYAML.", "flow style"),
        shows("list.yaml", "A List of a ConfigMap and a Pod.", "hello"),
        shows("memory.yaml", "An emptyDir in memory.", "tmpfs"),
        shows("optional.yaml", "References to what is not there.", "token: none, files: 0"),
        Case(
            "pod-resources.yaml",
            "A budget for all containers of a pod.",
            (runs(), pod_limits(500, 64), status("qosClass", "Burstable")),
        ),
        shows(
            "projected.yaml",
            "A ConfigMap, a Secret and the pod's labels in one directory.",
            "settings.ini: mode = demo",
            "auth/token: s3cr3t",
            'pod/labels: app="demo"',
        ),
        shows("pull-secret.yaml", "A password for a registry.", "started"),
        Case(
            "run-as-non-root.yaml",
            "An image that runs as root, where that is forbidden.",
            (waits("never", "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),),
        ),
        shows("secret-env.yaml", "Variables from a Secret.", "app has a password of 13 characters"),
        shows(
            "secret-volume.yaml", "Files of a Secret, with modes, and a name with a dot.", "440 .netrc", "400 keys/id"
        ),
        shows("share-process-namespace.yaml", "Processes that see each other.", "the server sleeps"),
        Case(
            "sidecar-job.yaml",
            "A sidecar that does not keep its pod from its end.",
            (succeeds(), logs("job", "the helper is ready")),
        ),
        shows(
            "subpath.yaml",
            "A file of a ConfigMap among others, and a directory with the pod's name.",
            "Welcome",
            "./subpath/today/log",
        ),
        shows("sysctls.yaml", "A setting of the kernel for one pod.", "32768 40000"),
    ),
)
"""A case for each file of the directory."""
