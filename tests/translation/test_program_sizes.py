"""The arguments and environment of a small container that references enlarge are limited as in Linux.

Holds: No reference makes a program larger than Linux takes.
"""

from typing import Any

import pytest

from syncpod.agent.probing.run_probe import with_static_variables
from syncpod.handlers.answer import NoAnswer
from syncpod.objects import ObjectRef
from syncpod.pod import Container, Probe
from syncpod.translation import ContainerConfigError
from syncpod.translation.env import Sources
from syncpod.translation.sub_paths import sub_path_texts
from tests.translation.translation import configured, make_container

SECRET = ObjectRef("Secret", "default", "s")
CONFIG = ObjectRef("ConfigMap", "default", "c")
SOURCES = Sources({SECRET: {"k": b"hush" * 25_000}, CONFIG: {f"k{n}": b"" for n in range(30_000)}})
FROM_SECRET = {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a value of a Secret, twice": (
        {"env": [FROM_SECRET, {"name": "F", "value": "$(E)$(E)"}]},
        r"env\[1\].value: must be no more than 131071 bytes .*; it is 200000$",
    ),
    "a value of a Secret, in many variables": (
        {"env": [{**FROM_SECRET, "name": f"E{n}"} for n in range(30)]},
        r"env\[20\]: is too much: command, arguments and environment must be no more than 2097152 bytes together",
    ),
    "the same variable, again and again": ({"env": [FROM_SECRET] * 30}, r"env\[20\]: is too much"),
    "a value of a Secret, in many words": ({"env": [FROM_SECRET], "args": ["$(E)"] * 30}, r"args\[19\]: is too much"),
    "a value of a Secret, twice in a word": ({"env": [FROM_SECRET], "command": ["$(E)$(E)"]}, r"command\[0\]: must be"),
    "a prefix before each of many keys": (
        {"envFrom": [{"prefix": "P" * 10_000, "configMapRef": {"name": "c"}}]},
        r"envFrom\[0\]: is too much",
    ),
    "an object, again and again": ({"envFrom": [{"configMapRef": {"name": "c"}}] * 1000}, r"envFrom\[9\]: is too much"),
}


@pytest.mark.parametrize(("fields", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_program_too_large_is_a_fault_of_the_pods_configuration(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContainerConfigError, match=rf"^spec\.containers\[0\]\.{sentence}") as raised:
        configured(*make_container(fields), sources=SOURCES)
    assert "hush" not in str(raised.value)


def test_a_part_of_a_volume_is_no_longer_than_a_path() -> None:
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(E)"}
    _, container = make_container({"volumeMounts": [mount]}, volumes=[{"name": "v", "emptyDir": {}}])
    with pytest.raises(ContainerConfigError, match=r"^spec\.c\.volumeMounts\[0\]\.subPathExpr: .* 4095 bytes"):
        sub_path_texts(container, {"E": "e" * 4096}, "spec.c")
    assert sub_path_texts(container, {"E": "e" * 4095}, "spec.c") == {0: "e" * 4095}


def test_a_probe_whose_command_became_too_long_for_an_earlier_version_cannot_be_run() -> None:
    container = Container.model_validate({"name": "c", "image": "i", "env": [{"name": "E", "value": "e" * 100_000}]})
    for command in (["$(E)"] * 30, ["$(E)$(E)"]):
        probe = Probe.model_validate({"exec": {"command": command}})
        with pytest.raises(NoAnswer, match="its command "):
            with_static_variables(probe, container)
