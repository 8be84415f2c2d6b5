"""Decides for which present images a pod must have credentials before it may use them.

Mirrors images/pullmanager/image_pull_policies.go, v1.36. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from syncpod.pod import parse_image_name

NEVER_VERIFY: Final = "NeverVerify"
NEVER_VERIFY_PRELOADED: Final = "NeverVerifyPreloadedImages"
NEVER_VERIFY_ALLOWLISTED: Final = "NeverVerifyAllowlistedImages"
ALWAYS_VERIFY: Final = "AlwaysVerify"

POLICIES: Final = (NEVER_VERIFY, NEVER_VERIFY_PRELOADED, NEVER_VERIFY_ALLOWLISTED, ALWAYS_VERIFY)


class VerificationInvalid(ValueError):
    """A policy or a pattern is invalid; the text names it and describes a valid one."""


@dataclass(frozen=True)
class Verification:
    """The node's imagePullCredentialsVerificationPolicy and preloadedImagesVerificationAllowlist.

    Raises VerificationInvalid for values that the kubelet would refuse.
    """

    policy: str = NEVER_VERIFY_PRELOADED
    allowed: tuple[str, ...] = ()
    """Image names as pods write them, without tag and digest; a trailing `/*` matches every name with the prefix before
    it."""

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise VerificationInvalid(f"{self.policy!r}: must be {', '.join(POLICIES[:-1])} or {POLICIES[-1]}")
        if self.allowed and self.policy != NEVER_VERIFY_ALLOWLISTED:
            raise VerificationInvalid(f"a list of images goes with {NEVER_VERIFY_ALLOWLISTED} only, not {self.policy}")
        for pattern in self.allowed:
            _check_pattern(pattern)

    def is_needed(self, image: str, *, pulled_by_us: bool) -> bool:
        """Return whether a pod that uses a present image by this name must have its credentials verified."""
        match self.policy:
            case "NeverVerify":
                return False
            case "NeverVerifyPreloadedImages":
                return pulled_by_us
            case "NeverVerifyAllowlistedImages":
                return not self._allows(without_tag_and_digest(image))
            case _:
                return True

    def _allows(self, name: str) -> bool:
        return any(
            name.startswith(pattern[:-1]) if pattern.endswith("/*") else name == pattern for pattern in self.allowed
        )


def without_tag_and_digest(image: str) -> str:
    """Return an image's name without tag and digest (trimImageTagDigest); an invalid name is returned unchanged.

    Nothing is added, so `busybox` and `docker.io/library/busybox` are different names.
    """
    name = parse_image_name(image)
    if name is None:
        return image
    shorter = image.removesuffix(f"@{name.digest}") if name.digest else image
    return shorter.removesuffix(f":{name.tag}") if name.tag else shorter


def _check_pattern(pattern: str) -> None:
    """Raise VerificationInvalid for a pattern that matches no image (getAllowlistImagePattern)."""
    if pattern.endswith("/*"):
        name, is_one = pattern[:-2], len(pattern) > 2
    else:
        name, is_one = pattern, parse_image_name(pattern) is not None and without_tag_and_digest(pattern) == pattern
    if not is_one or "*" in name or pattern != pattern.strip():
        raise VerificationInvalid(
            f"{pattern!r}: must be an image's name without tag and digest, or the beginning of one with /* after it"
        )
