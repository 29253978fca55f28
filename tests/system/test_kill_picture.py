# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures by which the kills judge a namespace come to an end, whatever the namespace does."""

from __future__ import annotations

import pytest

from tests.cluster.kube_client import CONFIG_MAPS
from tests.kill import picture
from tests.support.ascend_jobs import Fleet, Task


def test_a_state_that_never_settles_is_told_in_time_and_by_what_does_not_rest(task: Task, fleet: Fleet) -> None:
    task.rings("p0")
    with pytest.raises(TimeoutError, match=r"has not settled within 1\.5 s: ConfigMap rings-config-p0, initializing$"):
        picture.settled(task.client, task.namespace, patience=1.5)
    task.client.delete(CONFIG_MAPS, task.namespace, "rings-config-p0")
    assert picture.settled(task.client, task.namespace) == picture.take(task.client, task.namespace)
