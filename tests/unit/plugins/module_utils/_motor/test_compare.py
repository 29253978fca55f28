# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields of a live object differ from what is wanted, and the object with them put right."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor.compare import differences, merged, quantity


def wanted() -> dict[str, Any]:
    container = {
        "name": "vllm",
        "image": "motor:1",
        "env": [{"name": "ROLE", "value": "prefill"}, {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {"requests": {"cpu": "16", "memory": "64Gi", "huawei.com/Ascend910": 16}, "limits": {"huawei.com/Ascend910": 16}},
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "mnt", "mountPath": "/mnt"}, {"name": "mnt", "mountPath": "/data", "readOnly": True}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "vllm-p0", "labels": {"app": "vllm-p0"}, "annotations": {}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "vllm-p0"}},
            "template": {
                "metadata": {"labels": {"app": "vllm-p0"}},
                "spec": {
                    "containers": [container],
                    "nodeSelector": {"accelerator": "huawei-Ascend910"},
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                    "volumes": [{"name": "mnt", "hostPath": {"path": "/mnt"}}, {"name": "shm", "emptyDir": {"sizeLimit": "4Gi"}}],
                },
            },
        },
    }


def live() -> dict[str, Any]:
    """The same object as a server stores it: defaults filled in, quantities and orders its own."""
    obj = wanted()
    obj["metadata"].pop("annotations")
    obj["metadata"].update(uid="u", resourceVersion="7", creationTimestamp="2026-01-01T00:00:00Z", generation=1)
    obj["status"] = {"replicas": 1}
    obj["spec"]["progressDeadlineSeconds"] = 600
    pod = obj["spec"]["template"]["spec"]
    pod.update(dnsPolicy="ClusterFirst", restartPolicy="Always")
    container = pod["containers"][0]
    container["env"].reverse()
    container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    container["resources"]["requests"] = {"cpu": "16000m", "memory": "65536Mi", "huawei.com/Ascend910": "16"}
    container["terminationMessagePath"] = "/dev/termination-log"
    pod["volumes"][0]["hostPath"]["type"] = ""
    pod["volumes"].reverse()
    return obj


POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)
IN_WORDS = "spec.template.spec.containers[vllm]"


def change(obj: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    for token in path[:-1]:
        obj = obj[token]
    obj[path[-1]] = value


def test_what_the_server_adds_is_no_difference() -> None:
    assert differences(wanted(), live()) == ()


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        (("spec", "replicas"), 2, "spec.replicas"),
        (("metadata", "labels"), {}, "metadata.labels.app"),
        ((*CONTAINER, "image"), "motor:2", f"{IN_WORDS}.image"),
        ((*CONTAINER, "env", 1, "value"), "decode", f"{IN_WORDS}.env[ROLE].value"),
        ((*CONTAINER, "env", 1), {"name": "ROLE", "valueFrom": {"x": 1}}, f"{IN_WORDS}.env[ROLE].value"),
        ((*CONTAINER, "env", 0), {"name": "OTHER", "value": "1"}, f"{IN_WORDS}.env[POD_IP]"),
        ((*CONTAINER, "resources", "requests", "cpu"), "16001m", f"{IN_WORDS}.resources.requests.cpu"),
        ((*CONTAINER, "resources", "limits", "huawei.com/Ascend910"), "8", f"{IN_WORDS}.resources.limits[huawei.com/Ascend910]"),
        ((*CONTAINER, "resources", "limits", "memory"), "1Gi", f"{IN_WORDS}.resources.limits.memory"),
        ((*CONTAINER, "securityContext", "privileged"), True, f"{IN_WORDS}.securityContext.privileged"),
        ((*CONTAINER, "volumeMounts", 1, "readOnly"), False, f"{IN_WORDS}.volumeMounts[/data].readOnly"),
        ((*POD, "nodeSelector", "zone"), "a", "spec.template.spec.nodeSelector.zone"),
        (("spec", "template", "metadata", "labels", "extra"), "x", "spec.template.metadata.labels.extra"),
        ((*POD, "volumes", 0, "emptyDir", "sizeLimit"), "5Gi", "spec.template.spec.volumes[shm].emptyDir.sizeLimit"),
        ((*POD, "volumes", 0, "nfs"), {"path": "/"}, "spec.template.spec.volumes[shm].nfs"),
        ((*POD, "tolerations"), [], "spec.template.spec.tolerations"),
        ((*POD, "tolerations", 0, "key"), "b", "spec.template.spec.tolerations[0].key"),
        ((*POD, "containers"), [{"name": "other"}], IN_WORDS),
    ],
)
def test_a_changed_field_is_named_and_put_right(path: tuple[Any, ...], value: Any, shown: str) -> None:
    found = live()
    change(found, path, value)
    assert shown in differences(wanted(), found)
    assert differences(wanted(), merged(wanted(), found)) == ()


def test_merging_keeps_what_is_not_ours() -> None:
    found = live()
    found["metadata"]["labels"]["theirs"] = "1"
    found["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    put = merged(wanted(), found)
    assert put["metadata"]["resourceVersion"] == "7"
    assert put["metadata"]["labels"] == {"app": "vllm-p0", "theirs": "1"}
    assert put["spec"]["progressDeadlineSeconds"] == 600
    assert put["spec"]["template"]["metadata"]["annotations"] == {"kubectl.kubernetes.io/restartedAt": "now"}
    assert put["status"] == found["status"]


def test_the_server_s_own_metadata_is_neither_compared_nor_sent_back_changed() -> None:
    asked = {"metadata": {"name": "a", "resourceVersion": "1"}, "status": {"x": 1}}
    found = {"metadata": {"name": "a", "resourceVersion": "2"}, "status": {"x": 2}}
    assert differences(asked, found) == ()
    assert merged(asked, found) == found
    assert merged(asked, {}) == asked


def test_inputs_are_left_as_they_are() -> None:
    asked, found = wanted(), live()
    found["spec"]["replicas"] = 5
    put = merged(asked, found)
    assert (asked, found["spec"]["replicas"], put["spec"]["replicas"]) == (wanted(), 5, 1)


@pytest.mark.parametrize(
    ("ports", "live_ports", "shown"),
    [
        ([{"port": 1025, "targetPort": 1025}], [{"port": 1025, "targetPort": 1025, "nodePort": 30001, "protocol": "TCP"}], ()),
        ([{"port": 1025, "nodePort": 31015}], [{"port": 1025, "nodePort": 30001}], ("spec.ports[1025].nodePort",)),
        ([{"port": 1025}], [{"port": 1026}], ("spec.ports[1025]", "spec.ports[1026]")),
        ([{"name": "a", "port": 1}], [{"name": "a", "port": 2}], ("spec.ports[a].port",)),
        ([{"port": 1}, {"port": 1}], [{"port": 1}], ("spec.ports",)),
        ([{"port": 1}, {"port": 1}], [{"port": 1}, {"port": 2}], ("spec.ports[1].port",)),
        (["a"], ["b"], ("spec.ports[0]",)),
        ([{}], [{"port": 1}], ()),
    ],
)
def test_ports_of_services(ports: list[Any], live_ports: list[Any], shown: tuple[str, ...]) -> None:
    asked, found = {"spec": {"ports": ports}}, {"spec": {"ports": live_ports}}
    assert differences(asked, found) == shown
    assert differences(asked, merged(asked, found)) == ()


def test_a_node_port_that_the_server_chose_is_kept() -> None:
    put = merged({"spec": {"ports": [{"port": 1025}]}}, {"spec": {"ports": [{"port": 1025, "nodePort": 30001}]}})
    assert put == {"spec": {"ports": [{"port": 1025, "nodePort": 30001}]}}


def test_the_data_of_a_config_map_are_managed_whole() -> None:
    asked = {"kind": "ConfigMap", "data": {"boot.sh": "a"}}
    found = {"kind": "ConfigMap", "data": {"boot.sh": "a", "old.sh": "b"}}
    assert differences(asked, found) == ("data[old.sh]",)
    assert merged(asked, found) == asked


@pytest.mark.parametrize(("value", "there"), [("", False), (False, False), (None, False), ({}, False), ([], False), (0, True), ("x", True)])
def test_what_is_empty_need_not_be_there(value: Any, there: bool) -> None:
    assert differences({"spec": {"field": value}}, {"spec": {}}) == (("spec.field",) if there else ())


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, True), ("1", 1), ([1], {"a": 1}), ({"a": 1}, [1])])
def test_values_of_different_kinds_differ(one: Any, other: Any) -> None:
    assert differences({"field": one}, {"field": other}) == ("field",)
    assert merged({"field": one}, {"field": other}) == {"field": one}


def test_what_is_no_quantity_is_compared_as_it_is() -> None:
    assert differences({"limits": {"x": "much"}}, {"limits": {"x": "much"}}) == ()
    assert differences({"limits": {"x": "much"}}, {"limits": {"x": "more"}}) == ("limits.x",)


def test_roles_of_an_infer_service_set() -> None:
    def obj(replicas: int) -> dict[str, Any]:
        return {"spec": {"template": {"roles": [{"name": "prefill", "replicas": replicas, "services": [{"name": "a", "spec": {}}]}]}}}

    assert differences(obj(1), obj(2)) == ("spec.template.roles[prefill].replicas",)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("16", 16), (16, 16), ("500m", Fraction(1, 2)), ("4Gi", 4 * 1024**3), ("4G", 4 * 1000**3), ("1e3", 1000), ("2E", 2 * 1000**6),
        ("1.5Ki", 1536), ("-1", -1), ("1E-3", Fraction(1, 1000)), ("7u", Fraction(7, 10**6)), ("7n", Fraction(7, 10**9)),
        ("", None), ("Gi", None), ("1.2.3", None), (True, None), (None, None), ("4 Gi", None),
    ],
)  # fmt: skip
def test_quantities(text: Any, number: Any) -> None:
    assert quantity(text) == number


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["env", "name", "spec", "limits", "labels", "template", "metadata"]), inner, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["spec", "metadata", "data", "status"]), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_after_merging_nothing_differs(asked: dict[str, Any], found: dict[str, Any]) -> None:
    before = copy.deepcopy((asked, found))
    assert differences(asked, merged(asked, found)) == ()
    assert (asked, found) == before


@given(OBJECTS)
def test_an_object_does_not_differ_from_itself(obj: dict[str, Any]) -> None:
    assert differences(obj, obj) == ()
    assert merged(obj, obj) == obj
