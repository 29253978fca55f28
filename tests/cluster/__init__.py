# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes control plane on loopback, with fake A2 and A3 nodes, for tests and the demo."""

from __future__ import annotations

from .cluster import Cluster

__all__ = ["Cluster"]
