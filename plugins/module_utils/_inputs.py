# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what options name: user configs, environments, releases. The only reader of local files and of YAML."""

from __future__ import annotations

import os
import re
import stat
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._motor import json_reader
from ._motor.errors import InputError
from ._motor.json_reader import Document

try:
    import yaml
except ImportError:
    HAS_YAML = False
    YAML_IMPORT_ERROR: str | None = traceback.format_exc()
else:
    HAS_YAML = True
    YAML_IMPORT_ERROR = None

# A ConfigMap holds 1 MiB at most, so nothing larger can reach a pod.
MAX_BYTES = 1024 * 1024
MAX_FILES = 500
RELEASE_FOLDERS = ("yaml_template", "startup", "probe", "prestop")
RELEASE_SUFFIXES = (".sh", ".py", ".conf", ".yaml", ".yml")
TEMPLATE_FOLDER = "yaml_template"
# What begins like this is meant as JSON, be it broken; comments may stand in front.
# What no reader of YAML, old or new, takes for a number (1e3, 0o17) or a truth value (y).
_PLAIN = re.compile(r"[A-Za-z/][^\n]")
_UNREADABLE: dict[type[Exception], str] = {
    FileNotFoundError: "there is no such file",
    IsADirectoryError: "this is a directory: give a file",
    NotADirectoryError: "a part of this path is no directory",
    PermissionError: "you may not read this: give this user the right to read it",
}


def read_user_config(path: str | None, content: str | Mapping[str, Any] | None) -> Document | None:
    """The user config of the options `user_config` and `user_config_content`; see `read_json`."""
    return read_json("user_config", path, content)


def read_env(path: str | None, content: str | Mapping[str, Any] | None) -> Document | None:
    """The environment of the options `env` and `env_content`; see `read_json`. Raises InputError when it is no object."""
    document = read_json("env", path, content)
    if document is not None and not isinstance(document.data, dict):
        raise document.error((), 'an environment is an object: write {"motor_common_env": {...}, ...}')
    return document


def read_json(option: str, path: str | None, content: str | Mapping[str, Any] | None) -> Document | None:
    """The JSON document of the option `<option>` (a path) or `<option>_content` (text or a mapping), None when neither is given.

    Raises InputError when both are given, the file cannot be read, or the text is no strict JSON.
    """
    if path is not None and content is not None:
        raise InputError.at(f"give {option} or {option}_content, not both", source=option)
    if path is not None:
        return json_reader.read(read_text(option, path), source=described(option, path))
    if content is None:
        return None
    if isinstance(content, str):
        return json_reader.read(content, source=f"{option}_content")
    if isinstance(content, Mapping):
        return json_reader.from_mapping(content, f"{option}_content")
    raise InputError.at(f"a {type(content).__name__} is neither JSON text nor a mapping: give one of them", source=f"{option}_content")


def read_release(path: str, option: str = "release") -> dict[str, object]:
    """The files of a release directory, by their path in it (`startup/boot.sh`): text, or for `yaml_template/*.yaml` its documents.

    Of the folders of `RELEASE_FOLDERS` the templates and scripts are read. Numbers such as 0550 are octal, as YAML 1.1 has them (360).
    Raises InputError when the directory or one of these files cannot be read, or a template is no YAML.
    """
    files: dict[str, object] = {}
    for name in _release_files(option, path):
        full = os.path.join(path, name)
        if len(files) == MAX_FILES:
            raise InputError.at(f"there are more than {MAX_FILES} files: this is no release of Motor", source=described(option, path))
        text = read_text(option, full)
        is_template = os.path.dirname(name) == TEMPLATE_FOLDER and name.endswith((".yaml", ".yml"))
        files[name] = read_yaml(text, described(option, full)) if is_template else text
    return files


def read_documents(option: str, value: Any) -> tuple[list[Any], str]:
    """The documents of an option that is a path (a text), or holds them itself (a mapping, or a list of mappings), and how errors name it.

    Raises InputError when the file cannot be read or is no YAML, or a document holds what JSON cannot.
    """
    if isinstance(value, str):
        source = described(option, value)
        documents = read_yaml(read_text(option, value), source)
    else:
        source = option
        documents = list(value) if isinstance(value, (list, tuple)) else [value]
    for document in documents:
        if not isinstance(document, Mapping):
            raise InputError.at(f"a {type(document).__name__} is no manifest: give a path, a mapping or a list of mappings", source=source)
    return [json_reader.from_mapping(document, source).data for document in documents], source


def read_text(option: str, path: str) -> str:
    """The text of a file, line ends as they are. Raises InputError that names the option and the path."""
    source = described(option, path)
    try:
        with open(path, "rb", opener=_open) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError.at("this is no regular file", source=source)
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(error, source) from error
    if len(content) > MAX_BYTES:
        raise InputError.at(f"the file has {found.st_size} bytes, more than the {MAX_BYTES} bytes (1 MiB) of a ConfigMap", source=source)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = len(content[content.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8")) + 1
        wrong = f"the byte 0x{content[error.start]:02x} is no UTF-8: save the file as UTF-8"
        raise InputError.at(wrong, source=source, line=line, column=column) from error


def read_yaml(text: str, source: str) -> list[Any]:
    """The documents of a YAML text, empty ones left out. Raises InputError with line and column."""
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [document for document in yaml.load_all(text, Loader=loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        wrong = f"this is no valid YAML: {error.problem or error.context}"
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise InputError.at(wrong, source=source, line=line, column=column) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError.at(f"this is no valid YAML: {error}", source=source) from error


def yaml_text(documents: Iterable[Any]) -> str:
    """Documents as one YAML text, keys in their order, texts of several lines as they are read best."""
    return yaml.dump_all(documents, Dumper=_readable_dumper(), explicit_start=True, sort_keys=False, allow_unicode=True, width=160)


def _readable_dumper() -> Any:
    """PyYAML may be absent when this file is imported, so its class is derived from only here."""

    class Readable(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None if _PLAIN.match(value) else "'"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Readable.add_representer(str, text)
    return Readable


def described(option: str, path: str) -> str:
    """How errors name a file: `user_config (/path/user_config.json)`."""
    return f"{option} ({path})"


def _open(path: str, flags: int) -> int:
    """Open without waiting for the writer of a named pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _unreadable(error: OSError | ValueError, source: str) -> InputError:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    wrong = next((wrong for kind, wrong in _UNREADABLE.items() if isinstance(error, kind)), f"cannot read this: {said}")
    return InputError.at(wrong, source=source)


def _release_files(option: str, path: str) -> Iterator[str]:
    """Paths of the files of a release, relative to it, sorted. Links are followed as far as they lead to files."""
    if not os.path.isdir(path):
        wrong = "this is a file: give the directory of a Motor release" if os.path.exists(path) else "there is no such directory"
        raise InputError.at(wrong, source=described(option, path))
    if not os.path.isdir(os.path.join(path, TEMPLATE_FOLDER)):
        wrong = f"there is no folder {TEMPLATE_FOLDER} in it: give the deployer directory of a Motor release"
        raise InputError.at(wrong, source=described(option, path))

    def fail(error: OSError) -> None:
        raise _unreadable(error, described(option, error.filename))

    for folder in RELEASE_FOLDERS:
        top = os.path.join(path, folder)
        for root, folders, names in os.walk(top, onerror=fail, followlinks=True) if os.path.lexists(top) else ():
            folders.sort()
            yield from (os.path.relpath(os.path.join(root, name), path) for name in sorted(names) if name.endswith(RELEASE_SUFFIXES))
