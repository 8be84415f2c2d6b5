"""The defaults that the API server fills in.

Mirrors `pkg/apis/core/v1/defaults.go`, v1.36, for a Pod, and the copy of AppArmor annotations into fields that
`pkg/registry/core/pod/strategy.go`, applyAppArmorVersionSkew, makes on creation.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from syncpod.pod.amounts import HUGE_PAGES, containers_text, is_pod_level
from syncpod.pod.containers import Container
from syncpod.pod.env import EnvVar
from syncpod.pod.images import parse_image_name
from syncpod.pod.kinds import Pod
from syncpod.pod.probes import HTTPGetAction, LifecycleHandler, Probe
from syncpod.pod.quantity import parse_quantity
from syncpod.pod.resources import ResourceRequirements
from syncpod.pod.security import AppArmorProfile, PodSecurityContext, SecurityContext
from syncpod.pod.spec import PodSpec
from syncpod.pod.volumes import (
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    ProjectedVolumeSource,
    Volume,
    VolumeProjection,
)
from syncpod.pod.wire import Model

DEFAULT_NAMESPACE = "default"
DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS = 30
DEFAULT_TERMINATION_MESSAGE_PATH = "/dev/termination-log"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
"""The prefix, before a container's name, of the annotation that preceded `securityContext.appArmorProfile`."""

_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600

_Record = TypeVar("_Record", bound=Model)


def with_defaults(pod: Pod) -> Pod:
    """Return the pod with every default filled in. Idempotent."""
    spec = pod.spec
    pod_profile = spec.security_context.app_armor_profile if spec.security_context else None
    profiles = _annotated_profiles(pod.metadata.annotations, pod_profile)

    def complete(container: Container) -> Container:
        return _with_annotated_profile(with_container_defaults(container, spec.host_network), profiles)

    wanted: dict[str, Any] = {
        "restart_policy": spec.restart_policy or "Always",
        "dns_policy": spec.dns_policy or "ClusterFirst",
        "termination_grace_period_seconds": _grace_period(spec.termination_grace_period_seconds),
        "scheduler_name": spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        "enable_service_links": _or(spec.enable_service_links, True),
        "security_context": spec.security_context or PodSecurityContext(),
        "service_account_name": spec.service_account_name or spec.service_account,
        "volumes": tuple(_volume(volume) for volume in spec.volumes),
        "init_containers": tuple(complete(container) for container in spec.init_containers),
        "containers": tuple(complete(container) for container in spec.containers),
        "ephemeral_containers": tuple(
            _with_annotated_profile(with_container_defaults(container, False), profiles)
            for container in spec.ephemeral_containers
        ),
    }
    metadata = _changed(pod.metadata, {"namespace": pod.metadata.namespace or DEFAULT_NAMESPACE})
    spec = _changed(spec, wanted)
    spec = _changed(spec, {"resources": _pod_resources(spec), "overhead": _rounded(spec.overhead)})
    return _changed(pod, {"metadata": metadata, "spec": spec})


_AnyContainer = TypeVar("_AnyContainer", bound=Container)


def with_container_defaults(container: _AnyContainer, host_network: bool) -> _AnyContainer:
    """Return a container of any of the three kinds with its defaults."""
    return _changed(
        container,
        {
            "image_pull_policy": container.image_pull_policy or default_pull_policy(container.image),
            "termination_message_path": container.termination_message_path or DEFAULT_TERMINATION_MESSAGE_PATH,
            "termination_message_policy": container.termination_message_policy or "File",
            "ports": tuple(
                _changed(
                    port,
                    {
                        "protocol": port.protocol or "TCP",
                        "host_port": port.host_port or (port.container_port if host_network else None),
                    },
                )
                for port in container.ports
            ),
            "env": tuple(_env_var(variable) for variable in container.env),
            "resources": _resources(container.resources),
            "liveness_probe": _probe(container.liveness_probe),
            "readiness_probe": _probe(container.readiness_probe),
            "startup_probe": _probe(container.startup_probe),
            "lifecycle": container.lifecycle
            and _changed(
                container.lifecycle,
                {
                    "post_start": _handler(container.lifecycle.post_start),
                    "pre_stop": _handler(container.lifecycle.pre_stop),
                },
            ),
        },
    )


def default_pull_policy(image: str) -> str:
    """Return Always for the tag `latest`, written or implied, else IfNotPresent, also for an invalid reference."""
    name = parse_image_name(image)
    return "Always" if name is not None and name.tag == "latest" else "IfNotPresent"


def _grace_period(seconds: int | None) -> int:
    """Return the grace period; a negative one becomes one second (`conversion.go`, Convert_v1_Pod_To_core_Pod)."""
    if seconds is None:
        return DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS
    return 1 if seconds < 0 else seconds


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _changed(record: _Record, wanted: Mapping[str, Any]) -> _Record:
    """Return the record with these values; the record itself if it has them already."""
    changes = {name: value for name, value in wanted.items() if getattr(record, name) != value}
    return record.model_copy(update=changes) if changes else record


def _resources(resources: ResourceRequirements) -> ResourceRequirements:
    """Round to thousandths, and use the limit for a missing request."""
    limits, requests = _rounded(resources.limits), _rounded(resources.requests)
    return _changed(resources, {"limits": limits, "requests": {**limits, **requests}})


def _pod_resources(spec: PodSpec) -> ResourceRequirements | None:
    """Complete the pod-level resources, given containers that have their defaults.

    If there is any pod-level limit, a missing request becomes the sum of the containers' requests, else the limit; huge
    pages that only the containers limit get the sum of those limits (defaultHugePagePodLimits, defaultPodRequests).
    """
    if spec.resources is None:
        return None
    limits, requests = _rounded(spec.resources.limits), _rounded(spec.resources.requests)
    if limits or requests:
        pages = containers_text(spec, "limits").items()
        limits |= {
            name: text
            for name, text in pages
            if name.startswith(HUGE_PAGES) and name not in limits and name not in requests
        }
    if limits:
        of_containers = containers_text(spec, "requests").items()
        defaults = {name: text for name, text in limits.items() if is_pod_level(name)}
        defaults |= {
            name: text for name, text in of_containers if is_pod_level(name) and not name.startswith(HUGE_PAGES)
        }
        requests = {**defaults, **requests}
    return _changed(spec.resources, {"limits": limits, "requests": requests})


def _rounded(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: _at_least_milli(text) for name, text in amounts.items()}


def _at_least_milli(text: str) -> str:
    quantity = parse_quantity(text)
    return text if (quantity.number * 1000).denominator == 1 else f"{quantity.milli_value()}m"


def _env_var(variable: EnvVar) -> EnvVar:
    source = variable.value_from
    if source is None or source.field_ref is None or source.field_ref.api_version:
        return variable
    field_ref = _changed(source.field_ref, {"api_version": "v1"})
    return _changed(variable, {"value_from": _changed(source, {"field_ref": field_ref})})


def _http_get(action: HTTPGetAction | None) -> HTTPGetAction | None:
    return action and _changed(action, {"path": action.path or "/", "scheme": action.scheme or "HTTP"})


def _handler(handler: LifecycleHandler | None) -> LifecycleHandler | None:
    return handler and _changed(handler, {"http_get": _http_get(handler.http_get)})


def _probe(probe: Probe | None) -> Probe | None:
    return probe and _changed(
        probe,
        {
            "http_get": _http_get(probe.http_get),
            "grpc": probe.grpc and _changed(probe.grpc, {"service": _or(probe.grpc.service, "")}),
            "initial_delay_seconds": probe.initial_delay_seconds or None,
            "timeout_seconds": probe.timeout_seconds or 1,
            "period_seconds": probe.period_seconds or 10,
            "success_threshold": probe.success_threshold or 1,
            "failure_threshold": probe.failure_threshold or 3,
        },
    )


def _volume(volume: Volume) -> Volume:
    if not volume_sources(volume):
        return _changed(volume, {"empty_dir": EmptyDirVolumeSource()})
    changes: dict[str, Any] = {}
    if volume.host_path is not None:
        changes["host_path"] = _changed(volume.host_path, {"type": _or(volume.host_path.type, "")})
    for name in ("secret", "config_map"):
        if (source := getattr(volume, name)) is not None:
            changes[name] = _changed(source, {"default_mode": _or(source.default_mode, _FILE_MODE)})
    if volume.downward_api is not None:
        changes["downward_api"] = _changed(
            volume.downward_api,
            {
                "default_mode": _or(volume.downward_api.default_mode, _FILE_MODE),
                "items": tuple(_downward_file(item) for item in volume.downward_api.items),
            },
        )
    if volume.projected is not None:
        changes["projected"] = _projected(volume.projected)
    if volume.image is not None:
        policy = volume.image.pull_policy or default_pull_policy(volume.image.reference)
        changes["image"] = _changed(volume.image, {"pull_policy": policy})
    return _changed(volume, changes)


def volume_sources(volume: Volume) -> tuple[str, ...]:
    """Return the wire names of a volume's sources; a valid volume has one."""
    return tuple(
        str(field.alias)
        for name, field in Volume.model_fields.items()
        if name != "name" and getattr(volume, name) is not None
    )


def _downward_file(item: DownwardAPIVolumeFile) -> DownwardAPIVolumeFile:
    if item.field_ref is None or item.field_ref.api_version:
        return item
    return _changed(item, {"field_ref": _changed(item.field_ref, {"api_version": "v1"})})


def _projected(projected: ProjectedVolumeSource) -> ProjectedVolumeSource:
    def complete(source: VolumeProjection) -> VolumeProjection:
        token, downward = source.service_account_token, source.downward_api
        return _changed(
            source,
            {
                "service_account_token": token
                and _changed(token, {"expiration_seconds": _or(token.expiration_seconds, _TOKEN_SECONDS)}),
                "downward_api": downward
                and _changed(downward, {"items": tuple(_downward_file(item) for item in downward.items)}),
            },
        )

    return _changed(
        projected,
        {
            "default_mode": _or(projected.default_mode, _FILE_MODE),
            "sources": tuple(complete(source) for source in projected.sources),
        },
    )


def _annotated_profiles(
    annotations: Mapping[str, str], pod_profile: AppArmorProfile | None
) -> Mapping[str, AppArmorProfile]:
    """Return, by container name, the AppArmor profiles in annotations that differ from the pod's own profile."""
    profiles = {}
    for key, value in annotations.items():
        if key.startswith(APP_ARMOR_ANNOTATION) and (profile := annotated_profile(value)) not in (None, pod_profile):
            profiles[key.removeprefix(APP_ARMOR_ANNOTATION)] = profile
    return profiles


def annotated_profile(annotation: str) -> AppArmorProfile | None:
    """Return the profile that an AppArmor annotation's value names, None if it names none."""
    if annotation == "unconfined":
        return AppArmorProfile(type="Unconfined")
    if annotation == "runtime/default":
        return AppArmorProfile(type="RuntimeDefault")
    if annotation.startswith("localhost/") and annotation != "localhost/":
        return AppArmorProfile(type="Localhost", localhost_profile=annotation.removeprefix("localhost/"))
    return None


def _with_annotated_profile(container: _AnyContainer, profiles: Mapping[str, AppArmorProfile]) -> _AnyContainer:
    context = container.security_context or SecurityContext()
    if container.name not in profiles or context.app_armor_profile is not None:
        return container
    context = _changed(context, {"app_armor_profile": profiles[container.name]})
    return _changed(container, {"security_context": context})
