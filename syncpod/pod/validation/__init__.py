"""The API server's validation of new pods: v1.36, `pkg/apis/core/validation`, ValidatePodCreate.

Every check takes a record with its defaults, and its path, and yields problems; nothing is changed. The paths are those
of the invalid fields, where the API server sometimes names the list above.

Some checks are stricter than the API server's, because a node would fail later: names that together are too long for a
directory, relative host paths, unknown media and invalid host addresses. One is less strict: a token's service account,
which a cluster fills in itself. Fields behind a feature gate are checked as if the gate were on.
"""

from syncpod.pod.validation.data import validate_config_map, validate_secret
from syncpod.pod.validation.pod import validate_pod

__all__ = ["validate_config_map", "validate_pod", "validate_secret"]
