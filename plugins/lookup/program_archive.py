# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the zip application of a program that runs in the cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: program_archive
short_description: The zip application of a program that runs in the cluster
version_added: 0.1.0
author:
  - ascend.mindie contributors (@ascend-mindie)
description:
  - Puts the package of a program, and the files of this collection's C(module_utils) that it imports, into one zip application
    that Python runs as it is (C(python3 program.pyz)).
  - The same files give the same bytes on every machine. Nothing is compressed, because what a compressor makes depends on its version,
    and names, dates and modes in the archive are fixed.
  - What is imported is found by reading the files, not by running them. An import of what a pod surely does not have is an error.
  - Nothing is written, so that a read-only project folder will do.
options:
  _terms:
    description: Absolute paths of packages. Each is a folder with C(__init__.py), and C(__main__.py) that defines C(main).
    type: list
    elements: str
    required: true
seealso:
  - module: ascend.mindie.motor_program
"""

EXAMPLES = r"""
- name: Install the program of this role
  ascend.mindie.motor_program:
    name: watcher
    namespace: mindie-system
    image: registry.example/python-with-kubernetes:3.11
    archive: "{{ lookup('ascend.mindie.program_archive', role_path ~ '/files/watcher') }}"
"""

RETURN = r"""
_list:
  description: One archive for each package, as base64 text.
  type: list
  elements: str
"""

import ast
import base64
import io
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

LIBRARY = Path(__file__).resolve().parents[1] / "module_utils"
LIBRARY_PACKAGE = "ansible_collections.ascend.mindie.plugins.module_utils"
# Besides the standard library: the client that images of programs have, and what that one needs itself.
PROVIDED = frozenset({"kubernetes", "urllib3", "yaml"})
PYTHON = (3, 11)
DATE = (1980, 1, 1, 0, 0, 0)
MODE = 0o644
UNIX = 3
START = "from {package}.__main__ import main\n\nraise SystemExit(main())\n"


class ArchiveError(Exception):
    """A program that cannot be put together; the text says why."""


class LookupModule(LookupBase):
    """The lookup itself."""

    def run(self, terms: list[Any], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """One text for each path."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [base64.b64encode(build(_folder(term))).decode("ascii") for term in terms]
        except (ArchiveError, OSError) as error:
            raise AnsibleLookupError(f"program_archive: {error}") from error


def build(folder: Path, library: Path = LIBRARY) -> bytes:
    """The zip application of the package in `folder`. Raises ArchiveError."""
    package = Package(folder, library)
    files = {"__main__.py": START.format(package=folder.name).encode(), **package.files()}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as opened:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = UNIX
            entry.external_attr = MODE << 16
            opened.writestr(entry, files[name])
    return archive.getvalue()


class Package:
    """A program's package and what it imports of the library."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._folder, self._library = folder, library
        self._found: dict[str, bytes] = {}
        self._followed: set[Path] = set()

    def files(self) -> dict[str, bytes]:
        """Name in the archive -> content: the whole package, and of the library what is imported."""
        for path in sorted(_all_files(self._folder)):
            self._add(path)
        if not {f"{self._folder.name}/__init__.py", f"{self._folder.name}/__main__.py"} <= set(self._found):
            raise ArchiveError(f"{self._folder} is no package of a program: it needs __init__.py and __main__.py")
        main = ast.parse(self._found[f"{self._folder.name}/__main__.py"])
        if "main" not in _defined(main):
            raise ArchiveError(f"{self._folder / '__main__.py'} defines no function main")
        return self._found

    def _add(self, path: Path) -> None:
        """Put a file into the archive and, if it is Python, all that it imports."""
        if path in self._followed:
            return
        self._followed.add(path)
        content = path.read_bytes()
        self._found[self._name(path)] = content
        if path.suffix == ".py":
            self._follow(path, content)

    def _name(self, path: Path) -> str:
        if path.is_relative_to(self._folder):
            return f"{self._folder.name}/{path.relative_to(self._folder).as_posix()}"
        return f"{LIBRARY_PACKAGE.replace('.', '/')}/{path.relative_to(self._library).as_posix()}"

    def _follow(self, path: Path, content: bytes) -> None:
        try:
            tree = ast.parse(content, filename=str(path), feature_version=PYTHON)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise ArchiveError(f"{path}, line {line}: this is no Python {PYTHON[0]}.{PYTHON[1]}: {getattr(error, 'msg', error)}") from error
        for node in _imports(tree):
            self._import(path, node)

    def _import(self, path: Path, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._module(path, node, alias.name)
            return
        module = self._absolute(path, node)
        found = self._module(path, node, module)
        if found is None or found.name != "__init__.py":
            return
        for alias in node.names:
            inner = self._locate(f"{module}.{alias.name}")
            if inner is not None:
                self._add(inner)
            elif alias.name not in _defined(ast.parse(found.read_bytes())):
                raise ArchiveError(f"{path}, line {node.lineno}: there is no {alias.name} in {module}")

    def _absolute(self, path: Path, node: ast.ImportFrom) -> str:
        """The full name of the module that `from ... import` names."""
        if not node.level:
            return node.module or ""
        parts = self._name(path).removesuffix(".py").split("/")
        if node.level >= len(parts):
            raise ArchiveError(f"{path}, line {node.lineno}: this relative import leads out of the program")
        parts = parts[: -node.level]
        return ".".join([*parts, node.module] if node.module else parts)

    def _module(self, path: Path, node: ast.stmt, module: str) -> Path | None:
        """The file of a module that is ours, put into the archive with the packages around it; None for one that is not ours."""
        found = self._locate(module)
        if found is None:
            if module.split(".")[0] in sys.stdlib_module_names | PROVIDED:
                return None
            raise ArchiveError(f"{path}, line {node.lineno}: {module} is not there where programs run")
        around = module.split(".")
        for length in range(1, len(around)):
            outer = self._locate(".".join(around[:length]))
            if outer is not None:
                self._add(outer)
            else:  # the folders above the library have no file of their own
                self._found[f"{'/'.join(around[:length])}/__init__.py"] = b""
        self._add(found)
        return found

    def _locate(self, module: str) -> Path | None:
        for package, folder in ((self._folder.name, self._folder), (LIBRARY_PACKAGE, self._library)):
            if module == package or module.startswith(f"{package}."):
                place = folder.joinpath(*module.removeprefix(package).split(".")[1:])
                candidates = (place / "__init__.py", place.with_name(f"{place.name}.py"))
                return next((path for path in candidates if path.is_file()), None)
        return None


def _folder(term: Any) -> Path:
    folder = Path(str(term))
    if not folder.is_absolute():
        raise ArchiveError(f"{folder} is no absolute path: write role_path ~ '/files/...' or playbook_dir ~ '/...'")
    if not folder.is_dir():
        raise ArchiveError(f"there is no folder {folder}")
    return folder


def _all_files(folder: Path) -> Iterator[Path]:
    """Files that make up the program; what Python and editors leave behind is not part of it."""
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name == "__pycache__" or path.name.endswith(("~", ".pyc")):
            continue
        if path.is_dir():
            yield from _all_files(path)
        else:
            yield path


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports, inside functions as well, but for those that only a checker of types sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and _is_for_checkers(node.test):
            for other in node.orelse:
                yield from _imports(ast.Module([other], []))
        else:
            yield from _imports(node)


def _is_for_checkers(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING")


def _defined(tree: ast.Module) -> set[str]:
    """Names that a module has by its own statements."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names
