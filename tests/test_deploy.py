"""The files in deploy/: everything that they refer to exists, and they agree with each other."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")

from fastapi.testclient import TestClient  # noqa: E402

from guided.cli import serve  # noqa: E402
from guided.integrations import ray_serve  # noqa: E402
from guided.server.app import create_app  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
TEXT = (DEPLOY / "kubernetes.yaml").read_text("utf-8")
OBJECTS = {each["kind"]: each for each in yaml.safe_load_all(TEXT)}
POD = OBJECTS["Deployment"]["spec"]["template"]
SPEC = POD["spec"]
(CONTAINER,) = SPEC["containers"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")


def of_dockerfile(instruction: str) -> str:
    (found,) = re.findall(rf"^{instruction} (.*)$", DOCKERFILE, re.MULTILINE)
    return found


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options as `guided serve` reads them, without abbreviations."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    serve.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(small_engine())) as found:
        yield found


def test_the_flags_match_the_command():
    found = parsed(CONTAINER["args"])
    assert {"name": "http", "containerPort": found.port} in CONTAINER["ports"]
    assert found.host == parsed(json.loads(of_dockerfile("CMD"))).host == "0.0.0.0"
    assert json.loads(of_dockerfile("ENTRYPOINT")) == ["guided", "serve"]
    assert int(of_dockerfile("EXPOSE")) == found.port
    assert str(found.threads) == CONTAINER["resources"]["requests"]["cpu"]
    mounted = {mount["mountPath"] for mount in CONTAINER["volumeMounts"] if mount.get("readOnly")}
    assert {str(Path(found.model).parent), str(Path(found.api_key_file).parent)} == mounted


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_a_probe_asks_a_route(client, probe):
    asked = CONTAINER[probe]["httpGet"]
    assert asked["port"] == "http" and client.get(asked["path"]).status_code == 200


def test_the_probes_see_an_engine_that_has_stopped():
    with TestClient(create_app(small_engine()), raise_server_exceptions=False) as client:
        client.app.state.server.engine.scheduler.step = lambda: 1 / 0
        assert client.post("/v1/completions", json={"prompt": "a", "max_tokens": 2}).status_code == 503
        for probe in ("readinessProbe", "livenessProbe"):
            assert client.get(CONTAINER[probe]["httpGet"]["path"]).status_code == 503


def test_the_end_of_a_pod_leaves_time_for_open_requests():
    command = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    needed = int(command[1]) + parsed(CONTAINER["args"]).shutdown_timeout + serve._END_SECONDS
    assert needed < SPEC["terminationGracePeriodSeconds"]


def test_references_are_to_what_is_there():
    labels = POD["metadata"]["labels"]
    deployment, service, budget = (OBJECTS[kind] for kind in ("Deployment", "Service", "PodDisruptionBudget"))
    selectors = [each["spec"]["selector"]["matchLabels"] for each in (deployment, budget)]
    selectors += [service["spec"]["selector"], SPEC["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]]
    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]
    scaled = OBJECTS["HorizontalPodAutoscaler"]["spec"]
    target = scaled["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"], target["name"]) == ("apps/v1", "Deployment", "guided")
    assert deployment["metadata"]["name"] == "guided"
    assert scaled["minReplicas"] <= deployment["spec"]["replicas"] <= scaled["maxReplicas"]
    volumes = {volume["name"]: volume for volume in SPEC["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes.keys()
    claim = volumes["models"]["persistentVolumeClaim"]["claimName"]
    assert claim == OBJECTS["PersistentVolumeClaim"]["metadata"]["name"]
    secret, file = volumes["keys"]["secret"]["secretName"], Path(parsed(CONTAINER["args"]).api_key_file).name
    assert f"kubectl create secret generic {secret} --from-file={file}=" in TEXT


def test_it_runs_without_rights():
    """Everything that it writes is mounted, since its own files are read-only."""
    assert SPEC["securityContext"]["runAsNonRoot"] is True
    assert SPEC["securityContext"]["runAsUser"] == int(of_dockerfile("USER")) > 0
    container = CONTAINER["securityContext"]
    assert container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    written = dict(pair.split("=") for pair in shlex.split(of_dockerfile("ENV")))
    paths = {mount["mountPath"] for mount in CONTAINER["volumeMounts"] if not mount.get("readOnly")}
    assert {written["GUIDED_CACHE"], written["HOME"]} == paths == {"/cache", "/tmp"}


def test_the_autoscaler_uses_a_metric_that_exists(client):
    annotations = POD["metadata"]["annotations"]
    (metric,) = OBJECTS["HorizontalPodAutoscaler"]["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"].replace("vllm_", "vllm:", 1)
    told = client.get(annotations["prometheus.io/path"])
    if told.status_code == 404:
        pytest.skip("this server has no metrics yet")
    assert re.search(rf"^{name}(\{{| )", told.text, re.MULTILINE)
    assert annotations["prometheus.io/port"] == str(CONTAINER["ports"][0]["containerPort"])


def test_the_files_for_the_image_exist():
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    project = (DEPLOY.parent / "pyproject.toml").read_text("utf-8")
    assert all((DEPLOY.parent / path).exists() for path in kept)
    installed = re.findall(r"install\(DIRECTORY (\w+)/", (DEPLOY.parent / "CMakeLists.txt").read_text("utf-8"))
    assert installed == ["grammars"], "CMake says nothing where it finds no such folder"
    assert {"CMakeLists.txt", "README.md", "pyproject.toml", "guided", "LICENSE", *installed} == set(kept)
    assert 'readme = "README.md"' in project and '\nserve = ["guided-decoding[engine]"' in project


def test_the_configuration_of_ray_serve(monkeypatch):
    configuration = yaml.safe_load((DEPLOY / "ray.yaml").read_text("utf-8"))
    (application,) = configuration["applications"]
    module, _, name = application["import_path"].partition(":")
    monkeypatch.setattr(ray_serve, "build", lambda model, **options: (model, options))
    model, options = getattr(importlib.import_module(module), name)(application["args"])
    assert model == "smollm2-135m-instruct" and options["affinity"] is True and "num_replicas" not in options
    assert [each["name"] for each in application["deployments"]] == ["guided"]
    if importlib.util.find_spec("ray"):
        from ray.serve.schema import ServeDeploySchema

        assert ServeDeploySchema.model_validate(configuration).applications[0].name == "guided"
