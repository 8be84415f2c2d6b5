"""In a runtime's messages, CRI fields are replaced by the corresponding fields of the Pod."""

from __future__ import annotations

import pytest

from syncpod.pod import Container
from syncpod.translation.pod_fields import container_message, sandbox_message

AT = "spec.initContainers[2]"
CONTAINER = Container.model_validate(
    {
        "name": "app",
        "volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}],
        "securityContext": {"runAsUser": 0},
    }
)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("config.mounts[1].propagation: only private", f"{AT}.volumeMounts[1].mountPropagation: only private"),
        ("config.mounts[0].image: no", f"{AT}.volumeMounts[0]: no"),
        ("config.mounts[2].host_path: the node's own", "config.mounts[2].host_path: the node's own"),
        ("config.envs[7].value: no NUL", f"{AT}.env: no NUL"),
        ("config.args[3]: too long", f"{AT}.args[3]: too long"),
        ("config.linux.security_context.readonly_rootfs: x", f"{AT}.securityContext.readOnlyRootFilesystem: x"),
        ("config.linux.security_context.run_as_user: only root", f"{AT}.securityContext.runAsUser: only root"),
        ("config.linux.security_context.seccomp: none here", "spec.securityContext.seccompProfile: none here"),
        ("config.linux.security_context.supplemental_groups[1]: x", "spec.securityContext.supplementalGroups[1]: x"),
        ("config.devices: of no field", "config.devices: of no field"),
        ("failed to mount /x: config.txt: no such file", "failed to mount /x: config.txt: no such file"),
        ("", ""),
    ],
)
def test_cri_container_fields_in_messages_are_replaced_by_pod_fields(said: str, field: str) -> None:
    assert container_message(said, CONTAINER, AT) == field


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("config.linux.sysctls: cannot be set", "spec.securityContext.sysctls: cannot be set"),
        ("desc = config.port_mappings[0].host_port: need", "desc = spec.containers[].ports[].hostPort: need"),
        ("config.hostname: must be", "spec.hostname: must be"),
        ("config.log_directory: must be", "config.log_directory: must be"),
    ],
)
def test_cri_sandbox_fields_in_messages_are_replaced_by_pod_fields(said: str, field: str) -> None:
    assert sandbox_message(said) == field
