# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenes that between them use every right of the manifest for the watcher. It lives in the namespace that it watches."""

from __future__ import annotations

from typing import Any

import yaml

from tests.functional.conftest import Driver
from tests.functional.programs import NAME, Programs
from tests.tools.environment import ROOT

PREFIX = "__motor_rescheduling_watcher"
TABLE = yaml.safe_load((ROOT / "roles" / "motor_rescheduling_watcher" / "vars" / "main.yml").read_text())
SERVERS, OBSERVING, ACTING = (TABLE[f"{PREFIX}_{name}"] for name in ("servers", "observing", "acting"))


def electing(name: str) -> list[dict[str, Any]]:
    """The rules for the Lease, with the name of the watcher in them."""
    rules: list[dict[str, Any]] = TABLE[f"{PREFIX}_electing"]
    return [{**rule, "resourceNames": [name]} if "resourceNames" in rule else rule for rule in rules]


def rights_of_all_acts(namespace: str) -> list[dict[str, Any]]:
    """What the role gives to a watcher with everything switched on."""
    acting = [rule for rules in ACTING.values() for rule in rules]
    return [{"rules": SERVERS}, {"namespace": namespace, "rules": [*electing(NAME), *OBSERVING, *acting]}]


def _program(driver: Driver) -> Programs:
    return Programs(driver.cluster, driver.proxy, driver.namespace, watched=0)


def install(driver: Driver, kubeconfig: str | None = None, **options: Any) -> dict[str, Any]:
    """Install it, as administrator unless a kubeconfig says otherwise."""
    usual = {"rights": rights_of_all_acts(driver.namespace), "kubeconfig": kubeconfig or driver.proxy.kubeconfig}
    return _program(driver).install(**{**usual, **options})


def installed(driver: Driver) -> None:
    found = install(driver)
    assert not found.get("failed"), found["msg"]
    _program(driver).elect()


def altered(driver: Driver) -> None:
    """Each of its objects is otherwise than it is wanted."""
    installed(driver)
    program = _program(driver)
    other = [{"kind": "ServiceAccount", "name": "other", "namespace": driver.namespace}]
    program.change("serviceaccounts", {"automountServiceAccountToken": True})
    program.change("services", {"spec": {"selector": {"app": "other"}}})
    program.change("poddisruptionbudgets", {"spec": {"maxUnavailable": 2}})
    for kind, place in (("rolebindings", driver.namespace), ("clusterrolebindings", "")):
        program.change(kind, {"subjects": other}, program.rights_name, place)
    for kind, place in (("roles", driver.namespace), ("clusterroles", "")):
        program.change(kind, {"rules": SERVERS[:1] * 2}, program.rights_name, place)


def change(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """Other settings, and everything put right."""
    return install(driver, kubeconfig, settings={"port": 8080, "more": True})


def reduce(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """No Service, one pod, no rights."""
    return install(driver, kubeconfig, rights=[], service=False, replicas=1)


def remove(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return _program(driver).remove(kubeconfig=kubeconfig)
