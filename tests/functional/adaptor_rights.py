# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenes that between them use every right of the manifest for the adaptor. It lives in the namespace that it looks into."""

from __future__ import annotations

from typing import Any

import yaml

from tests.functional.conftest import Driver
from tests.functional.programs import Programs
from tests.tools.environment import ROOT

PREFIX = "__motor_autoscale"
TABLE = yaml.safe_load((ROOT / "roles" / "motor_autoscale" / "vars" / "main.yml").read_text())
LOOKING, TRUSTING = (TABLE[f"{PREFIX}_{name}"] for name in ("looking", "trusting"))


def _program(driver: Driver) -> Programs:
    return Programs(driver.cluster, driver.proxy, driver.namespace, watched=0)


def _api(driver: Driver) -> dict[str, str]:
    """An API of its own for each namespace of the tests: a cluster has place for one of each name."""
    return {"group": f"{driver.namespace}.example.com", "version": "v1"}


def install(driver: Driver, kubeconfig: str | None = None, **options: Any) -> dict[str, Any]:
    """Install it, as administrator unless a kubeconfig says otherwise. Nobody answers for it here."""
    rights = [{"namespace": driver.namespace, "rules": [*TRUSTING, *LOOKING]}]
    usual = {"rights": rights, "api": _api(driver), "kubeconfig": kubeconfig or driver.proxy.kubeconfig, "wait": False}
    return _program(driver).install(**{**usual, **options})


def new(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """Install it and wait for its pods; then have the API as well."""
    first = install(driver, kubeconfig, api=None, wait=True)
    return first if first.get("failed") else install(driver, kubeconfig)


def installed(driver: Driver) -> None:
    found = install(driver)
    assert not found.get("failed"), found["msg"]


def altered(driver: Driver) -> None:
    """Each of its objects is otherwise than it is wanted."""
    installed(driver)
    program = _program(driver)
    other = [{"kind": "ServiceAccount", "name": "other", "namespace": driver.namespace}]
    program.change("serviceaccounts", {"automountServiceAccountToken": True})
    program.change("services", {"spec": {"selector": {"app": "other"}}})
    program.change("poddisruptionbudgets", {"spec": {"maxUnavailable": 2}})
    program.change("secrets", {"data": {"tls.crt": "eA=="}})
    program.change("rolebindings", {"subjects": other}, program.rights_name)
    program.change("roles", {"rules": LOOKING[:1]}, program.rights_name)


def change(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """Other settings, and everything put right."""
    return install(driver, kubeconfig, settings={"port": 8080, "more": True})


def reduce(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """No API, no Service, one pod, no rights."""
    return install(driver, kubeconfig, api=None, rights=[], service=False, replicas=1)


def remove(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return _program(driver).remove(kubeconfig=kubeconfig)
