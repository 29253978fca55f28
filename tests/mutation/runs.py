# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs tests against a mutant in a forked child.

A change inside a function is made in place, in a process that has loaded everything and has run the tests once: only the code of
the function is exchanged. Any other change (of a constant, of a class) needs a process that has not yet imported the module.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import NoReturn

import pytest
from hypothesis import settings

from tests.tools.environment import COLLECTIONS, ROOT

PACKAGE = "ansible_collections.ascend.mindie.plugins.module_utils"
FOLDER = ROOT / "plugins" / "module_utils"
# A mutant that loops for ever is noticed, too.
SECONDS = 120.0
# Random examples where a test does not say how many, and in the property test.
EXAMPLES = 40
PROPERTY_EXAMPLES = 60


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the source of one module."""

    def __init__(self, name: str, file: str, source: str) -> None:
        self._name, self._file, self._source = name, file, source

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """The module, when it is the one."""
        return importlib.util.spec_from_loader(fullname, self, origin=self._file) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        module.__file__ = self._file
        exec(compile(self._source, self._file, "exec"), module.__dict__)


def prepare() -> None:
    """What all children share: third-party modules, but none of the project's."""
    sys.path[:0] = [str(ROOT), str(COLLECTIONS)]
    os.environ["MINDIE_EXAMPLES"] = str(PROPERTY_EXAMPLES)
    settings.register_profile("mutation", derandomize=True, database=None, max_examples=EXAMPLES, deadline=None)
    settings.load_profile("mutation")
    for name in ("jsonpatch", "yaml", "hypothesis.strategies", "urllib3", "ansible.module_utils.basic", "tests.cluster"):
        importlib.import_module(name)


def dotted(module: str) -> str:
    """The name under which tests import a module such as `_motor/counts.py`."""
    return f"{PACKAGE}.{module.removesuffix('.py').replace('/', '.')}"


def pytest_main(tests: Sequence[str]) -> int:
    """Run tests in this process until one fails."""
    return int(pytest.main(["-x", "-q", "--no-header", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:cov", *tests]))


def warm(tests: Sequence[str]) -> None:
    """Load everything and run the tests once; without any change they have to pass."""
    with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
        code = pytest_main(tests)
    if code:
        raise SystemExit(f"the tests fail without any change: {' '.join(tests)}")


def exchange(module: str, source: str) -> None:
    """Give the functions of a module that is loaded already the code of a changed source."""
    file, name = str(FOLDER / module), dotted(module)
    loaded, changed = sys.modules[name], ModuleType(name)
    changed.__dict__.update(__file__=file, __package__=loaded.__package__)
    exec(compile(source, file, "exec"), changed.__dict__)
    _transplant(loaded, changed, file)


def _transplant(old: object, new: object, file: str) -> None:
    for name, value in vars(new).items():
        found = vars(old).get(name)
        if isinstance(value, type) and value.__module__ == getattr(new, "__name__", "") and found is not None:
            _transplant(found, value, file)
        source, target = _function(value), _function(found)
        if source and target and source.__code__.co_filename == file:
            target.__code__, target.__defaults__, target.__kwdefaults__ = source.__code__, source.__defaults__, source.__kwdefaults__


def _function(value: object) -> FunctionType | None:
    """The function in a method, property or cached function."""
    for name in ("fget", "__func__", "__wrapped__"):
        value = getattr(value, name, None) or value
    return value if isinstance(value, FunctionType) else None


def survives(module: str, source: str, tests: Sequence[str], *, in_place: bool) -> bool:
    """Whether all tests pass with this source. `in_place`: this process is warm."""
    child = os.fork()
    if not child:
        _be_judged(module, source, tests, in_place)
    deadline = time.monotonic() + SECONDS
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.01)


def _be_judged(module: str, source: str, tests: Sequence[str], in_place: bool) -> NoReturn:
    code = 3
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if in_place:
            exchange(module, source)
        else:
            sys.meta_path.insert(0, Changed(dotted(module), str(FOLDER / module), source))
        # File by file: what the first one finds needs no others to be collected.
        code = next(filter(None, (pytest_main([test]) for test in tests)), 0)
    finally:
        os._exit(code)
