"""Checks of environment variables and their sources."""

from collections.abc import Iterator, Mapping

from syncpod.pod.env import EnvFromSource, EnvVar, EnvVarSource, FileKeySelector
from syncpod.pod.problems import Problem
from syncpod.pod.validation import syntax
from syncpod.pod.validation.fields import ENV_FIELDS, check_field_ref, check_resource_field_ref
from syncpod.pod.volumes import Volume


def check_env(variables: tuple[EnvVar, ...], volumes: Mapping[str, Volume], path: str) -> Iterator[Problem]:
    """Check variables; names may repeat, and the last one counts."""
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        if not variable.name:
            yield Problem(f"{here}.name", "required")
        elif wrong := syntax.env_name(variable.name):
            yield Problem(f"{here}.name", wrong)
        if variable.value_from is not None:
            if variable.value:
                yield Problem(f"{here}.valueFrom", "must not be set beside value")
            yield from _check_source(variable.value_from, volumes, f"{here}.valueFrom")


def check_env_from(sources: tuple[EnvFromSource, ...], path: str) -> Iterator[Problem]:
    """Check the ConfigMaps and Secrets whose keys all become variables."""
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if source.prefix and (wrong := syntax.env_name(source.prefix)):
            yield Problem(f"{here}.prefix", wrong)
        references = {"configMapRef": source.config_map_ref, "secretRef": source.secret_ref}
        found = {name: reference for name, reference in references.items() if reference is not None}
        if len(found) != 1:
            yield Problem(here, "must have one of configMapRef and secretRef")
        for name, reference in found.items():
            if wrong := object_name(reference.name):
                yield Problem(f"{here}.{name}.name", wrong)


def object_name(name: str) -> str:
    """Check the name in a reference to a ConfigMap or Secret."""
    return syntax.dns_subdomain(name) if name else "required"


def _check_source(source: EnvVarSource, volumes: Mapping[str, Volume], path: str) -> Iterator[Problem]:
    sources = [str(field.alias) for name, field in EnvVarSource.model_fields.items() if getattr(source, name)]
    if len(sources) != 1:
        yield Problem(path, f"must have one source, not {' and '.join(sources) or 'none'}")
    if source.field_ref is not None:
        yield from check_field_ref(source.field_ref, ENV_FIELDS, f"{path}.fieldRef")
    if source.resource_field_ref is not None:
        yield from check_resource_field_ref(
            source.resource_field_ref, f"{path}.resourceFieldRef", names_container=False
        )
    for name, selector in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
        if selector is not None:
            if wrong := object_name(selector.name):
                yield Problem(f"{path}.{name}.name", wrong)
            if wrong := syntax.config_key(selector.key) if selector.key else "required":
                yield Problem(f"{path}.{name}.key", wrong)
    if source.file_key_ref is not None:
        yield from _check_file_key(source.file_key_ref, volumes, f"{path}.fileKeyRef")


def _check_file_key(selector: FileKeySelector, volumes: Mapping[str, Volume], path: str) -> Iterator[Problem]:
    """Check a reference to a variable in a file, which an init container writes into an emptyDir."""
    volume = volumes.get(selector.volume_name)
    if not selector.volume_name:
        yield Problem(f"{path}.volumeName", "required")
    elif volume is None or volume.empty_dir is None:
        yield Problem(f"{path}.volumeName", "must be an emptyDir of spec.volumes")
    if wrong := syntax.no_backsteps(selector.path) if selector.path else "required":
        yield Problem(f"{path}.path", wrong)
    if wrong := syntax.env_name(selector.key) if selector.key else "required":
        yield Problem(f"{path}.key", wrong)
