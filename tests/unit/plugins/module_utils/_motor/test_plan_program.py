# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for programs: what they change, in which order, and that a live program as it is wanted needs none; what ends a wait for pods."""

from __future__ import annotations

import base64
import copy
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import plan_program, program_state, programs, terminal
from ansible_collections.ascend.mindie.plugins.module_utils._motor import pods as pod_facts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.certificates import Serving
from ansible_collections.ascend.mindie.plugins.module_utils._motor.compare import differences
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import is_ours, metadata_labels, program_labels
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import AVAILABLE, Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_program import Live
from ansible_collections.ascend.mindie.plugins.module_utils._motor.programs import NAMESPACES, Program, ServedApi, key_of
from ansible_collections.ascend.mindie.plugins.module_utils._motor.terminal import Symptom

PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
PROGRAM = Program(
    name="watcher",
    namespace="system",
    image="image:1",
    archive=base64.b64encode(b"code").decode(),
    settings="{}\n",
    port=8080,
    rights={"": PODS, "chat": PODS, "search": PODS},
)


def stored(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """As the API server has it."""
    found = copy.deepcopy(obj)
    found["metadata"].update(uid=f"uid-{obj['kind']}", resourceVersion="1", **metadata)
    return found


def live(program: Program, **changes: Any) -> Live:
    """A program that is installed."""
    objects = {key_of(obj): stored(obj) for obj in programs.objects(program)}
    return replace(Live(program.name, program.namespace, objects), **changes)


def present(found: Live, program: Program = PROGRAM) -> Plan:
    return plan_program.plan_present(found, program, create_namespace=False)


def kinds(plan: Plan) -> list[tuple[str, str]]:
    return [(action["verb"], action["kind"]) for action in plan.actions()]


def test_a_program_that_is_as_wanted_needs_nothing() -> None:
    assert present(live(PROGRAM)).empty


def test_what_others_refer_to_is_created_first_and_pods_are_started_last() -> None:
    plan = present(Live("watcher", "system", {}, {"chat": {"metadata": {}}, "system": {"metadata": {}}}))
    order = [kind for dummy, kind in kinds(plan)]
    assert order[0] == "ConfigMap" and order[-1] == "Deployment"
    for referring, referred in (("RoleBinding", "Role"), ("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "ServiceAccount")):
        assert order.index(referring) > max(place for place, kind in enumerate(order) if kind == referred)
    steps = {write.kind: number for number, step in enumerate(plan.steps) for write in step.writes}
    assert steps["Role"] < steps["RoleBinding"] < steps["Deployment"], "they are not sent at once"


def test_namespaces_are_remembered_before_there_is_anything_in_them_and_until_nothing_is() -> None:
    fewer = replace(PROGRAM, rights={"": PODS, "search": PODS, "new": PODS})
    plan = present(live(PROGRAM), fewer)
    first, last = plan.steps[0].writes[0], plan.steps[-1].writes[0]
    assert json.loads(first.body["metadata"]["annotations"][NAMESPACES]) == ["chat", "new", "search"]
    assert [json.loads(operation["value"]) for operation in last.body] == [["chat", "new", "search"], ["new", "search"]]
    assert last.body[0]["op"] == "test", "somebody else may have remembered more"
    assert kinds(plan)[-3:] == [("delete", "RoleBinding"), ("delete", "Role"), ("update", "ConfigMap")]


def test_a_damaged_memory_is_written_anew() -> None:
    found = live(PROGRAM)
    for text in ("no json", '{"a": 1}', "[1]"):
        found.objects["ConfigMap", "system", "watcher"]["metadata"]["annotations"][NAMESPACES] = text
        plan = present(found)
        assert kinds(plan) == [("update", "ConfigMap")]
        assert json.loads(plan.steps[0].writes[0].body["metadata"]["annotations"][NAMESPACES]) == ["chat", "search"]


@pytest.mark.parametrize(
    "field", ["image", "settings", "archive", "port", "node_selector", "tolerations", "image_pull_secrets", "resources"]
)
def test_whatever_pods_are_started_from_is_in_their_checksum(field: str) -> None:
    other: dict[str, Any] = {
        "image": "image:2",
        "settings": "{1}\n",
        "archive": base64.b64encode(b"more").decode(),
        "port": 9090,
        "node_selector": {"a": "b"},
        "tolerations": ({"operator": "Exists"},),
        "image_pull_secrets": ("secret",),
        "resources": {},
    }
    changed = replace(PROGRAM, **{field: other[field]})
    assert programs.checksum(programs.deployment(changed)) != programs.checksum(programs.deployment(PROGRAM))
    assert "Deployment" in {kind for dummy, kind in kinds(present(live(PROGRAM), changed))}


@pytest.mark.parametrize("change", [{"replicas": 3}, {"service": False}, {"rights": {}}])
def test_nothing_else_is(change: dict[str, Any]) -> None:
    changed = replace(PROGRAM, **change)
    assert programs.checksum(programs.deployment(changed)) == programs.checksum(programs.deployment(PROGRAM))


def test_an_option_that_is_not_given_any_more_is_taken_back() -> None:
    before = replace(PROGRAM, node_selector={"a": "b"}, tolerations=({"operator": "Exists"},), image_pull_secrets=("secret",))
    plan = present(live(before))
    (body,) = [write.body for step in plan.steps for write in step.writes if write.kind == "Deployment"]
    spec = body["spec"]["template"]["spec"]
    assert (spec["nodeSelector"], spec["tolerations"], spec["imagePullSecrets"]) == ({}, [], [])


def test_pods_go_first_and_the_memory_last() -> None:
    lease = {"kind": "Lease", "metadata": {"name": "watcher", "namespace": "system", "uid": "lease"}}
    found = live(PROGRAM)
    plan = plan_program.plan_absent(replace(found, objects={**found.objects, ("Lease", "system", "watcher"): lease}))
    order = kinds(plan)
    assert order[0] == ("delete", "Deployment") and order[-1] == ("delete", "ConfigMap") and ("delete", "Lease") in order
    assert plan.steps[0].until == "absent" and plan.steps[0].always and plan.steps[0].writes[0].propagation == "Foreground"
    assert all(write.preconditions["uid"] for step in plan.steps for write in step.writes)


def test_a_lease_alone_is_not_known_to_be_the_programs() -> None:
    lease = {"kind": "Lease", "metadata": {"name": "watcher", "namespace": "system", "uid": "lease"}}
    assert plan_program.plan_absent(Live("watcher", "system", {("Lease", "system", "watcher"): lease})).empty


def test_a_deployment_that_is_going_is_not_deleted_again_and_its_lease_goes_after_it() -> None:
    found = live(PROGRAM)
    key = ("Deployment", "system", "watcher")
    going = stored(found.objects[key], deletionTimestamp="now")
    lease = {"kind": "Lease", "metadata": {"name": "watcher", "namespace": "system", "uid": "lease"}}
    left = Live("watcher", "system", {key: going, ("Lease", "system", "watcher"): lease})
    assert left.going() == {key: "uid-Deployment"}
    assert kinds(plan_program.plan_absent(left)) == [("delete", "Lease")]


def test_what_has_other_labels_is_refused_and_never_deleted() -> None:
    found = live(PROGRAM)
    for obj in found.objects.values():
        obj["metadata"]["labels"]["app.kubernetes.io/component"] = "other"
    assert plan_program.plan_absent(found).empty
    with pytest.raises(Refused) as refused:
        present(found)
    assert refused.value.reason == "NotOurs" and "Role chat/watcher.system" in refused.value.message


@pytest.mark.parametrize(
    ("namespaces", "reason"),
    [
        ({"chat": None}, "NamespaceMissing"),
        ({"system": None}, "NamespaceMissing"),
        ({"system": {"metadata": {"deletionTimestamp": "now"}}}, "NamespaceTerminating"),
    ],
)
def test_a_namespace_that_is_not_there_is_named(namespaces: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused) as refused:
        present(Live("watcher", "system", {}, namespaces))
    assert refused.value.reason == reason and next(iter(namespaces)) in refused.value.message


def test_a_diff_has_each_object_before_and_after() -> None:
    found = live(PROGRAM)
    shown = plan_program.changes(found, present(found, replace(PROGRAM, rights={"": PODS, "search": PODS})))
    assert set(shown["before"]) == {"Role chat/watcher.system", "RoleBinding chat/watcher.system", "ConfigMap system/watcher"}
    assert json.loads(shown["after"]["ConfigMap system/watcher"]["metadata"]["annotations"][NAMESPACES]) == ["search"]
    assert set(shown["after"]) == {"ConfigMap system/watcher"}


def test_a_rule_with_more_in_it_is_another_rule() -> None:
    (role,) = [obj for obj in programs.objects(PROGRAM) if obj["kind"] == "ClusterRole"]
    restricted = {**role, "rules": [{**PODS[0], "resourceNames": ["one"]}]}
    assert differences(role, restricted) == ("rules[0].resourceNames",)
    assert differences({"binaryData": {"a": "x"}}, {"binaryData": {"a": "x", "b": "y"}}) == ("binaryData.b",)


def test_what_belongs_to_a_program_is_not_a_services() -> None:
    assert is_ours({"metadata": {"labels": metadata_labels("prefill")}})
    assert not is_ours({"metadata": {"labels": program_labels("watcher", "system")}})
    assert not is_ours({"metadata": {}}) and not is_ours(None)


def deployment(**status: Any) -> dict[str, Any]:
    found = stored(programs.deployment(PROGRAM), generation=2)
    return {**found, "status": {"observedGeneration": 2, **status}}


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        ({"observedGeneration": 1, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}, "not been looked at"),
        ({"updatedReplicas": 1, "replicas": 3, "availableReplicas": 2}, "1 of 2 pods are of the new version"),
        ({"updatedReplicas": 2, "replicas": 3, "availableReplicas": 3}, "old version are left"),
        ({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 1}, "1 of 2 pods are available"),
        ({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}, ""),
    ],
)
def test_it_is_told_what_is_missing(status: dict[str, Any], missing: str) -> None:
    said = program_state.missing(deployment(**status))
    assert missing in said and bool(said) == bool(missing)


def pod(name: str, program: Program = PROGRAM, **metadata: Any) -> dict[str, Any]:
    """A pod whose image cannot be pulled."""
    template = programs.deployment(program)["spec"]["template"]
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff"}}, "restartCount": 0}
    return {**template, "metadata": {**template["metadata"], "name": name, **metadata}, "status": {"containerStatuses": [waiting]}}


def test_only_the_newest_pods_that_stay_matter() -> None:
    old = replace(PROGRAM, image="wrong")
    other = {**pod("other"), "metadata": {"name": "other", "labels": {}}}
    pods = [pod("new"), pod("old", old), pod("leaving", deletionTimestamp="now"), other]
    assert [symptom.name for symptom in program_state.symptoms(deployment(), pods)] == ["new"]
    assert program_state.symptoms(deployment(observedGeneration=1), pods) == ()


def test_what_was_there_before_has_time_to_recover() -> None:
    def seconds(kind: str, *before: str) -> float:
        return program_state.lasting(Symptom("pod", "watcher", None, kind, ""), frozenset(before))

    assert seconds(pod_facts.IMAGE) == 0 and seconds(pod_facts.IMAGE, "pod") == terminal.OLD_SECONDS
    assert seconds(terminal.REFUSED) == seconds(terminal.REFUSED, "pod") == terminal.REFUSED_SECONDS
    assert seconds(terminal.PROGRESS) == 0 and seconds(terminal.PROGRESS, "pod") == math.inf
    assert seconds(pod_facts.UNSCHEDULABLE) == math.inf


API = ServedApi("metrics.example.com", "v1", 8443, Serving("certificate", "key", "authority"), "authority", 1_800_000_000)
SERVED = replace(PROGRAM, api=API)
API_KEY = ("APIService", "", "v1.metrics.example.com")


def test_a_program_with_an_api_that_is_as_wanted_needs_nothing() -> None:
    assert present(live(SERVED), SERVED).empty
    assert differences(programs.deployment(SERVED), programs.deployment(SERVED)) == ()


def test_a_program_without_an_api_has_nothing_of_one() -> None:
    assert not {"Secret", "APIService"} & {obj["kind"] for obj in programs.objects(PROGRAM)}
    spec = programs.deployment(PROGRAM)["spec"]["template"]["spec"]
    assert len(spec["volumes"]) == 2 and len(spec["containers"][0]["ports"]) == 1
    assert programs.OBJECTS not in programs.config_map(PROGRAM)["metadata"]["annotations"]


def test_an_api_is_offered_when_pods_are_available_and_taken_away_before_anything_else() -> None:
    plan = present(Live("watcher", "system", {}, {}), SERVED)
    *dummy, pods, offered = plan.steps
    assert [write.kind for write in pods.writes] == ["Deployment"] and pods.until == AVAILABLE
    assert [write.kind for write in offered.writes] == ["APIService"]
    assert kinds(plan_program.plan_absent(live(SERVED)))[:2] == [("delete", "APIService"), ("delete", "Deployment")]
    assert kinds(present(live(SERVED)))[0] == ("delete", "APIService"), "nobody wants it any more"


def test_an_api_that_is_missing_is_offered_when_the_pods_that_there_are_are_available() -> None:
    found = live(SERVED)
    del found.objects[API_KEY]  # type: ignore[attr-defined]  # a dict, in this test
    plan = present(found, SERVED)
    assert [(step.title, step.until) for step in plan.steps] == [("start pods", AVAILABLE), ("offer the API", "")]


def test_another_certificate_is_trusted_before_it_is_there_and_touches_no_pod() -> None:
    renewed = replace(SERVED, api=replace(API, serving=Serving("new", "new key", "new authority"), trusted="both", since=1_800_000_100))
    plan = present(live(SERVED), renewed)
    assert [[write.kind for write in step.writes] for step in plan.steps] == [["APIService"], ["Secret"]]


def test_what_only_some_programs_have_is_remembered_and_found_again() -> None:
    ledger = programs.config_map(SERVED)
    assert programs.remembered_objects(ledger) == ("APIService/v1.metrics.example.com", "Secret/watcher")
    keys = programs.possible("watcher", "system", (), programs.remembered_objects(ledger))
    assert keys[-2:] == (API_KEY, ("Secret", "system", "watcher"))
    forged = {"metadata": {"annotations": {programs.OBJECTS: '["Nonsense/x", "Secret/other", 5]'}}}
    assert programs.remembered_objects(forged) == ("Secret/other",)


def test_what_somebody_has_written_into_the_memory_takes_nothing_of_others_along() -> None:
    found = live(PROGRAM)
    ledger = found.objects["ConfigMap", "system", "watcher"]
    ledger["metadata"]["annotations"][programs.OBJECTS] = '["Secret/other"]'
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": "system", "uid": "x"}}
    found = replace(found, objects={**found.objects, ("Secret", "system", "other"): other})
    assert ("delete", "Secret") not in kinds(plan_program.plan_absent(found))


def test_an_api_of_somebody_else_is_refused_with_the_way_to_go_on() -> None:
    foreign = {"kind": "APIService", "metadata": {"name": API_KEY[2]}}
    with pytest.raises(Refused, match="mindie_adaptor: existing") as caught:
        present(Live("watcher", "system", {API_KEY: foreign}, {}), SERVED)
    assert caught.value.reason == "NotOurs" and "Another program serves" in caught.value.message
    spec = {"service": {"namespace": "keda", "name": "keda-metrics", "port": 443}}
    with pytest.raises(Refused, match="Service keda/keda-metrics serves this API"):
        present(Live("watcher", "system", {API_KEY: {**foreign, "spec": spec}}, {}), SERVED)


def test_a_diff_shows_neither_keys_nor_whole_certificates() -> None:
    plan = plan_program.plan_absent(live(SERVED))
    shown = plan_program.changes(live(SERVED), plan)["before"]
    data = shown["Secret system/watcher"]["data"]
    assert data["tls.key"] == "********" and data["tls.crt"].startswith("sha256:")
    assert shown["APIService v1.metrics.example.com"]["spec"]["caBundle"].startswith("sha256:")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "the APIService is gone"),
        ({}, "it has not looked for it yet"),
        (
            {"status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "none"}]}},
            "MissingEndpoints: none",
        ),
        ({"status": {"conditions": [{"type": "Other"}, {"type": "Available", "status": "True"}]}}, ""),
    ],
)
def test_an_api_is_served_when_the_api_server_says_so(found: Any, said: str) -> None:
    assert program_state.unserved(found) == said
