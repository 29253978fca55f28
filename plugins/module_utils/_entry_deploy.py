# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What deploying needs beyond the other verbs: user config with overrides, environment, release, and the namespace."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from . import _entry, _entry_given, _inputs
from ._entry_jobs import JobTemplates
from ._entry_past import Past
from ._motor import drift, faults
from ._motor.digests import sha256
from ._motor.errors import InputError, Refused
from ._motor.guard import unfinished_verb
from ._motor.manifests.identity import service_id_of
from ._motor.manifests.ports import choose_node_ports, exposed_services
from ._motor.manifests.render import render
from ._motor.plan import Plan
from ._motor.plan_deploy import plan_deploy
from ._motor.release import understand
from ._motor.rendered import Rendered
from ._motor.state import Snapshot
from ._motor.stored import stored_config
from ._motor.user_config import UserConfig, with_counts

SHANGHAI_SECONDS = 8 * 3600


class Deployment:
    """The wanted service, read from the options; `plan` makes the plan for a snapshot."""

    def __init__(self, module: Any) -> None:
        self._params = module.params
        self._allow_restart = bool(module.params["allow_restart"])
        release = module.params["release"]
        self._release = understand(_inputs.read_release(release), source=f"release ({release})") if release else None
        self._env = _inputs.read_env(module.params["env"], module.params["env_content"])
        _entry_given.hide_secrets(module, self._env and self._env.data)
        self._past = self._read_past(module) if module.params["revision"] else None
        self.config = _with_counts(module, self._past.config if self._past else self._given(module))
        self._new_service_id = f"{self.config.namespace}_{_shanghai_time()}"
        self._choice = _entry.given_choice(module)
        self._node_ports = _node_ports(module.params["node_ports"])
        self._jobs = JobTemplates(module, self.config)
        self._drafted = self._render(self._new_service_id, None if self._node_ports == "auto" else self._node_ports)
        if self._past is None:  # what is wrong with the inputs is said before anything is asked of the cluster
            self.service = self._connect(module, self.config)

    def plan(self, snapshot: Snapshot) -> Plan:
        """The plan from a snapshot to the wanted service."""
        stored = stored_config(snapshot.config_map)
        self._jobs.refuse_other_settings(snapshot)
        namespace = self._missing_namespace() if stored is None else None
        service_id = service_id_of(snapshot.config_map) if snapshot.config_map else None
        rendered = self._jobs.render(snapshot) or self._render(service_id or self._new_service_id, self._ports(snapshot))
        config = self._settled(snapshot) if stored else self.config
        plan = plan_deploy(snapshot, config, rendered, stored, namespace, self._choice, allow_restart=self._allow_restart)
        plan = faults.checked(snapshot, plan, allowed=self._params["allow_during_fault"])
        return self._explained(replace(plan, env_sha256=sha256(self._env.text) if self._env else None))

    def _settled(self, snapshot: Snapshot) -> UserConfig:
        """The config with the counts to go for when the live instances are not those of the baseline."""
        return with_counts(self.config, drift.settle(snapshot, self.config.counts, self._params["on_drift"]))

    def _explained(self, plan: Plan) -> Plan:
        if self._past is None:
            return plan
        notices = (*plan.notices, *self._past.notices(release=self._release is not None))
        return replace(plan, notices=notices, why_record=f"go back to revision {self._past.number}")

    def _may_replace(self, snapshot: Snapshot) -> bool:
        """Whether workloads may have to be replaced, which the Infer Operator never does by itself."""
        return self._allow_restart or unfinished_verb(snapshot) is not None

    def _connect(self, module: Any, config: UserConfig | None) -> _entry.Service:
        namespace = _entry_given.namespace_of(module, config)
        return _entry.Service(module, namespace, config, others=_entry.OBJECT_KINDS, children=self._may_replace)

    def _read_past(self, module: Any) -> Past:
        self.service = self._connect(module, None)
        past = Past(self.service.api, self.service.namespace, module.params["revision"])
        self._env = past.env(self._env, release=self._release is not None)
        return past

    @staticmethod
    def _given(module: Any) -> UserConfig:
        config = _entry_given.given_config(module)
        if config is None:
            raise InputError("user_config is needed", source="user_config", path="user_config")
        return config

    def _ports(self, snapshot: Snapshot) -> Any:
        """The option `node_ports`; what the Infer Operator needs as numbers is chosen here."""
        if self._node_ports != "auto" or self._drafted is None or self.config.backend != "infer_service_set":
            return self._node_ports
        live = snapshot.infer_service_set
        used = [] if live else node_ports_of(self.service.api.list_objects("Service", None).items)
        return choose_node_ports(exposed_services(self._drafted.objects), live, used, snapshot.namespace)

    def _render(self, service_id: str, node_ports: Any) -> Rendered | None:
        if self._release is None:
            return None
        return render(
            self.config,
            self._env,
            self._release,
            service_id=service_id,
            accelerator_type=self._params["accelerator_type"],
            node_ports=node_ports,
        )

    def _missing_namespace(self) -> dict[str, Any] | None:
        """The Namespace to create, or None when it is there. A missing one is an error unless it may be created."""
        name = self.service.namespace
        found = self.service.api.get("Namespace", None, name)
        if found is None:
            if self._params["create_namespace"]:
                return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            raise Refused(f"Namespace {name} does not exist. Create it, or set create_namespace: true.", reason="NamespaceMissing")
        if found["metadata"].get("deletionTimestamp"):
            raise Refused(f"Namespace {name} is being deleted. Wait until it is gone, then create it again.", reason="NamespaceTerminating")
        return None


def _with_counts(module: Any, config: UserConfig) -> UserConfig:
    counts = _entry_given.given_counts(module)
    return with_counts(config, counts) if counts else config


def node_ports_of(services: Iterable[Mapping[str, Any]]) -> list[int]:
    """Node ports that Services hold."""
    return [port["nodePort"] for service in services for port in service["spec"].get("ports") or () if port.get("nodePort")]


def _node_ports(option: Any) -> Any:
    if option in (None, "release"):
        return None
    if option == "auto" or isinstance(option, dict):
        return option
    raise InputError.at("write release, auto or a mapping of Service name to port", source="node_ports")


def _shanghai_time() -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime(time.time() + SHANGHAI_SECONDS))
