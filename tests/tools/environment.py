# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie in the project folder, and the environment that every tool runs in."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
VENV = CACHE / "venv"
PYTHON = VENV / "bin" / "python"
COLLECTIONS = CACHE / "collections"
HOME = CACHE / "home"
# Settings of the caller that would make a check see another cluster, other collections or other packages.
FOREIGN = ("ANSIBLE_", "K8S_AUTH_", "KUBECONFIG", "MOLECULE_", "PYTHONPATH", "VIRTUAL_ENV")


def pip_settings() -> dict[str, str]:
    """Settings with which pip keeps the user's configuration, but its cache in the project folder."""
    settings = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(CACHE / "pip"))}
    for folder in (".config/pip", ".pip"):
        config = Path.home() / folder / "pip.conf"
        if "PIP_CONFIG_FILE" not in os.environ and config.is_file():
            settings["PIP_CONFIG_FILE"] = str(config)
    return settings


def environment() -> dict[str, str]:
    """The environment of the tools: homes and caches below ``.cache``, the venv first on PATH, collections from ``.cache``."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return (
        inherited
        | pip_settings()
        | {
            "HOME": str(HOME),
            "XDG_CACHE_HOME": str(CACHE / "xdg"),
            "ANSIBLE_HOME": str(CACHE / "ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "LC_ALL": "C.UTF-8",
            "MYPY_CACHE_DIR": str(CACHE / "mypy"),
            "RUFF_CACHE_DIR": str(CACHE / "ruff"),
            "PATH": path,
            "VIRTUAL_ENV": str(VENV),
        }
    )
