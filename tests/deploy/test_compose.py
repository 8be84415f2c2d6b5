"""docker-compose.yml, the Dockerfile and the files that they mount are consistent with the project."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path, PurePath
from typing import Any, get_args

import jsonschema
import pytest
import yaml

from syncpod.cli.machine.dev_server import DYNAMIC_CONFIGURATION
from syncpod.telemetry import Signal
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_cluster import VERSION

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
WORKER = SERVICES["worker"]


def test_the_compose_file_keeps_to_the_compose_specification() -> None:
    schema = json.loads((HERE / "compose-spec.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(COMPOSE)] == []


@pytest.mark.parametrize("service", [name for name, service in SERVICES.items() if "image" in service])
def test_every_variable_is_one_that_the_image_reads(service: str) -> None:
    known = json.loads((HERE / "image-settings.json").read_text())
    image = SERVICES[service]["image"].partition(":")[0]
    assert set(SERVICES[service]["environment"]) - set(known[image]) == set()


@pytest.mark.parametrize("service", SERVICES)
def test_every_value_in_an_environment_is_a_string(service: str) -> None:
    """YAML would make a number of 5432 and a boolean of no, which compose takes or refuses by version."""
    assert [value for value in SERVICES[service]["environment"].values() if not isinstance(value, str)] == []


def test_the_collector_takes_each_signal_that_a_node_exports_to_it() -> None:
    settings = yaml.safe_load((ROOT / "deploy" / "otel-collector.yml").read_text())
    taken = {name for name, pipeline in settings["service"]["pipelines"].items() if "otlp" in pipeline["receivers"]}
    assert taken == set(get_args(Signal))


def test_every_port_is_published_on_the_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert [port for port in published if not port.startswith(("127.0.0.1:", "${GATE_ADDRESS:-127.0.0.1}:"))] == []


@pytest.mark.parametrize("service", SERVICES)
def test_every_dependency_has_a_health_check_or_runs_to_completion(service: str) -> None:
    for name, dependency in SERVICES[service].get("depends_on", {}).items():
        if dependency["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[name], name
        else:
            assert dependency["condition"] == "service_completed_successfully"
            assert SERVICES[name]["restart"].startswith("on-failure"), name


def test_all_services_use_the_same_password() -> None:
    environments = {name: service["environment"] for name, service in SERVICES.items()}
    assert (
        environments["postgresql"]["POSTGRES_PASSWORD"]
        == environments["temporal-schema"]["SQL_PASSWORD"]
        == environments["temporal"]["POSTGRES_PWD"]
    )


def test_compose_refuses_to_start_without_a_password() -> None:
    """Compose ends with the sentence where the variable is missing or empty."""
    variables = re.findall(
        r"(?<!\$)\$\{?(\w+)([^}]*)\}?", (ROOT / "docker-compose.yml").read_text().partition("name:")[2]
    )
    assert {name for name, _ in variables} == {"POSTGRES_PASSWORD", "GATE_NAME", "GATE_ADDRESS"}
    for name, otherwise in variables:
        assert otherwise.startswith(":?choose the password" if name == "POSTGRES_PASSWORD" else ":-")


def test_every_image_is_named_by_digest() -> None:
    named = [service["image"] for service in SERVICES.values() if "image" in service]
    named += re.findall(r"^FROM (\S+:\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(named) == 9
    assert [image for image in named if not re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image)] == []


def test_the_temporal_images_are_of_the_versions_of_the_tests_own_server() -> None:
    said = subprocess.check_output([Path(sys.executable).parent / "temporal", "--version"], text=True)
    (server, ui) = re.findall(r"(?:Server|UI) ([0-9.]+)", said)
    tags = {
        name: service["image"].partition("@")[0].partition(":")[2]
        for name, service in SERVICES.items()
        if "image" in service
    }
    assert {name: tag for name, tag in tags.items() if name.startswith("temporal")} == {
        "temporal": server,
        "temporal-schema": server,
        "temporal-namespace": server,
        "temporal-ui": ui,
    }
    assert VERSION.rpartition(".")[0] == server.rpartition(".")[0], "that which the tests of a cluster run"


def test_the_image_runs_as_nobody_and_contains_no_package_installer() -> None:
    """The node agent is root by the compose file, on a file system that it cannot change."""
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    assert "--without-pip" in stages[-2] and "requirements-dev.txt" not in stages[-2]
    assert "pip uninstall --yes" in stages[-1] and "\nUSER 65532:65532\n" in stages[-1]
    assert (WORKER["user"], WORKER["read_only"], WORKER["tmpfs"]) == ("0:0", True, ["/tmp"])


def _as_docker(directory: Path, answer: str) -> dict[str, str]:
    """An environment in which `docker` calls no registry, and prints this answer."""
    docker = directory / "docker"
    docker.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "buildx imagetools inspect" ] && echo "{answer}"\n')
    docker.chmod(0o755)
    return os.environ | {"PATH": f"{directory}:{os.environ['PATH']}"}


def test_either_all_image_digests_are_renewed_or_none(tmp_path: Path) -> None:
    for name in ("docker-compose.yml", "Dockerfile"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    command = ["/bin/sh", str(ROOT / "deploy" / "pin_images.sh"), str(tmp_path)]
    before = (tmp_path / "Dockerfile").read_text()
    refused = subprocess.run(command, env=_as_docker(tmp_path, "nothing"), capture_output=True, text=True, check=False)
    assert (refused.returncode, (tmp_path / "Dockerfile").read_text()) == (1, before)
    assert "the registry's answer is no digest: nothing" in refused.stderr
    digest = f"sha256:{'a1' * 32}"
    done = subprocess.run(command, env=_as_docker(tmp_path, digest), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    renewed = yaml.safe_load((tmp_path / "docker-compose.yml").read_text())["services"]
    assert {service["image"].partition("@")[2] for service in renewed.values() if "image" in service} == {digest}
    assert f"FROM python:3.13-slim@{digest} AS base" in (tmp_path / "Dockerfile").read_text()


def test_prometheus_finds_the_node_where_the_worker_serves_its_metrics() -> None:
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    targets = {target for job in scraped for config in job["static_configs"] for target in config["targets"]}
    assert targets == {WORKER["command"][WORKER["command"].index("--metrics-address") + 1]}
    assert SERVICES["prometheus"]["network_mode"] == WORKER["network_mode"] == "host"


def test_no_invitation_is_written_where_files_are_read_only() -> None:
    """A command that the file tells people to run has been run as it stands there."""
    text = (ROOT / "docker-compose.yml").read_text()
    (command,) = re.findall(r"^  #   (docker compose exec .*fleet invite.*)$", text, re.MULTILINE)
    assert SERVICES["fleet-gate"]["read_only"] and WORKER["read_only"]
    assert command.partition(" | ")[0].endswith(" -o -") and command.endswith("syncpod join -")


def test_the_server_takes_the_polls_of_a_fleets_nodes() -> None:
    assert "./deploy/fleet-dynamicconfig.yaml:/deploy/dynamicconfig.yaml:ro" in SERVICES["temporal"]["volumes"]


def test_a_fleet_and_what_observes_start_only_when_asked_for() -> None:
    by_profile: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        for profile in service.get("profiles", ["always"]):
            by_profile.setdefault(profile, set()).add(name)
    assert by_profile.pop("always") >= {"postgresql", "temporal", "temporal-ui", "worker"}
    assert by_profile == {
        "fleet": {"fleet-worker", "fleet-gate"},
        "observe": {"otel-collector", "prometheus", "grafana"},
    }


def test_grafana_has_every_dashboard_of_the_project() -> None:
    dashboards = {path.name for path in (ROOT / "deploy" / "grafana").glob("*.json")}
    mounted = {PurePath(volume.partition(":")[0]).name for volume in SERVICES["grafana"]["volumes"]}
    assert dashboards <= mounted


def test_every_file_mounted_from_the_project_exists() -> None:
    sources = [
        volume.partition(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if isinstance(volume, str) and volume.startswith("./")
    ]
    assert sources
    assert [source for source in sources if not (ROOT / source).is_file()] == []


def test_the_worker_mounts_host_directories_at_their_host_paths() -> None:
    pairs = dict(
        (volume["source"], volume["target"]) if isinstance(volume, dict) else volume.split(":")[:2]
        for volume in WORKER["volumes"]
    )
    memory = WORKER["environment"]["SYNCPOD_MEMORY_DIR"]
    logs = {"/var/log/pods", "/var/log/containers"}
    # The images' directory as reported by the runtime, where their disk is measured.
    runtime = {"/run/containerd", "/var/lib/containerd"}
    needed = {*runtime, *logs, "/var/lib/syncpod", memory, "/sys/fs/cgroup", "/etc/machine-id"}
    assert pairs == {path: path for path in needed}
    assert (WORKER["pid"], WORKER["network_mode"], WORKER["uts"]) == ("host", "host", "host")
    socket = WORKER["environment"]["CONTAINER_RUNTIME_ENDPOINT"].removeprefix("unix://")
    assert PurePath(socket).is_relative_to("/run/containerd")


def test_volumes_propagate_to_the_runtime_and_secrets_stay_in_memory() -> None:
    (state,) = [volume for volume in WORKER["volumes"] if isinstance(volume, dict)]
    assert (state["source"], state["bind"]["propagation"]) == ("/var/lib/syncpod", "rshared")
    assert WORKER["privileged"], "mounting takes CAP_SYS_ADMIN"
    assert WORKER["environment"]["SYNCPOD_MEMORY_DIR"].startswith("/run/")


def test_the_worker_connects_to_the_published_temporal_address() -> None:
    address = WORKER["environment"]["TEMPORAL_ADDRESS"]
    assert f"{address}:7233" in SERVICES["temporal"]["ports"]


def test_the_server_settings_are_those_of_the_test_server() -> None:
    settings = yaml.safe_load((ROOT / "deploy" / "dynamicconfig.yaml").read_text())
    # A dev server is given the search attributes at its start; here the worker registers them, and needs them at once.
    given = {"system.forceSearchAttributesCacheRefreshOnRead"}
    expected = {key: value for key, value in DYNAMIC_CONFIGURATION.items() if key not in given}
    assert {key: str(values[0]["value"]) for key, values in settings.items()} == expected
    assert all(len(values) == 1 for values in settings.values())


def test_a_fleets_settings_are_those_and_the_polls_of_its_nodes() -> None:
    settings = yaml.safe_load((ROOT / "deploy" / "fleet-dynamicconfig.yaml").read_text())
    (polls,) = settings.pop("frontend.namespaceCount")
    assert polls["value"] > 2 * 2000
    assert settings == yaml.safe_load((ROOT / "deploy" / "dynamicconfig.yaml").read_text())


def test_the_image_copies_every_package_of_the_wheel() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert set(wheel["only-include"]) <= copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    context = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied == {line.removeprefix("!") for line in context if line.startswith("!")}


def test_the_namespace_script_creates_the_namespace_and_can_be_repeated(temporal_server: DevServer) -> None:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": temporal_server.address,
        "TEMPORAL_NAMESPACE": "made-by-script",
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "RETENTION": "48h",
    }

    def run(*command: str | Path) -> str:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    for _ in range(2):
        run("/bin/sh", ROOT / "deploy" / "namespace.sh")
    described = run("temporal", "operator", "namespace", "describe", "--output", "json")
    assert json.loads(described)["config"]["workflowExecutionRetentionTtl"] == "172800s"
