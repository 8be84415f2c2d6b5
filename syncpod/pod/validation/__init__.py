"""What the API server checks before it takes a pod, v1.36, `pkg/apis/core/validation`, ValidatePodCreate.

Every check takes a record with its defaults and the path it stands at, and yields problems; nothing is changed.
"""

from syncpod.pod.validation.data import validate_config_map, validate_secret
from syncpod.pod.validation.pod import validate_pod

__all__ = ["validate_config_map", "validate_pod", "validate_secret"]
