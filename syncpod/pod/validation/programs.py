"""Checks of how large a container's command, arguments and environment are once their references are replaced.

Only sizes are computed, without replacing a reference: the result of a manifest of half a MiB could have many GiB. A
value that only the node has, such as a Secret's, counts as empty. The node checks again, with all values
(`syncpod.translation.env`).
"""

from collections.abc import Iterator

from syncpod.pod.containers import Container
from syncpod.pod.expansion import (
    LONGEST_PATH,
    ProgramSize,
    TooLong,
    expanded_size,
    references,
    size_of,
)
from syncpod.pod.problems import Problem


def check_program(container: Container, path: str) -> Iterator[Problem]:
    """Check the container's own program, the commands of its probes, and its mounts' subPathExpr."""
    sizes: dict[str, int] = {}
    yield from _check_main_program(container, sizes, path)
    for index, mount in enumerate(container.volume_mounts):
        if (size := expanded_size(mount.sub_path_expr, sizes)) > LONGEST_PATH:
            sentence = f"must be no more than {LONGEST_PATH} bytes with its references replaced; it is {size}"
            yield Problem(f"{path}.volumeMounts[{index}].subPathExpr", sentence)
    # A probe's command is given the values as they are written (container/helpers.go, v1.36,
    # ExpandContainerCommandOnlyStatic).
    written = {variable.name: size_of(variable.value) for variable in container.env}
    for name, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is not None and probe.exec is not None:
            here = f"{path}.{name}.exec.command"
            yield from _check_words(probe.exec.command, written, ProgramSize(), here)


def _check_main_program(container: Container, sizes: dict[str, int], path: str) -> Iterator[Problem]:
    """Check environment, command and arguments, up to the first problem; add the size of each variable to `sizes`."""
    if container.env_from:  # any name may have a value then
        texts = (*container.command, *container.args, *(variable.value for variable in container.env))
        sizes.update((name, 0) for text in texts for name in references(text))
    program = ProgramSize()
    for index, variable in enumerate(container.env):
        size = expanded_size(variable.value, sizes)
        try:
            program.add(size_of(variable.name) + 1 + size)
        except TooLong as wrong:
            yield Problem(f"{path}.env[{index}].value", str(wrong))
            return
        sizes[variable.name] = size
    for field, words in (("command", container.command), ("args", container.args)):
        yield from _check_words(words, sizes, program, f"{path}.{field}")


def _check_words(words: tuple[str, ...], sizes: dict[str, int], program: ProgramSize, path: str) -> Iterator[Problem]:
    """Check a command's words, up to the first that is too long."""
    for index, word in enumerate(words):
        try:
            program.add(expanded_size(word, sizes))
        except TooLong as wrong:
            yield Problem(f"{path}[{index}]", str(wrong))
            return
