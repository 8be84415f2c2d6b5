"""What the API server checks before it takes a pod, v1.36, `pkg/apis/core/validation`, ValidatePodCreate.

Every check takes a record with its defaults and the path it stands at, and yields problems; nothing is changed. The
paths are those of the fields at fault, where the API server now and then names the list above.

Stricter than the API server are only checks whose failure a node would otherwise meet later: names that are too long
together for a directory, relative host paths, media and host addresses that do not exist. Milder is one: a token's
service account, which a cluster fills in itself. A field behind a feature gate that is off by default is checked as
though it were on.
"""

from syncpod.pod.validation.data import validate_config_map, validate_secret
from syncpod.pod.validation.pod import validate_pod

__all__ = ["validate_config_map", "validate_pod", "validate_secret"]
