"""The result of every manifest is as in docs/manifests.md. `python -m qa.manifests.table` writes that page."""

from __future__ import annotations

import pytest

from qa.manifests import documentation, examples
from qa.manifests.cases import Case, Manifests, Outcome, Row
from qa.manifests.fewest import DOCUMENTED, EXEMPLIFIED, fewest, fields
from qa.manifests.running import Run
from qa.manifests.stand_ins import STAND_INS, named_images
from qa.manifests.table import DOCUMENT, LIST, expected, listed, written
from tests.runtimes.containerd import Containerd
from tests.runtimes.require import Missing, do_without
from tests.runtimes.runtime import Runtime

TOLD = DOCUMENT.read_text()


@pytest.mark.parametrize("case", DOCUMENTED.cases, ids=lambda case: case.path)
async def test_a_documented_manifest_has_its_documented_result(
    documented: Run, containerd: Containerd, case: Case
) -> None:
    try:
        row = await documented.row(case)
    except Missing as missing:
        do_without("docker-registry", str(missing))
    assert row == expected(TOLD, containerd.name)[case.path]


@pytest.mark.parametrize("case", EXEMPLIFIED.cases, ids=lambda case: case.path)
async def test_an_example_manifest_has_its_documented_result(exemplified: Run, runtime: Runtime, case: Case) -> None:
    assert await exemplified.row(case) == expected(TOLD, runtime.name)[case.path]


@pytest.mark.parametrize("manifests", [documentation.MANIFESTS, examples.MANIFESTS], ids=["documentation", "examples"])
def test_every_manifest_has_a_case_in_a_namespace_of_its_own(manifests: Manifests) -> None:
    found = (path for path in manifests.directory.rglob("*") if path.suffix in (".yaml", ".json"))
    files = sorted(str(path.relative_to(manifests.directory)) for path in found)
    assert sorted(case.path for case in manifests.cases) == files
    assert len({case.namespace for case in manifests.cases}) == len(files)


def test_what_the_usual_run_leaves_out_has_no_field_that_it_does_not_try() -> None:
    of_all, tried = (
        frozenset().union(*(fields(manifests, case) for manifests in each for case in manifests.cases))
        for each in ((documentation.MANIFESTS, examples.MANIFESTS), (DOCUMENTED, EXEMPLIFIED))
    )
    assert of_all == tried
    assert {"Pod.spec.restartPolicy=Never", "Pod.spec.containers[].livenessProbe.httpGet.path"} < tried
    wide, narrow, other = frozenset("abc"), frozenset("ab"), frozenset("cd")
    assert fewest([(narrow, "narrow"), (wide, "wide"), (other, "other")]) == ["wide", "other"]


def test_stand_in_images_are_exactly_those_of_the_manifests() -> None:
    texts = [path.read_text() for path in documentation.DIRECTORY.rglob("*.yaml")]
    assert {image for text in texts for image in named_images(text)} == STAND_INS.keys()


def test_the_documents_are_up_to_date() -> None:
    assert written(TOLD, {}) == TOLD
    assert listed(LIST.read_text()) == LIST.read_text()


def test_results_common_to_all_runtimes_are_listed_once() -> None:
    path = documentation.MANIFESTS.cases[0].path
    both, other = Row(path, Outcome.AS_DESCRIBED, "a | b"), Row(path, Outcome.REFUSED, "a <b> ⏎ `c`")
    shared = written(TOLD, {"containerd23": {path: both}, "containerd16": {path: both}})
    apart = written(shared, {"containerd16": {path: other}})
    assert shared.count(f"[`{path}`]") == 1 and apart.count(f"[`{path}`]") == 2
    assert [expected(text, "containerd16")[path] for text in (shared, apart)] == [both, other]
    assert [expected(text, "containerd23")[path] for text in (shared, apart)] == [both, both]
