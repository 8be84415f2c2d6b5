"""A small manifest that results in a large program is refused, with the path of the field that causes it.

Holds: No reference makes a program larger than Linux takes.
"""

from typing import Any

import pytest

from syncpod.pod import PodInvalid
from syncpod.pod.admission import admit
from syncpod.pod.expansion import LONGEST_PATH, LONGEST_PROGRAM, LONGEST_STRING, TooLong, expand

STRING = (
    f"must be no more than {LONGEST_STRING} bytes with its references replaced, "
    "which is as much as Linux gives a program in one string"
)
PROGRAM = (
    "is too much: command, arguments and environment must be no more than "
    f"{LONGEST_PROGRAM} bytes together with their references replaced, which is as much as Linux gives a program"
)
LONG = [{"name": "E", "value": "e" * 60_000}]
"""A long variable to refer to, which is itself allowed."""
FULL = [{"name": f"E{n}", "value": "e" * 100_000} for n in range(4)]


def doubled(times: int) -> list[dict[str, str]]:
    """Return variables, each with two references to the previous one; the last has 16 bytes, doubled this often."""
    return [{"name": "E0", "value": "0123456789abcdef"}] + [
        {"name": f"E{n}", "value": f"$(E{n - 1})$(E{n - 1})"} for n in range(1, times + 1)
    ]


def problems(**fields: Any) -> list[str]:
    """Return the errors of a pod with one container with these fields."""
    container = {"name": "c", "image": "busybox", **fields}
    volumes = [{"name": "v", "emptyDir": {}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    try:
        admit({**pod, "spec": {"containers": [container], "volumes": volumes}})
    except PodInvalid as invalid:
        return [f"{each.path}: {each.message}" for each in invalid.problems]
    return []


def mounted(expression: str) -> list[dict[str, str]]:
    return [{"name": "v", "mountPath": "/v", "subPathExpr": expression}]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a variable doubled in 26": ({"env": doubled(26)}, f"env[13].value: {STRING}; it is 131076"),
    "a variable doubled in twenty thousand": ({"env": doubled(3000)}, f"env[13].value: {STRING}; it is 131076"),
    "itself, again and again": (
        {"env": [*LONG, *[{"name": "E", "value": "$(E)"}] * 40]},
        f"env[34]: {PROGRAM}",
    ),
    "many references": ({"env": LONG, "args": ["$(E)" * 1000]}, f"args[0]: {STRING}; it is 60000000"),
    "many words": ({"env": LONG, "command": ["$(E)"] * 1000}, f"command[33]: {PROGRAM}"),
    "much environment and many words": (
        {"env": [*FULL, *({"name": f"F{n}", "value": "$(E0)"} for n in range(16))], "args": ["$(E0)"] * 2},
        f"args[0]: {PROGRAM}",
    ),
    "beside what only the node knows": (
        {"env": doubled(20), "envFrom": [{"configMapRef": {"name": "c"}}]},
        f"env[13].value: {STRING}; it is 131076",
    ),
    "the words of a probe": (
        {"env": LONG, "livenessProbe": {"exec": {"command": ["$(E)"] * 1000}}},
        f"livenessProbe.exec.command[34]: {PROGRAM}",
    ),
    "a word of a probe": (
        {"env": LONG, "startupProbe": {"exec": {"command": ["sh", "$(E)" * 3]}}},
        f"startupProbe.exec.command[1]: {STRING}; it is 180000",
    ),
    "a part of a volume": (
        {"env": LONG, "volumeMounts": mounted("$(E)")},
        f"volumeMounts[0].subPathExpr: must be no more than {LONGEST_PATH} bytes with its references replaced; "
        "it is 60000",
    ),
}


@pytest.mark.parametrize(("fields", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_program_too_large_for_linux_is_refused_with_its_fields_path(fields: dict[str, Any], sentence: str) -> None:
    (said,) = problems(**fields)
    assert said.replace(".value: is too much", ": is too much") == f"spec.containers[0].{sentence}"


def test_a_program_of_the_largest_size_is_admitted() -> None:
    assert not problems(env=[{"name": "E", "value": "e" * (LONGEST_STRING - 2)}], args=["$(E)" + "e" * 2])
    assert not problems(env=LONG, readinessProbe={"exec": {"command": ["$(E)"] * 34}}, command=["$(E)"] * 33)
    assert not problems(env=doubled(12))


def test_a_value_that_only_the_node_knows_counts_as_empty() -> None:
    secret = {"name": "E1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    assert not problems(env=[secret, {"name": "E2", "value": "$(E1)" * 50_000}])
    assert not problems(envFrom=[{"configMapRef": {"name": "c"}}], args=["$(ANY)" * 30_000])


def test_a_text_that_would_become_too_long_is_not_made() -> None:
    with pytest.raises(TooLong, match=r"^must be no more than 10 bytes with its references replaced; it is 12$"):
        expand("$(A)" * 2 + "$$$$", {"A": "\u00e4xyz"}, most=10)
    assert expand("$(A)" * 2, {"A": "\u00e4xyz"}, most=10) == "\u00e4xyz" * 2
    huge = {"A": "a" * 100_000_000}
    with pytest.raises(TooLong):
        expand("$(A)" * 1_000_000, huge)  # 100 TB: a process that makes it never ends
