# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the caches hold of namespaces that come and go."""

from __future__ import annotations

import threading
from typing import Any

from rescheduling_watcher.settings import Settings
from rescheduling_watcher.world import World

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._motor.hands_off import KEPT_PREFIX


def _unasked(*dummy: Any, **more: Any) -> Any:
    raise AssertionError("nobody is asked")


def world() -> World:
    """One whose watches have not begun: what they hear comes from the test."""
    return World(Api(_unasked), Settings(namespaces=()), threading.Event())


def thing(name: str, namespace: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "1"}}


def test_of_namespaces_that_are_gone_nothing_is_left() -> None:
    seen = world()
    for number in range(1000):
        config, pod = thing("motor-config", f"chat-{number}"), thing("p0", f"chat-{number}")
        seen._heard("ConfigMap", None, config)
        seen._heard("Pod", None, pod)
        assert seen.has_service(f"chat-{number}") and seen.named(f"chat-{number}", "Pod", "p0")
        seen._heard("ConfigMap", config, None)
        seen._heard("Pod", pod, None)
        assert not seen.named(f"chat-{number}", "Pod", "p0") and not seen.named("elsewhere", "Pod", "p0")
    assert not seen._objects and len(seen.take_dirty()) == 1000, "each is looked at once more, to be forgotten everywhere"
    assert not seen.snapshot("chat-1").pods and not seen._objects


def test_what_went_unseen_takes_nobody_with_it_who_has_its_name_now() -> None:
    seen = world()
    old, new = thing("p0", "chat", "1"), thing("p0", "chat", "2")
    seen._heard("Pod", None, old)
    seen._heard("Pod", None, new)
    seen._heard("Pod", old, None)
    assert seen.named("chat", "Pod", "p0") == new


def test_a_job_that_is_kept_to_be_created_again_is_not_forgotten_where_it_was_the_only_one() -> None:
    """Of a namespace without motor-config nothing else may be left when a watcher is killed amid that."""
    seen = world()
    seen._heard("ConfigMap", None, thing("kube-root-ca.crt", "chat"))
    assert not seen.has_service("chat")
    seen._heard("ConfigMap", None, thing(f"{KEPT_PREFIX}u", "chat"))
    assert seen.has_service("chat") and seen.namespaces() == ["chat"]


def test_namespaces_where_jobs_only_train_have_no_service() -> None:
    seen = world()
    train = thing("resnet", "train")
    seen._heard("AscendJob", None, train)
    assert not seen.has_service("train")
    seen._heard("AscendJob", train, {"metadata": {**train["metadata"], "labels": {"mind-cluster/scaling-rule": "r"}}})
    assert seen.has_service("train")
    seen._heard("AscendJob", None, thing("mindie-server-p0", "script"))
    assert seen.namespaces() == ["script", "train"]
