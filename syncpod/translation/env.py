"""The environment of a container."""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from syncpod.objects import Kind, ObjectRef, ref_for, services_ref
from syncpod.pod import Container, EnvVarSource, FileKeySelector, Pod
from syncpod.pod.expansion import ProgramSize, TooLong, expand, size_of
from syncpod.pod.go_text import go_quote
from syncpod.translation import ContainerConfigError
from syncpod.translation.context import NodeContext
from syncpod.translation.downward import field_value, resource_value
from syncpod.translation.env_file import EnvFileInvalid, EnvFileReader


class ObjectMissing(ContainerConfigError):
    """A required ConfigMap or Secret, or its key, is missing, and may still be created."""

    def __init__(self, ref: ObjectRef, message: str) -> None:
        super().__init__(message)
        self.ref = ref


@dataclass(frozen=True)
class EnvFile:
    """A file of variables in one of the pod's volumes."""

    path: str
    """The path on the node, for the message."""
    content: bytes | None = field(repr=False)
    """The file's content; None if it could not be read."""

    @cached_property
    def variables(self) -> EnvFileReader | None:
        """The reader of the file's variables; None if the file could not be read."""
        return None if self.content is None else EnvFileReader(self.content)


@dataclass(frozen=True)
class Sources:
    """The existing objects and files to which a container's environment refers.

    Its repr shows no content.
    """

    objects: Mapping[ObjectRef, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    """The values of each object by key. ``binaryData`` of ConfigMaps is left out, since it gives no variables."""
    files: Mapping[tuple[str, str], EnvFile] = field(default_factory=dict, repr=False)
    """The files by volume and path, without those of volumes that have no directory on the node."""

    def secrets(self) -> frozenset[str]:
        """Return the values of Secrets as they appear in the environment; no message may repeat them."""
        return frozenset(
            _text(value)
            for ref, values in self.objects.items()
            if ref.kind == "Secret"
            for value in values.values()
            if value
        )


NO_SOURCES = Sources()


def wanted_objects(pod: Pod, container: Container) -> tuple[ObjectRef, ...]:
    """Return the ConfigMaps and Secrets that a container's environment refers to, each once."""
    found: dict[ObjectRef, None] = {}
    for source in container.env_from:
        if source.config_map_ref is not None:
            found[ref_for(pod, "ConfigMap", source.config_map_ref.name)] = None
        if source.secret_ref is not None:
            found[ref_for(pod, "Secret", source.secret_ref.name)] = None
    for value_from in (variable.value_from for variable in container.env if variable.value_from is not None):
        if value_from.config_map_key_ref is not None:
            found[ref_for(pod, "ConfigMap", value_from.config_map_key_ref.name)] = None
        if value_from.secret_key_ref is not None:
            found[ref_for(pod, "Secret", value_from.secret_key_ref.name)] = None
    if (services := services_ref(pod)) is not None:
        found[services] = None
    return tuple(found)


def wanted_files(container: Container) -> frozenset[tuple[str, str]]:
    """Return the files that a container's environment refers to, by volume and path."""
    selectors = (variable.value_from.file_key_ref for variable in container.env if variable.value_from is not None)
    return frozenset((selector.volume_name, selector.path) for selector in selectors if selector is not None)


def environment(
    pod: Pod,
    container: Container,
    node: NodeContext,
    pod_ips: tuple[str, ...],
    path: str,
    sources: Sources = NO_SOURCES,
) -> dict[str, str]:
    """Return the container's variables in the order of their first declarations; the last of equal names wins.

    The variables of envFrom come first, in the order of the sources and of their keys; a name is the prefix and the
    key. The variables of env come next, and can refer to earlier ones. A missing optional source declares nothing, so
    an earlier variable with its name stays. A pod of a cluster gets the variables of Services last, if nothing else has
    declared them, and values of env can refer to them. Bytes that are not UTF-8 are kept as surrogate escapes. ``path``
    is the container's path in the pod.

    Mirrors kubelet_pods.go, v1.36, makeEnvironmentVariables. Differences: the kubelet passes the variables in the
    random order of a Go map, leaves a NUL byte for the runtime to fail on, and has no limit. Here each variable, and
    all of them together, may be no larger than Linux accepts for a program. Raises :class:`ContainerConfigError`, and
    :class:`ObjectMissing` if an object may still be created. Their texts never show a value of a ConfigMap, a Secret or
    a file.
    """
    scope = _Scope(pod, container, node, pod_ips, sources)
    program, variables, services = ProgramSize(), {}, scope.services()
    for here, prefix, key, text in scope.from_whole_objects(path):
        with _at(here):
            program.add(len(prefix) + len(key) + 1 + len(text))  # checked first: a prefix may be long, and keys many
        variables[f"{prefix}{key}"] = _text(text)
    for index, variable in enumerate(container.env):
        here, value = f"{path}.env[{index}]", variable.value
        if variable.value:
            with _at(f"{here}.value"):
                value = expand(variable.value, ChainMap(variables, services))
        elif variable.value_from is not None:
            found = scope.from_source(variable.value_from, f"{here}.valueFrom")
            if found is None:
                continue
            value = found
        with _at(here):
            program.add(size_of(variable.name) + 1 + size_of(value))
        variables[variable.name] = value
    for name, value in services.items():
        if name not in variables:
            with _at(f"{path}.env"):
                program.add(size_of(name) + 1 + size_of(value))
            variables[name] = value
    for name, value in variables.items():
        if "\0" in value:
            raise ContainerConfigError(f"{path}: the value of variable {name} has a NUL byte, which none can have")
    return variables


@dataclass(frozen=True)
class _Scope:
    """The objects, fields and files to which the variables of one container can refer."""

    pod: Pod
    container: Container
    node: NodeContext
    pod_ips: tuple[str, ...]
    sources: Sources

    def from_whole_objects(self, path: str) -> Iterator[tuple[str, str, str, bytes]]:
        """Yield the variables of envFrom: the path of their source, its prefix, the key and the value."""
        for index, source in enumerate(self.container.env_from):
            if (config_map := source.config_map_ref) is not None:
                values = self._object("ConfigMap", config_map.name, bool(config_map.optional))
            elif (secret := source.secret_ref) is not None:
                values = self._object("Secret", secret.name, bool(secret.optional))
            else:
                continue
            for key, value in sorted(values.items() if values is not None else ()):
                yield f"{path}.envFrom[{index}]", source.prefix, key, value

    def services(self) -> dict[str, str]:
        """Return the variables of Services. Raises ObjectMissing."""
        ref = services_ref(self.pod)
        if ref is None:
            return {}
        if (found := self.sources.objects.get(ref)) is None:
            raise ObjectMissing(ref, f"{ref} not found")
        return {name: _text(value) for name, value in found.items()}

    def from_source(self, source: EnvVarSource, path: str) -> str | None:
        """Return a value; None if it is optional and missing."""
        if source.field_ref is not None:
            return field_value(source.field_ref, self.pod, self.node, self.pod_ips, f"{path}.fieldRef")
        if source.resource_field_ref is not None:
            return resource_value(
                source.resource_field_ref, self.pod, self.container, self.node, f"{path}.resourceFieldRef"
            )
        if (config_map := source.config_map_key_ref) is not None:
            return self._key("ConfigMap", config_map.name, config_map.key, bool(config_map.optional))
        if (secret := source.secret_key_ref) is not None:
            return self._key("Secret", secret.name, secret.key, bool(secret.optional))
        if source.file_key_ref is not None:
            return self._file_key(source.file_key_ref)
        raise ContainerConfigError(
            f"{path}: required, one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef"
        )

    def _object(self, kind: Kind, name: str, optional: bool) -> Mapping[str, bytes] | None:
        ref = self._ref(kind, name)
        values = self.sources.objects.get(ref)
        if values is None and not optional:
            raise ObjectMissing(ref, f"{ref} not found")
        return values

    def _key(self, kind: Kind, name: str, key: str, optional: bool) -> str | None:
        values = self._object(kind, name, optional)
        if values is None:
            return None
        if key not in values:
            if optional:
                return None
            ref = self._ref(kind, name)
            raise ObjectMissing(ref, f"couldn't find key {key} in {kind} {ref.namespace}/{name}")
        return _text(values[key])

    def _file_key(self, selector: FileKeySelector) -> str | None:
        """Return a variable from a file of variables; an empty one counts as missing.

        Only a variable is optional, never its file.
        """
        file = self.sources.files.get((selector.volume_name, selector.path))
        if file is None:
            raise ContainerConfigError(
                f"cannot find the volume {go_quote(selector.volume_name)} referenced by FileKeyRef"
            )
        try:
            value = file.variables.value(selector.key) if file.variables is not None else None
        except EnvFileInvalid as invalid:
            raise ContainerConfigError(f"couldn't parse env file: {selector.path}: {invalid}") from invalid
        if value is None:
            raise ContainerConfigError(f"couldn't parse env file: {selector.path}: it cannot be read")
        if value:
            return _text(value)
        if selector.optional:
            return None
        raise ContainerConfigError(
            f"environment variable key {go_quote(selector.key)} not found in file {go_quote(file.path)}"
        )

    def _ref(self, kind: Kind, name: str) -> ObjectRef:
        return ref_for(self.pod, kind, name)


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Turn a TooLong error into a ContainerConfigError with this path."""
    try:
        yield
    except TooLong as wrong:
        raise ContainerConfigError(f"{path}: {wrong}") from None


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
