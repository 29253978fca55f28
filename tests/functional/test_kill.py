# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that is ended at any request is finished by running the same task again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.kill.__main__ import THIRD, third_of_today
from tests.tools.environment import ROOT, environment

LONGEST_SECONDS = 1800.0


@pytest.mark.parametrize("third", [third_of_today()], ids=lambda third: f"{THIRD}={third}")
def test_ended_at_every_request_of_deploy_and_scale_and_at_a_third_of_the_rest(show: Callable[[str], None], third: int) -> None:
    """In a process of its own: children are forked off, which a process with threads must not do. It has a cluster with all operators."""
    command = [sys.executable, "-m", "tests.kill", "--part"]
    settings = {**environment(), THIRD: str(third)}
    done = subprocess.run(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LONGEST_SECONDS
    )
    show(done.stdout)
    assert done.returncode == 0, done.stdout
