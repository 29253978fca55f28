# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one rendering works from, and the questions that several parts of it ask of the user config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import InputError
from ..hardware import HARDWARE, Hardware
from ..instances import INFER_SERVICE_SET_NAME
from ..json_reader import Document, Path
from ..release import SHAPE_2026_05, SHAPE_2026_07, Release
from ..user_config import UserConfig
from .draft import Draft

# `node_ports`: None leaves what the templates say, "auto" lets the server choose, a mapping gives ports by Service name.
NodePorts: TypeAlias = "str | Mapping[str, int] | None"
AUTO = "auto"


@dataclass(frozen=True)
class Context:
    """The inputs of one rendering. `env` is the env.json, if there is one."""

    config: UserConfig
    env: Document | None
    release: Release
    service_id: str
    accelerator_type: str | None = None
    node_ports: NodePorts = None

    @property
    def hardware(self) -> Hardware:
        """The servers that engines run on."""
        return HARDWARE[self.config.hardware_type]

    @property
    def namespace(self) -> str:
        """The namespace of the service, which is its job_id."""
        return self.config.namespace

    @property
    def is_2026_05(self) -> bool:
        """The release has the shape 2026-05."""
        return self.release.shape == SHAPE_2026_05

    @property
    def is_2026_07(self) -> bool:
        """The release has the shape 2026-07."""
        return self.release.shape == SHAPE_2026_07

    @property
    def in_set(self) -> bool:
        """Instances are roles of an InferServiceSet."""
        return self.config.deploy_mode == "infer_service_set"

    @property
    def in_one_pod(self) -> bool:
        """All parts of the service run in one container."""
        return self.config.deploy_mode == "single_container"

    @property
    def engine(self) -> Mapping[str, Any]:
        """The engine section that speaks for the service: that of prefill, or of union in a hybrid service."""
        return self.section("motor_engine_union_config" if self.config.hybrid else "motor_engine_prefill_config")

    @property
    def model_name(self) -> str | None:
        """The served model's name: the engine's own key, else the older `model_config.model_name`."""
        engine = self.engine.get("engine_config") or {}
        for name in (engine.get("served_model_name"), engine.get("served-model-name")):
            if name:
                return str(name)
        name = (self.engine.get("model_config") or {}).get("model_name")
        return str(name) if name else None

    @property
    def uses_multi_connector(self) -> bool:
        """The prefill engine's `kv_connector` is MultiConnector, which needs the KV tier."""
        engine = self.section("motor_engine_prefill_config").get("engine_config") or {}
        return bool((engine.get("kv_transfer_config") or {}).get("kv_connector") == "MultiConnector")

    @property
    def uses_mf_store(self) -> bool:
        """sglang finds its peers through the mf-store."""
        return self.config.engine_type == "sglang"

    def section(self, name: str) -> Mapping[str, Any]:
        """One section of the user config; empty when it is not there."""
        found: Mapping[str, Any] = self.config.data.get(name) or {}
        return found

    def deploy_value(self, key: str) -> Any:
        """A value of `motor_deploy_config`, or None."""
        return self.section("motor_deploy_config").get(key)

    def error(self, path: Path, wrong: str) -> InputError:
        """The error that says what is wrong at a path of the user config."""
        return self.config.document.error(path, wrong)

    def since_2026_07(self, path: Path, what: str) -> None:
        """Raise InputError when the release is too old for something that the user config asks for."""
        if not self.is_2026_07:
            wrong = f"{what} needs a release of shape {SHAPE_2026_07}, this one has {self.release.shape}: take a newer release"
            raise self.error(path, wrong)

    def template(self, file: str, kind: str) -> Draft:
        """The first document of a kind in a template, for reading only."""
        return Draft(self.release.document(file, kind), self.release.place(file))

    def draft(self, file: str, kind: str) -> Draft:
        """A draft of the first document of a kind in a template."""
        return Draft.of(self.release.document(file, kind), self.release.place(file))

    def drafts(self, file: str) -> list[Draft]:
        """Drafts of all documents of a template."""
        return [Draft.of(found, self.release.place(file)) for found in self.release.documents(file)]

    def standby(self, control_role: str) -> bool:
        """Whether this control role has a standby pod. An absent or empty `standby_config` means no."""
        section = self.section(f"motor_{control_role}_config")
        return bool((section.get("standby_config") or {}).get("enable_master_standby"))

    def host_log_dir(self, section: str) -> str | None:
        """The directory of the server that takes a role's logs, or None for the template's."""
        found = (self.section(section).get("logging_config") or {}).get("host_log_dir")
        return str(found) if found else None

    def set_host(self, service: str, role: str) -> str:
        """The host name of a Service that the Infer Operator makes for a role of the InferServiceSet (index 0)."""
        return self.host(f"{service}-{INFER_SERVICE_SET_NAME}-0-{role}")

    def host(self, service: str) -> str:
        """The host name of a Service of this namespace."""
        return f"{service}.{self.namespace}.svc.cluster.local"
