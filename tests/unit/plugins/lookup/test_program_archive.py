# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The zip application of a program: the same bytes everywhere, no file too many or too few, and it runs."""

from __future__ import annotations

import base64
import io
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError

from ansible_collections.ascend.mindie.plugins.lookup import program_archive
from ansible_collections.ascend.mindie.plugins.lookup.program_archive import ArchiveError, LookupModule, build
from tests.cluster.pod_runner import program_venv
from tests.tools.environment import CACHE, ROOT

ECHO = ROOT / "tests" / "support" / "programs" / "echo"
LIBRARY = "ansible_collections/ascend/mindie/plugins/module_utils"
OURS = "from ansible_collections.ascend.mindie.plugins.module_utils"


def written(folder: Path, files: dict[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def program(folder: Path, code: str = "", **others: str) -> Path:
    """A package whose main module has this code in front of an empty main."""
    files = {"__init__.py": "", "__main__.py": f"{code}\ndef main():\n    return 0\n"}
    return written(folder / "tiny", {**files, **{f"{name}.py": text for name, text in others.items()}})


def library(folder: Path) -> Path:
    """A library of which a program needs a part."""
    return written(
        folder / "module_utils",
        {
            "__init__.py": "",
            "_motor/__init__.py": "",
            "_motor/used.py": "from . import deep\nfrom .._cluster.api import Api\n",
            "_motor/deep.py": "def lazily():\n    from .late import LATE\n    return LATE\n",
            "_motor/late.py": "LATE = 1\n",
            "_motor/unused.py": "from . import absent\n",
            "_motor/checked.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .unused import X\nelse:\n    from .late import LATE\n",
            "_cluster/__init__.py": "",
            "_cluster/api.py": "import kubernetes.client\nfrom urllib3 import PoolManager\nclass Api: pass\n",
            "_cluster/connection.py": "from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client\n",
        },
    )


def names(archive: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return opened.namelist()


def test_copies_with_other_dates_modes_and_leftovers_give_the_same_bytes(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        copy = Path(shutil.copytree(ECHO, tmp_path / "copy" / "echo", copy_function=shutil.copyfile))
        other_library = Path(shutil.copytree(program_archive.LIBRARY, tmp_path / "library", copy_function=shutil.copyfile))
    finally:
        os.umask(before)
    for path in [*copy.rglob("*"), *other_library.rglob("*.py")]:
        os.utime(path, (1, 1))
        path.chmod(0o700)
    written(copy, {"__pycache__/server.cpython-311.pyc": "x", ".server.py.swp": "x", "server.py~": "x"})
    first = build(ECHO)
    assert build(ECHO) == first
    assert build(copy, other_library) == first
    assert names(first) == sorted(names(first))


def test_another_byte_anywhere_in_the_program_gives_another_archive(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(ECHO, tmp_path / "echo"))
    before = build(copy)
    (copy / "words.txt").write_text("other words\n")
    assert build(copy) != before


def test_an_unrelated_file_of_the_library_is_no_change_of_the_program(tmp_path: Path) -> None:
    folder, lib = program(tmp_path, f"{OURS}._motor import used"), library(tmp_path)
    before = build(folder, lib)
    (lib / "_motor" / "unused.py").write_text("MORE = 1\n")
    assert build(folder, lib) == before
    (lib / "_motor" / "late.py").write_text("LATE = 2\n")
    assert build(folder, lib) != before


def test_of_the_library_it_has_exactly_what_is_imported_also_late_and_through_others(tmp_path: Path) -> None:
    archive = build(program(tmp_path, f"{OURS}._motor.used import deep"), library(tmp_path))
    parents = ["ansible_collections/__init__.py", "ansible_collections/ascend/__init__.py", "ansible_collections/ascend/mindie/__init__.py"]
    parents += ["ansible_collections/ascend/mindie/plugins/__init__.py"]
    wanted = ["__init__.py", "_cluster/__init__.py", "_cluster/api.py", "_motor/__init__.py"]
    wanted += ["_motor/deep.py", "_motor/late.py", "_motor/used.py"]
    ours = ["__main__.py", "tiny/__init__.py", "tiny/__main__.py"]
    assert names(archive) == sorted([*ours, *parents, *(f"{LIBRARY}/{name}" for name in wanted)])


def test_what_only_a_checker_of_types_imports_is_not_needed(tmp_path: Path) -> None:
    archive = build(program(tmp_path, f"{OURS}._motor import checked"), library(tmp_path))
    assert f"{LIBRARY}/_motor/late.py" in names(archive) and f"{LIBRARY}/_motor/unused.py" not in names(archive)


def test_a_plain_import_by_the_full_name_counts(tmp_path: Path) -> None:
    code = "import ansible_collections.ascend.mindie.plugins.module_utils._motor.late as late"
    assert f"{LIBRARY}/_motor/late.py" in names(build(program(tmp_path, code), library(tmp_path)))


def test_data_files_of_the_package_are_in_it_as_they_are(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(build(ECHO))) as archive:
        assert archive.read("echo/words.txt") == (ECHO / "words.txt").read_bytes()
        infos = archive.infolist()
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}  # compressors differ from machine to machine
    assert {(info.date_time, info.external_attr, info.create_system) for info in infos} == {((1980, 1, 1, 0, 0, 0), 0o644 << 16, 3)}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (f"{OURS}._cluster import connection", "connection.py, line 1: ansible_collections.kubernetes.core"),
        ("import requests_of_somebody", "line 1: requests_of_somebody is not there where programs run"),
        ("from .missing import x", "line 1: tiny.missing is not there where programs run"),
        ("from ... import x", "leads out of the program"),
        (f"{OURS}._motor import nothing", "there is no nothing in"),
        ("def broken(:", "__main__.py, line 1: this is no Python 3.11"),
        ("def f[T](x: T): ...", "this is no Python 3.11"),
    ],
)
def test_what_cannot_run_in_the_cluster_is_named_with_its_place(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(ArchiveError) as error:
        build(program(tmp_path, code), library(tmp_path))
    assert said in str(error.value)


def test_a_folder_that_is_no_program_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    lookup = LookupModule()
    with pytest.raises(AnsibleLookupError, match=r"needs __init__\.py and __main__\.py"):
        lookup.run([str(written(tmp_path / "empty", {"words.txt": ""}))])
    with pytest.raises(AnsibleLookupError, match="defines no function main"):
        lookup.run([str(written(tmp_path / "mainless", {"__init__.py": "", "__main__.py": "x = 1\n"}))])
    with pytest.raises(AnsibleLookupError, match="there is no folder"):
        lookup.run([str(tmp_path / "absent")])
    with pytest.raises(AnsibleLookupError, match="no absolute path"):
        lookup.run(["tests/support"])


def test_the_lookup_gives_base64_text_for_each_package() -> None:
    assert LookupModule().run([str(ECHO), str(ECHO)]) == [base64.b64encode(build(ECHO)).decode()] * 2


def test_the_archive_runs_with_nothing_else_than_the_python_of_programs(tmp_path: Path) -> None:
    archive = tmp_path / "program.pyz"
    code = f"import json\n{OURS}._motor.ownership import MANAGER\nprint(json.dumps(MANAGER))"
    archive.write_bytes(build(program(tmp_path, code)))
    python = program_venv(CACHE) / "bin" / "python"
    done = subprocess.run([str(python), "-I", str(archive)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, '"ascend.mindie"\n'), done.stderr


def test_nothing_is_written_when_an_archive_is_built(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ECHO, tmp_path / "echo"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    build(folder)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_watcher_leaves_room_in_its_config_map() -> None:
    """Code and settings have 1 MiB. What makes it larger is mostly what it imports: see what of it is needed."""
    archive = build(ROOT / "roles" / "motor_rescheduling_watcher" / "files" / "rescheduling_watcher")
    assert len(archive) < 900 * 1024, f"{len(archive)} bytes: {names(archive)}"
