"""The dashboards are up to date with their script, and valid in Grafana's dashboard model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[2] / "deploy" / "grafana"
FILES = sorted(HERE.glob("*.json"))
KNOWN_UNITS = {"short", "s", "bytes", "percentunit", "ops"}
BUILT_IN = {"__rate_interval"}
REQUIRED_OPTIONS = {
    "timeseries": {"legend", "tooltip"},
    "table": {"frameIndex", "showHeader"},
    "stat": {
        *("colorMode", "graphMode", "justifyMode", "textMode", "wideLayout", "orientation", "reduceOptions"),
        *("showPercentChange", "percentChangeColorMode"),
    },
}
"""The options that Grafana's strict parser of dashboards (grafana-foundation-sdk) requires, by the kind of panel."""


def read(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def variables_of(text: str) -> set[str]:
    return set(re.findall(r"\$\{?(\w+)", text))


def test_the_files_are_what_the_script_writes() -> None:
    program = "import dashboards as d; print('\\0'.join(n + d.text(n) for n in sorted(d.DASHBOARDS)), end='')"
    written = subprocess.check_output([sys.executable, "-c", program], cwd=HERE, text=True)
    assert written.split("\0") == [file.stem + file.read_text() for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_dashboard_is_whole(file: Path) -> None:
    found = read(file)
    assert found["uid"] and found["title"] and found["schemaVersion"] >= 39
    variables = {each["name"]: each for each in found["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    assert found["annotations"] == {"list": []}, "Grafana's schema requires it"
    for each in variables.values():
        assert isinstance(each["query"], str), "an object is the form of an editor, and needs more than its query"
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    cells = [cell for panel in panels for cell in cells_of(panel["gridPos"])]
    assert len(set(cells)) == len(cells), "no panel lies on another"
    for panel in panels:
        assert panel["title"] and panel["type"] in ("timeseries", "stat", "table")
        assert panel["fieldConfig"]["defaults"]["unit"] in KNOWN_UNITS
        assert set(panel["options"]) >= REQUIRED_OPTIONS[panel["type"]]
        assert panel["targets"] and len({each["refId"] for each in panel["targets"]}) == len(panel["targets"])
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert target["expr"] and target["legendFormat"]
            assert variables_of(target["expr"]) <= set(variables) | BUILT_IN
            assert 'instance=~"$instance"' in target["expr"], "a query that forgets the variable shows all nodes"
    for place, name in enumerate(names := list(variables)):
        assert variables_of(json.dumps(variables[name].get("definition", ""))) <= set(names[:place])


def cells_of(place: dict[str, int]) -> list[tuple[int, int]]:
    assert place["x"] >= 0 and place["x"] + place["w"] <= 24
    return [(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])]
