"""The manifests are what the published schemas ask for, and say what the image and the application need."""

import copy
import json

import manifests
import published
import pytest

OF_KUBERNETES = [each for each in manifests.every_object() if "monitoring.coreos.com" not in each["apiVersion"]]


def name(given):
    return f"{given['kind']} {given['metadata']['name']}"


@pytest.mark.parametrize("given", OF_KUBERNETES, ids=name)
def test_every_object_is_what_the_schema_of_kubernetes_asks_for(given):
    assert list(published.errors(given)) == []


def test_the_pod_monitor_is_what_the_schema_of_the_operator_asks_for_and_a_wrong_one_is_not():
    (monitor,) = manifests.objects("podmonitor.yaml")
    assert published.errors_of_operator(monitor) == ""
    wrong = copy.deepcopy(monitor)
    wrong["spec"]["podMetricsEndpoints"] = {"port": "http"}
    assert "podMetricsEndpoints" in published.errors_of_operator(wrong)


def test_a_field_that_does_not_exist_is_refused():
    wrong = copy.deepcopy(manifests.stateful_set())
    wrong["spec"]["template"]["spec"]["containers"][0]["startProbe"] = {}
    assert any("startProbe" in error for error in published.errors(wrong))


def test_there_is_one_replica_whose_state_is_kept():
    spec = manifests.stateful_set()["spec"]
    assert spec["replicas"] == 1
    claims = [each["metadata"]["name"] for each in spec["volumeClaimTemplates"]]
    volumes = [each["name"] for each in spec["template"]["spec"]["volumes"]]
    mounts = {each["mountPath"]: each["name"] for each in manifests.container()["volumeMounts"]}
    assert mounts == {"/state": "state", "/tmp": "tmp"}
    assert sorted(claims + volumes) == sorted(mounts.values())
    assert manifests.environment()["PENSTOCK_STATE_DIR"] == "/state"


def test_it_starts_when_it_is_ready_and_lives_by_the_rule_of_health():
    probes = {
        word: manifests.container()[f"{word}Probe"]["httpGet"]["path"] for word in ("startup", "liveness", "readiness")
    }
    assert probes == {"startup": "/health/ready", "liveness": "/health/live", "readiness": "/health/ready"}
    (port,) = manifests.container()["ports"]
    assert port["name"] == "http"
    assert manifests.environment()["PENSTOCK_ADMIN"].endswith(f":{port['containerPort']}")


def test_pod_and_image_have_one_user_who_may_not_write_to_the_image():
    pod = manifests.stateful_set()["spec"]["template"]["spec"]["securityContext"]
    assert manifests.instruction("USER") == f"{pod['runAsUser']}:{pod['runAsGroup']}"
    assert pod["runAsNonRoot"]
    assert manifests.container()["securityContext"]["readOnlyRootFilesystem"]


def test_the_monitor_selects_the_pods_and_the_port_of_the_manifest():
    (monitor,) = manifests.objects("podmonitor.yaml")
    labels = manifests.stateful_set()["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == manifests.container()["ports"][0]["name"]


def test_the_board_in_the_config_map_is_the_one_for_grafana():
    (config_map,) = manifests.objects("dashboard.yaml")
    board = json.loads((manifests.DEPLOY / "grafana" / "penstock.json").read_text())
    assert json.loads(config_map["data"]["penstock.json"]) == board
