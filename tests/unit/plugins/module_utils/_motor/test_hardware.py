# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of hardware."""

from __future__ import annotations

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.hardware import HARDWARE

ROWS = [
    ("800I_A2", "A2", 8, "huawei.com/Ascend910", "huawei-Ascend910", "module-910b-8", None, False),
    ("800T_A2", "A2", 8, "huawei.com/Ascend910", "huawei-Ascend910", "module-910b-8", None, False),
    ("800I_A3", "A3", 16, "huawei.com/Ascend910", "huawei-Ascend910", "module-a3-16", None, False),
    ("800T_A3", "A3", 16, "huawei.com/Ascend910", "huawei-Ascend910", "module-a3-16", None, False),
    ("350-Atlas-8", "A5", 8, "huawei.com/npu", "huawei-npu", "350-Atlas-8", "chip1-node8", False),
    ("350-Atlas-16", "A5", 16, "huawei.com/npu", "huawei-npu", "350-Atlas-16", "chip1-node16", False),
    ("350-Atlas-4p-8", "A5", 8, "huawei.com/npu", "huawei-npu", "350-Atlas-4p-8", "chip4-node8", False),
    ("350-Atlas-4p-16", "A5", 16, "huawei.com/npu", "huawei-npu", "350-Atlas-4p-16", "chip4-node16", False),
    ("850-Atlas-8p-8", "A5", 8, "huawei.com/npu", "huawei-npu", "850-Atlas-8p-8", "chip8-node8", False),
    ("850-SuperPod-Atlas-8", "A5", 8, "huawei.com/npu", "huawei-npu", "850-SuperPod-Atlas-8", "chip8-node8-sp", True),
    ("950-SuperPod-Atlas-8", "A5", 8, "huawei.com/npu", "huawei-npu", "950-SuperPod-Atlas-8", "chip8-node8-ra64-sp", True),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_rows(row: tuple[object, ...]) -> None:
    hardware = HARDWARE[str(row[0])]
    assert tuple(vars(hardware).values()) == row


def test_there_are_no_others() -> None:
    assert list(HARDWARE) == [row[0] for row in ROWS]
