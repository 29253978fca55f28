# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each `hardware_type` of a user config stands for: NPUs of a server, its resource name, node labels and scheduling policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# The annotation of an instance that asks for NPUs within one super pod.
SUPER_POD_BLOCK = "sp-block"


@dataclass(frozen=True)
class Hardware:
    """One kind of server.

    `accelerator` and `accelerator_type` are node labels (`accelerator`, `accelerator-type`), the latter as the deployer
    writes it where the cluster is not asked. `schedule_policy` is the pod annotation `huawei.com/schedule_policy` of
    generation A5, else None. `super_pod` marks servers whose pods carry the label `inferserviceid`.
    """

    hardware_type: str
    generation: str
    npus_per_server: int
    resource: str
    accelerator: str
    accelerator_type: str
    schedule_policy: str | None = None
    super_pod: bool = False


def _a2(hardware_type: str) -> Hardware:
    return Hardware(hardware_type, "A2", 8, "huawei.com/Ascend910", "huawei-Ascend910", "module-910b-8")


def _a3(hardware_type: str) -> Hardware:
    return Hardware(hardware_type, "A3", 16, "huawei.com/Ascend910", "huawei-Ascend910", "module-a3-16")


def _a5(hardware_type: str, npus: int, policy: str, *, super_pod: bool = False) -> Hardware:
    return Hardware(hardware_type, "A5", npus, "huawei.com/npu", "huawei-npu", hardware_type, policy, super_pod)


_ALL = (
    _a2("800I_A2"),
    _a2("800T_A2"),
    _a3("800I_A3"),
    _a3("800T_A3"),
    _a5("350-Atlas-8", 8, "chip1-node8"),
    _a5("350-Atlas-16", 16, "chip1-node16"),
    _a5("350-Atlas-4p-8", 8, "chip4-node8"),
    _a5("350-Atlas-4p-16", 16, "chip4-node16"),
    _a5("850-Atlas-8p-8", 8, "chip8-node8"),
    _a5("850-SuperPod-Atlas-8", 8, "chip8-node8-sp", super_pod=True),
    _a5("950-SuperPod-Atlas-8", 8, "chip8-node8-ra64-sp", super_pod=True),
)

HARDWARE: Mapping[str, Hardware] = MappingProxyType({hardware.hardware_type: hardware for hardware in _ALL})
