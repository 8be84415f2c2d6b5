"""Environment variables and the sources of their values."""

from syncpod.pod.wire import Flag, Model, QuantityText


class ObjectFieldSelector(Model):
    """A field of the pod itself."""

    api_version: str = ""
    field_path: str = ""


class ResourceFieldSelector(Model):
    """A request or limit of a container, divided and rounded up."""

    container_name: str = ""
    resource: str = ""
    divisor: QuantityText | None = None


class ConfigMapKeySelector(Model):
    """One key of a ConfigMap."""

    name: str = ""
    key: str = ""
    optional: Flag | None = None


class SecretKeySelector(Model):
    """One key of a Secret."""

    name: str = ""
    key: str = ""
    optional: Flag | None = None


class FileKeySelector(Model):
    """One variable in a file of a volume."""

    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: Flag | None = None


class EnvVarSource(Model):
    """The source of a variable's value: exactly one field is set."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Model):
    """One environment variable, by value or by source."""

    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(Model):
    """A ConfigMap whose every key becomes a variable."""

    name: str = ""
    optional: Flag | None = None


class SecretEnvSource(Model):
    """A Secret whose every key becomes a variable."""

    name: str = ""
    optional: Flag | None = None


class EnvFromSource(Model):
    """A set of variables taken from one ConfigMap or Secret."""

    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None
