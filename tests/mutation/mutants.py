# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutants of a module: its source with one small change each, of the kind that programmers make by mistake.

Changed are comparisons, `and` and `or`, `not`, conditions, arithmetic, numbers, booleans, words (strings without a space),
returned values, filters of comprehensions; calls for effect, assignments to parts of objects, and `raise` are removed.
Left alone are docstrings, annotations, decorators, sentences and everything in a `raise`: what a message says is read by people.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
LENGTH = 100


@dataclass(frozen=True)
class Mutant:
    """One change. `name` tells it by function and content, not by line, so that it stays the same when other code moves.

    `in_function`: nothing but the code of a function is another.
    """

    name: str
    source: str
    in_function: bool


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its source."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for path, where, in_function in _places(tree, (), "", False):
        node = _at(tree, path)
        for changed in _changes(node):
            name = f"{where or 'module'}: {_words(node)} => {_words(changed)}"
            seen[name] += 1
            number = f" ({seen[name]})" if seen[name] > 1 else ""
            found.append(Mutant(name + number, _with(tree, path, changed), in_function))
    return found


Path = tuple[tuple[str, int | None], ...]


def _places(node: ast.AST, path: Path, where: str, in_function: bool) -> Iterator[tuple[Path, str, bool]]:
    """Every node that may be changed, with the function or class that it is in."""
    if path:
        yield path, where, in_function
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        where = f"{where}.{node.name}".lstrip(".")
        in_function = in_function or isinstance(node, ast.FunctionDef)
    for name, value in ast.iter_fields(node):
        if _left_alone(node, name):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            docstring = name == "body" and index == 0 and _is_docstring(node, child)
            if isinstance(child, ast.AST) and not docstring and not isinstance(child, (ast.JoinedStr, ast.ImportFrom, ast.Import)):
                yield from _places(child, (*path, (name, index)), where, in_function)


def _left_alone(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Raise):
        return True
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
        return True
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    return name in ("annotation", "returns", "decorator_list", "type_params")


def _is_docstring(parent: ast.AST, node: object) -> bool:
    owner = isinstance(parent, (ast.Module, ast.ClassDef, ast.FunctionDef))
    return owner and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """The node with each mistake in turn."""
    if isinstance(node, ast.expr):
        yield from _expressions(node)
    elif isinstance(node, ast.stmt):
        yield from _statements(node)
    elif isinstance(node, ast.comprehension):
        for index in range(len(node.ifs)):
            changed = copy.deepcopy(node)
            del changed.ifs[index]
            yield changed


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and len(changed.ops) == 1:
        changed.ops = [COMPARISONS[type(changed.ops[0])]()]
        yield changed
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not):
        yield changed.operand
    elif isinstance(changed, ast.BinOp) and type(changed.op) in ARITHMETIC:
        changed.op = ARITHMETIC[type(changed.op)]()
        yield changed
    elif isinstance(changed, ast.IfExp):
        changed.body, changed.orelse = changed.orelse, changed.body
        yield changed
    elif isinstance(changed, ast.Constant):
        yield from _constants(changed)


def _constants(node: ast.Constant) -> Iterator[ast.expr]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1)
    elif isinstance(node.value, str) and " " not in node.value:
        yield ast.Constant(node.value + "X")


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    changed = copy.deepcopy(node)
    if isinstance(changed, (ast.If, ast.While)) and not isinstance(changed.test, (ast.Compare, ast.UnaryOp, ast.Constant)):
        changed.test = ast.UnaryOp(ast.Not(), changed.test)
        yield changed
    elif isinstance(changed, ast.Return) and changed.value is not None and not _is_none(changed.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(changed, (ast.Raise, ast.AugAssign)) or _is_call(changed) or _is_part(changed):
        yield ast.Pass()


def _is_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _is_part(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Subscript, ast.Attribute))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _words(node: ast.AST) -> str:
    text = f"if {ast.unparse(node.test)}" if isinstance(node, (ast.If, ast.While)) else ast.unparse(node)
    text = " ".join(text.split())
    return text if len(text) <= LENGTH else text[:LENGTH] + "..."


def _at(tree: ast.AST, path: Path) -> ast.AST:
    node: ast.AST = tree
    for name, index in path:
        value = getattr(node, name)
        node = value if index is None else value[index]
    return node


def _with(tree: ast.Module, path: Path, changed: ast.AST) -> str:
    """The source of the tree with another node at this place."""
    mutated = copy.deepcopy(tree)
    parent, (name, index) = _at(mutated, path[:-1]), path[-1]
    if index is None:
        setattr(parent, name, changed)
    else:
        getattr(parent, name)[index] = changed
    return ast.unparse(ast.fix_missing_locations(mutated))
