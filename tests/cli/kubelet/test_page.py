"""docs/kubelet-configuration.md is up to date with the table. `python -m tests.cli.kubelet.test_page` writes it."""

from __future__ import annotations

from pathlib import Path

from syncpod.cli.kubelet.fields import FIELDS, Field

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "kubelet-configuration.md"
HEAD = """\
# A kubelet's flags and configuration

Generated from `syncpod/cli/kubelet/fields.py`. [The cluster's page](kubernetes.md#in-a-kubelets-place) says how
`syncpod-kubelet` is started. A field that would give pods something else than it asks for is refused, with its path and
the way on, and then nothing starts. One that only tunes is named in a warning. An empty value is always accepted.

| field | flag | effect |
|---|---|---|
"""
DERIVED = {
    "--config": "the file with the configuration",
    "--config-dir": "a directory of drop-ins, `*.conf`, in the order of their names",
    "--root-dir": "the node's state directory is `syncpod` in it",
    "--kubeconfig": "the cluster; without it, a node with static pods alone",
    "--bootstrap-kubeconfig": "joins the cluster if `--kubeconfig` is not there, or its certificate has ended",
    "serializeImagePulls": "one image at a time; `false`: as many as `maxParallelImagePulls`, else five",
    "maxParallelImagePulls": "how many images are pulled at once",
    "imageServiceEndpoint": "must be the runtime's",
    "logging": "its `format`, text or json; other options have no effect",
    "--logging-format": "text or json",
    "evictionHard": "thresholds; those that are not given are none, unless `mergeDefaultEvictionSettings` is true",
    "evictionSoft": "thresholds",
    "mergeDefaultEvictionSettings": "thresholds that are not given keep their defaults",
    "systemReserved": "added to `kubeReserved`, and so much less may be requested: cpu, memory, ephemeral-storage, pid",
    "kubeReserved": "the same",
    "maxPods": "how many pods the node takes; 110 by default",
    "cgroupRoot": "pods' cgroups are below `kubepods` in it",
    "failSwapOn": "as with a kubelet: on a machine with swap, nothing starts unless it is false",
    "failCgroupV1": "if true, nothing starts on a machine with cgroup v1; a kubelet takes true where it is absent",
    "shutdownGracePeriod": "a shutdown of the machine waits so long for pods; needs the extra `syncpod[shutdown]`",
    "shutdownGracePeriodCriticalPods": "so much of it is left to critical pods",
    "shutdownGracePeriodByPodPriority": "instead of both: how long pods from a priority on have",
    "registerWithTaints": "taints of a Node that is made",
    "featureGates": "`PodsAPI`: `SYNCPOD_PODS_API`, off by default; any other is warned about: there is no such switch",
    "healthzPort": "health and metrics, on `healthzBindAddress`; 10248 by default, 0 = none",
    "healthzBindAddress": "127.0.0.1 by default",
}


def rendered() -> str:
    """The page as it is generated from the table now."""
    return HEAD + "".join(f"| {_field(row)} | {_flag(row)} | {_effect(row)} |\n" for row in FIELDS)


def _field(row: Field) -> str:
    return f"`{row.path}`" if row.path else ""


def _flag(row: Field) -> str:
    return f"`--{row.flag}`" if row.flag else ""


def _effect(row: Field) -> str:
    if row.derived:
        return DERIVED[row.path or f"--{row.flag}"]
    if row.variable:
        opened = f"; anything but `{_shown(row.true_for[0])}` with a warning: {row.opens}" if row.opens else ""
        return f"`{row.variable}`{opened}"
    only = " or ".join(f"`{_shown(each)}`" for each in row.true_for)
    if row.refused:
        return f"{f'{only}; anything else' if only else 'any value'} is refused: {row.refused}"
    return f"{f'{only}; ' if only else ''}a warning: {row.warned}"


def _shown(value: object) -> str:
    return (
        str(value).lower() if isinstance(value, bool) else ", ".join(value) if isinstance(value, list) else str(value)
    )


def test_the_page_says_what_the_table_says() -> None:
    assert DOCUMENT.read_text() == rendered()


def test_each_derived_field_has_its_sentence() -> None:
    assert set(DERIVED) == {row.path or f"--{row.flag}" for row in FIELDS if row.derived}


if __name__ == "__main__":
    DOCUMENT.write_text(rendered())
