"""Cases for the manifests of the Kubernetes documentation.

The facts are from https://kubernetes.io/docs (CC BY 4.0), in our words. If a page describes the work of a whole
cluster, the case checks the part that a kubelet does alone, and `elsewhere` has the rest.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from qa.manifests.cases import Applied, Case, Manifests
from qa.manifests.checks import (
    comes_to_print,
    command,
    cpu_limit,
    ended,
    environment,
    event,
    log_matches,
    logs,
    memory_limit,
    pod_limits,
    prints,
    rejected,
    restarted,
    runs,
    runs_where_there_are_cpus,
    says,
    serves,
    status,
    succeeds,
)
from qa.manifests.node import NotSo
from qa.manifests.stand_ins import NGINX, PRIVATE, localized, made
from tests.runtimes.containerd import Containerd
from tests.runtimes.docker_registry import DockerRegistry, announce

DIRECTORY = Path(__file__).with_name("kubernetes-docs")

_CONCEPTS, _TASKS, _TUTORIALS = "concepts", "tasks", "tutorials"
_ASSIGN = f"{_CONCEPTS}/scheduling-eviction/assign-pod-node"
_CONFIGURE = f"{_TASKS}/configure-pod-container"
_INJECT = f"{_TASKS}/inject-data-application"
_CONFIG_MAPS = f"{_CONFIGURE}/configure-pod-configmap"
_SECRETS = f"{_INJECT}/distribute-credentials-secure"
_PROBES = f"{_CONFIGURE}/configure-liveness-readiness-startup-probes"
_QOS = f"{_CONFIGURE}/quality-service-pod"
_POD_RESOURCES = f"{_CONCEPTS}/workloads/resource-managers"
_SECURITY = f"{_CONFIGURE}/security-context"
_VOLUMES = f"{_CONFIGURE}/configure-persistent-volume-storage"

_ON_A_NODE = "Runs on a node that has the labels."


def secret(name: str, **data: str) -> dict[str, Any]:
    """A Secret like those of `kubectl create secret generic`. In a key, `__` stands for a dash and `_` for a dot."""
    keyed = {key.replace("__", "-").replace("_", "."): value for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": keyed}


NGINX_PAGE = "<title>Welcome to nginx!</title>"

SITE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "site"},
    "spec": {"containers": [{"name": "site", "image": NGINX.image}]},
}


@asynccontextmanager
async def the_site_is_that_pod(given: Applied, text: str) -> AsyncIterator[str]:
    """Replace the name of a public site by the address of the given pod, once that serves a page."""
    await given.pod.page(80)
    pod = await given.pod.get()
    yield text.replace("info.cern.ch", pod["status"]["podIP"])


@asynccontextmanager
async def the_image_is_private(given: Applied, text: str) -> AsyncIterator[str]:
    """Serve the image from a registry with a password, and make the Secret as the page does. Raises Missing, NotSo."""
    runtime = given.node.engine.runtime
    assert isinstance(runtime, Containerd)
    with tempfile.TemporaryDirectory() as directory:
        registry = DockerRegistry(Path(directory), user="jo", password="janes-password")
        announce(runtime, registry.address)
        with registry:
            await asyncio.to_thread(registry.push, made(PRIVATE, fresh=True), "team/app", "1")
            said = await given.node.syncpod(
                *("create", "secret", "docker-registry", "regcred", "--namespace", given.namespace),
                *(f"--docker-server={registry.address}", "--docker-username=jo", "--docker-password=janes-password"),
            )
            if said.code:
                raise NotSo(said.err)
            yield text.replace(PRIVATE.image, f"{registry.address}/team/app:1")


@asynccontextmanager
async def the_node_has_the_profile(given: Applied, text: str) -> AsyncIterator[str]:
    """Write a seccomp profile that logs all system calls to the node, as the page asks for."""
    profiles = given.node.engine.worker.state_dir / "seccomp" / "profiles"
    profiles.mkdir(mode=0o700, parents=True)
    (profiles / "audit.json").write_text('{"defaultAction": "SCMP_ACT_LOG"}')
    yield text


MANIFESTS = Manifests(
    DIRECTORY,
    (
        Case(
            "configmap/configmap-multikeys.yaml",
            "A ConfigMap with two keys.",
            (
                says("configmap/special-config created"),
                command("describe configmap special-config", "SPECIAL_LEVEL:", "very", "SPECIAL_TYPE:", "charm"),
            ),
            _CONFIG_MAPS,
        ),
        Case(
            "configmap/configmaps.yaml",
            "Two ConfigMaps in one file.",
            (says("configmap/special-config created", "configmap/env-config created"),),
            _CONFIG_MAPS,
        ),
        Case(
            "debug/counter-pod-err.yaml",
            "Counts each second on standard output, and says `err` on standard error.",
            (
                runs(),
                log_matches("count", r"0: .*\d\d:\d\d:\d\d.*"),
                log_matches("count", "0: err", stream="stderr"),
            ),
            f"{_CONCEPTS}/cluster-administration/logging",
        ),
        Case(
            "debug/termination.yaml",
            "Ends after ten seconds and leaves `Sleep expired` as its termination message in the status.",
            (
                ended("termination-demo-container"),
                restarted("termination-demo-container"),
                status("containerStatuses[0].lastState.terminated.message", "Sleep expired\n"),
            ),
            f"{_TASKS}/debug/debug-application/determine-reason-pod-failure",
        ),
        Case("pods/assigning-pods-to-nodes-affinity.yaml", _ON_A_NODE, (runs(),), _ASSIGN),
        Case(
            "pods/commands.yaml",
            "Prints the values of HOSTNAME and KUBERNETES_PORT, and is completed.",
            (
                logs("command-demo-container", "command-demo"),
                ended("command-demo-container", 1),
            ),
            f"{_INJECT}/define-command-argument-container",
            elsewhere="KUBERNETES_PORT is the address of an API server's Service, so that `printenv` ends with 1",
        ),
        Case(
            "pods/config/example-redis-config.yaml",
            "A ConfigMap with a configuration for Redis.",
            (says("configmap/example-redis-config created"),),
            f"{_TUTORIALS}/configuration/configure-redis-using-configmap",
        ),
        Case(
            "pods/config/redis-pod.yaml",
            "Redis runs with the ConfigMap's text as its configuration file.",
            (
                runs(),
                logs("redis", "configuration: /usr/local/etc/redis/redis.conf"),
                prints(
                    "redis",
                    "sed 's/^ *//' /usr/local/etc/redis/redis.conf | grep .",
                    "maxmemory 2mb",
                    "maxmemory-policy allkeys-lru",
                ),
                environment("redis", MASTER="true"),
            ),
            f"{_TUTORIALS}/configuration/configure-redis-using-configmap",
            given=("pods/config/example-redis-config.yaml",),
        ),
        Case(
            "pods/init-containers.yaml",
            "An init container fetches a page, which nginx then serves.",
            (runs(), serves(80, "Welcome to nginx!")),
            f"{_CONFIGURE}/configure-pod-initialization",
            given=(SITE,),
            around=the_site_is_that_pod,
        ),
        Case(
            "pods/inject/configmap-envFrom.yaml",
            "A ConfigMap with two keys that are names of variables.",
            (says("configmap/envfrom-configmap created"),),
        ),
        Case(
            "pods/inject/dapi-envars-container.yaml",
            "Prints its own requests and limits, rounded up to whole CPUs and bytes.",
            (runs(), logs("test-container", "1", "1", "33554432", "67108864")),
            f"{_INJECT}/environment-variable-expose-pod-information",
        ),
        Case(
            "pods/inject/dependent-envars.yaml",
            "Variables that refer to earlier ones are expanded; others and escaped ones are not.",
            (
                runs(),
                logs(
                    "dependent-envars-demo",
                    "SERVICE_ADDRESS",
                    "https://172.17.0.1:80",
                    "UNCHANGE_REFERENCE",
                    "ESCAPED_REFERENCE",
                    "$(PROTOCOL)://172.17.0.1:80",
                ),
                environment("dependent-envars-demo", UNCHANGED_REFERENCE="$(PROTOCOL)://172.17.0.1:80"),
            ),
            f"{_INJECT}/define-interdependent-environment-variables",
        ),
        Case(
            "pods/inject/envars.yaml",
            "Two variables are set in the container.",
            (
                runs(),
                environment(
                    "envar-demo-container",
                    DEMO_GREETING="Hello from the environment",
                    DEMO_FAREWELL="Such a sweet sorrow",
                ),
                serves(8080, "Hello, world!"),
            ),
            f"{_INJECT}/define-environment-variable-container",
        ),
        Case(
            "pods/inject/pod-multiple-secret-env-variable.yaml",
            "Two variables come from two Secrets.",
            (runs(), environment("envars-test-container", BACKEND_USERNAME="backend-admin", DB_USERNAME="db-admin")),
            _SECRETS,
            given=(
                secret("backend-user", backend__username="backend-admin"),
                secret("db-user", db__username="db-admin"),
            ),
        ),
        Case(
            "pods/inject/pod-secret-envFrom.yaml",
            "All keys of a Secret are variables.",
            (runs(), environment("envars-test-container", username="my-app", password="39528$vdg7Jb")),
            _SECRETS,
            given=("pods/inject/secret.yaml",),
        ),
        Case(
            "pods/inject/pod-single-secret-env-variable.yaml",
            "A variable comes from a Secret.",
            (runs(), environment("envars-test-container", SECRET_USERNAME="backend-admin")),
            _SECRETS,
            given=(secret("backend-user", backend__username="backend-admin"),),
        ),
        Case(
            "pods/inject/secret-envars-pod.yaml",
            "Two variables come from two keys of a Secret.",
            (runs(), environment("envars-test-container", SECRET_USERNAME="my-app", SECRET_PASSWORD="39528$vdg7Jb")),
            _SECRETS,
            given=("pods/inject/secret.yaml",),
        ),
        Case(
            "pods/inject/secret-pod.yaml",
            "The keys of a Secret are files in a volume.",
            (
                runs(),
                prints("test-container", "ls /etc/secret-volume", "password", "username"),
                prints("test-container", "cat /etc/secret-volume/username; echo", "my-app"),
                prints("test-container", "cat /etc/secret-volume/password; echo", "39528$vdg7Jb"),
            ),
            _SECRETS,
            given=("pods/inject/secret.yaml",),
        ),
        Case(
            "pods/inject/secret.yaml",
            "A Secret, of which only the sizes are shown.",
            (
                says("secret/test-secret created"),
                command("describe secret test-secret", "username: 6 bytes", "password: 12 bytes"),
            ),
            _SECRETS,
        ),
        Case(
            "pods/lifecycle-events.yaml",
            "A file is written after the start, and nginx is asked to quit before the stop.",
            (
                runs(),
                comes_to_print(
                    "lifecycle-demo-container", "cat /usr/share/message", "Hello from the postStart handler"
                ),
            ),
            f"{_CONFIGURE}/attach-handler-lifecycle-event",
        ),
        Case(
            "pods/multi-container/resources.yaml",
            "An init container, a sidecar and a main container, each with its own limit.",
            (
                runs(),
                status("initContainerStatuses[0].state.terminated.reason", "Completed"),
                status("initContainerStatuses[1].ready", True),
                memory_limit("app", 128),
                memory_limit("log-shipper", 64),
                status("qosClass", "Burstable"),
            ),
        ),
        Case(
            "pods/multi-container/shared-volume.yaml",
            "An init container writes the page that nginx serves.",
            (
                runs(),
                serves(80, "Hello from the init container"),
                prints("web", "touch /usr/share/nginx/html/x 2>/dev/null || echo read-only", "read-only"),
            ),
        ),
        Case(
            "pods/multi-container/startup-coordination.yaml",
            "The main container starts once the sidecar's startup probe has found the file that it writes.",
            (runs(), logs("main-app", "greeting=hello")),
        ),
        Case(
            "pods/pod-configmap-env-var-valueFrom.yaml",
            "Prints two values of a ConfigMap, taken into its command, and is completed.",
            (succeeds(), logs("test-container", "very charm")),
            _CONFIG_MAPS,
            given=("configmap/configmap-multikeys.yaml",),
        ),
        Case(
            "pods/pod-configmap-envFrom.yaml",
            "All keys of a ConfigMap are in the environment that it prints.",
            (
                succeeds(),
                logs("test-container", "SPECIAL_LEVEL=very"),
                logs("test-container", "SPECIAL_TYPE=charm"),
            ),
            _CONFIG_MAPS,
            given=("configmap/configmap-multikeys.yaml",),
        ),
        Case(
            "pods/pod-configmap-volume-specific-key.yaml",
            "One key of a ConfigMap is a file of another name, which it prints.",
            (succeeds(), logs("test-container", "very")),
            _CONFIG_MAPS,
            given=("configmap/configmap-multikeys.yaml",),
        ),
        Case(
            "pods/pod-configmap-volume.yaml",
            "The keys of a ConfigMap are files, which it lists.",
            (succeeds(), logs("test-container", "SPECIAL_LEVEL", "SPECIAL_TYPE")),
            _CONFIG_MAPS,
            given=("configmap/configmap-multikeys.yaml",),
        ),
        Case(
            "pods/pod-multiple-configmap-env-variable.yaml",
            "Values of two ConfigMaps are in the environment that it prints.",
            (succeeds(), logs("test-container", "SPECIAL_LEVEL_KEY=very"), logs("test-container", "LOG_LEVEL=INFO")),
            _CONFIG_MAPS,
            given=("configmap/configmaps.yaml",),
        ),
        Case(
            "pods/pod-nginx-required-affinity.yaml",
            _ON_A_NODE,
            (runs(), serves(80, "Welcome to nginx!")),
            f"{_CONFIGURE}/assign-pods-nodes-using-node-affinity",
        ),
        Case(
            "pods/pod-nginx.yaml",
            _ON_A_NODE,
            (runs(), serves(80, "Welcome to nginx!")),
            f"{_CONFIGURE}/assign-pods-nodes",
        ),
        Case(
            "pods/pod-projected-svc-token.yaml",
            "A token of the API server is a file, renewed in time.",
            (runs(), comes_to_print("nginx", "ls /var/run/secrets/tokens", "vault-token")),
            f"{_CONFIGURE}/configure-service-account",
        ),
        Case(
            "pods/pod-rs.yaml",
            "Two Pods in one file.",
            (runs(), serves(8080, "Hello, world!")),
            f"{_CONCEPTS}/workloads/controllers/replicaset",
            elsewhere="a ReplicaSet would take them as its own",
        ),
        Case("pods/pod-with-node-affinity-1.yaml", _ON_A_NODE, (runs(),), _ASSIGN),
        Case("pods/pod-with-node-affinity-2.yaml", _ON_A_NODE, (runs(),), _ASSIGN),
        Case(
            "pods/pod-with-numeric-toleration.yaml",
            "Runs on a node with a taint that it tolerates.",
            (runs(),),
            f"{_CONCEPTS}/scheduling-eviction/taint-and-toleration",
        ),
        Case("pods/pod-with-pod-affinity.yaml", "Runs on a node beside the pods that it names.", (runs(),), _ASSIGN),
        Case(
            "pods/private-reg-pod.yaml",
            "Runs an image of a registry that asks for the password in a Secret.",
            (runs(), serves(8080, "Hello, world!"), event("Pulled", "Successfully pulled image")),
            f"{_CONFIGURE}/pull-image-private-registry",
            around=the_image_is_private,
        ),
        Case(
            "pods/probe/grpc-liveness.yaml",
            "etcd answers gRPC health checks, and is not restarted.",
            (
                runs(),
                logs("etcd", "asked", "asked", stream="stderr"),
                status("containerStatuses[0].ready", True),
                runs(),
            ),
            _PROBES,
        ),
        Case(
            "pods/probe/http-liveness.yaml",
            "The liveness probe fails after ten seconds, and the container is restarted.",
            (event("Unhealthy", "HTTP probe failed with statuscode: 500"), restarted("liveness")),
            _PROBES,
        ),
        Case(
            "pods/probe/pod-with-http-healthcheck.yaml",
            "nginx has no such page, so that the liveness probe fails.",
            (event("Unhealthy", "HTTP probe failed with statuscode: 404"),),
            _PROBES,
        ),
        Case(
            "pods/probe/tcp-liveness-readiness.yaml",
            "Ready once its port is open, and not restarted.",
            (status("containerStatuses[0].ready", True), runs()),
            _PROBES,
        ),
        Case("pods/qos/qos-pod.yaml", "QoS class Guaranteed.", (runs(), status("qosClass", "Guaranteed")), _QOS),
        Case("pods/qos/qos-pod-2.yaml", "QoS class Burstable.", (runs(), status("qosClass", "Burstable")), _QOS),
        Case("pods/qos/qos-pod-3.yaml", "QoS class BestEffort.", (runs(), status("qosClass", "BestEffort")), _QOS),
        Case("pods/qos/qos-pod-4.yaml", "QoS class Burstable.", (runs(), status("qosClass", "Burstable")), _QOS),
        Case(
            "pods/resource/cpu-request-limit.yaml",
            "Two busy loops get no more than the one CPU of the limit.",
            (runs(), cpu_limit("cpu-demo-ctr", 1000)),
            f"{_CONFIGURE}/assign-cpu-resource",
        ),
        Case(
            "pods/resource/cpu-request-limit-2.yaml",
            "Asks for 100 CPUs, which no node has, and never runs.",
            (rejected("OutOfcpu", "Node didn't have enough resource: cpu, requested: 100000"),),
            f"{_CONFIGURE}/assign-cpu-resource",
            elsewhere="a scheduler would leave it Pending; a kubelet that is given it turns it away",
        ),
        Case(
            "pods/resource/extended-resource-pod.yaml",
            "Gets three dongles of a node that offers them.",
            (runs(),),
            f"{_CONFIGURE}/extended-resource",
        ),
        Case("pods/resource/pod-level-pid-limit.yaml", "Has at most 2048 processes.", (runs(),)),
        Case(
            "pods/resource/pod-level-resize.yaml",
            "Two containers share the limits of their pod, which can be changed.",
            (runs(), status("qosClass", "Guaranteed"), pod_limits(200, 200)),
            f"{_CONFIGURE}/resize-pod-resources",
        ),
        Case(
            "pods/resource/pod-level-resource-managers-container-scope-mixed.yaml",
            "One container has two CPUs for itself, the others share the node's, below the pod's limit.",
            (runs_where_there_are_cpus(4),),
            _POD_RESOURCES,
            elsewhere="CPUs of one's own are given by the static CPU manager, which is off by default",
        ),
        Case(
            "pods/resource/pod-level-resource-managers-empty-shared-pool.yaml",
            "Turned away, since nothing is left for the container without a request.",
            (runs_where_there_are_cpus(4),),
            _POD_RESOURCES,
            elsewhere="only the static CPU manager, which is off by default, turns it away for that",
        ),
        Case(
            "pods/resource/pod-level-resource-managers-pod-scope-mixed.yaml",
            "One container has two CPUs for itself, the sidecars share the pod's other two.",
            (runs_where_there_are_cpus(4),),
            _POD_RESOURCES,
            elsewhere="CPUs of one's own are given by the static CPU manager, which is off by default",
        ),
        Case(
            "pods/restart-policy/restart-all-containers.yaml",
            "When the sidecar ends with 88, all containers are started anew, the init container first.",
            (
                runs(),
                status("initContainerStatuses[0].restartCount", 1),
                restarted("watcher-sidecar"),
                restarted("main-application"),
                logs("main-application", "Application is running"),
            ),
            f"{_CONCEPTS}/workloads/pods/pod-lifecycle",
        ),
        Case(
            "pods/security/apparmor/hello-apparmor.yaml",
            "Says hello, and may write no file.",
            (rejected("AppArmor", "Cannot enforce AppArmor"),),
            f"{_TUTORIALS}/security/apparmor",
            elsewhere="the kernel has no AppArmor, without which a kubelet turns the pod away",
        ),
        Case(
            "pods/security/hello-apparmor.yaml",
            "Says hello, and may write no file; the profile is named by an annotation.",
            (rejected("AppArmor", "Cannot enforce AppArmor"),),
            f"{_TUTORIALS}/security/apparmor",
            elsewhere="the kernel has no AppArmor, without which a kubelet turns the pod away",
        ),
        Case(
            "pods/security/seccomp/ga/audit-pod.yaml",
            "Runs under a profile of the node's, which logs each system call.",
            (
                runs(),
                prints("test-container", "grep Seccomp: /proc/1/status | cut -f 2", "2"),
                serves(5678, "just made some syscalls!"),
            ),
            f"{_TUTORIALS}/security/seccomp",
            around=the_node_has_the_profile,
        ),
        Case(
            "pods/security/seccomp/ga/default-pod.yaml",
            "Runs under the runtime's default profile.",
            (
                runs(),
                prints("test-container", "grep Seccomp: /proc/1/status | cut -f 2", "2"),
                serves(5678, "just made some more syscalls!"),
            ),
            f"{_TUTORIALS}/security/seccomp",
        ),
        Case(
            "pods/security/security-context.yaml",
            "Runs as user 1000; its volume and the files made there belong to group 2000.",
            (
                runs(),
                prints("sec-ctx-demo", "id -u; id -G", "1000", "1000 2000"),
                prints("sec-ctx-demo", "stat -c '%g %A' /data/demo", "2000 drwxrwsrwx"),
                prints(
                    "sec-ctx-demo", "echo hello >/data/demo/testfile; stat -c '%u %g' /data/demo/testfile", "1000 2000"
                ),
            ),
            _SECURITY,
        ),
        Case(
            "pods/security/security-context-3.yaml",
            "Has the capabilities that a runtime gives by default.",
            (runs(), prints("sec-ctx-3", "grep CapPrm /proc/1/status | cut -f 2", "00000000a80425fb")),
            _SECURITY,
        ),
        Case(
            "pods/security/security-context-4.yaml",
            "Has two capabilities more.",
            (runs(), prints("sec-ctx-4", "grep CapPrm /proc/1/status | cut -f 2", "00000000aa0435fb")),
            _SECURITY,
        ),
        Case(
            "pods/security/security-context-6.yaml",
            "Has the groups that the manifest names, and none of the image's.",
            (runs(), prints("sec-ctx-demo", "id -u; id -g; id -G", "1000", "3000", "3000 4000")),
            _SECURITY,
        ),
        Case(
            "pods/share-process-namespace.yaml",
            "One container sees the other's processes, and its files below /proc.",
            (
                runs(),
                prints("shell", "ps -o comm | grep httpd", "httpd"),
                prints("shell", "cat /proc/$(pidof httpd)/root/usr/share/nginx/html/index.html", NGINX_PAGE),
            ),
            f"{_CONFIGURE}/share-process-namespace",
        ),
        Case("pods/storage/expandable-pvc-pod.yaml", "Writes into a volume that can grow.", (runs(),)),
        Case(
            "pods/storage/projected-clustertrustbundle.yaml",
            "The cluster's trust anchors are files.",
            (runs(), comes_to_print("container-test", "ls /root-certificates", "example-roots.pem")),
            f"{_CONCEPTS}/storage/projected-volumes",
        ),
        Case(
            "pods/storage/projected-podcertificate.yaml",
            "A key and the certificate that a signer gave for it are a file.",
            (runs(), comes_to_print("main", "ls /var/run/my-x509-credentials", "credentialbundle.pem")),
            f"{_CONCEPTS}/storage/projected-volumes",
        ),
        Case(
            "pods/storage/projected-service-account-token.yaml",
            "A token of the API server is a file.",
            (runs(), comes_to_print("container-test", "ls /service-account", "token")),
            f"{_CONCEPTS}/storage/projected-volumes",
        ),
        Case(
            "pods/storage/projected.yaml",
            "Two Secrets are files in one directory.",
            (
                runs(),
                prints("test-projected-volume", "ls /projected-volume", "password.txt", "username.txt"),
                prints("test-projected-volume", "cat /projected-volume/*", "1f2d1e2e67dfadmin"),
            ),
            f"{_CONFIGURE}/configure-projected-volume-storage",
            given=(secret("user", username_txt="admin"), secret("pass", password_txt="1f2d1e2e67df")),
        ),
        Case(
            "pods/storage/pv-duplicate.yaml",
            "Two parts of a claim's volume are mounted.",
            (runs(),),
            _VOLUMES,
        ),
        Case("pods/storage/pv-pod-backup.yaml", "nginx's like serves a claim's files.", (runs(),), _VOLUMES),
        Case("pods/storage/pv-pod.yaml", "nginx serves a claim's files.", (runs(),), _VOLUMES),
        Case(
            "pods/storage/redis.yaml",
            "A file in the volume is still there after Redis was killed and restarted.",
            (
                runs(),
                prints("redis", "echo Hello >/data/redis/test-file; kill 1"),
                restarted("redis"),
                comes_to_print("redis", "cat /data/redis/test-file", "Hello"),
            ),
            f"{_CONFIGURE}/configure-volume-storage",
        ),
        Case(
            "pods/topology-spread-constraints/one-constraint-with-nodeaffinity.yaml",
            "Runs in the zone that has the fewest of its kind.",
            (runs(),),
            f"{_CONCEPTS}/scheduling-eviction/topology-spread-constraints",
        ),
        Case(
            "pods/two-container-pod.yaml",
            "One container writes the page that nginx serves, and ends; the pod runs on.",
            (
                ended("debian-container"),
                status("phase", "Running"),
                serves(80, "Hello from the debian container"),
            ),
            f"{_TASKS}/access-application-cluster/communicate-containers-same-pod-shared-volume",
        ),
        Case(
            "pods/user-namespaces-stateless.yaml",
            "Runs in a user namespace of its own, with 65536 users.",
            (runs(), prints("shell", "awk '{print $1, $3}' /proc/self/uid_map", "0 65536")),
            f"{_TASKS}/configure-pod-container/user-namespaces",
        ),
    ),
    localized,
)
"""A case for each file of the directory."""
