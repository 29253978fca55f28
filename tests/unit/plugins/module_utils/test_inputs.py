# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading of local files: every failure names the option and the path."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils import _inputs
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError


def fails(path: Path | str, wrong: str, **place: int) -> None:
    with pytest.raises(InputError) as caught:
        _inputs.read_user_config(str(path), None)
    assert str(caught.value).startswith(f"user_config ({path})")
    assert wrong in str(caught.value)
    for name, value in place.items():
        assert getattr(caught.value, name) == value


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "user config.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n"a": "\xc3\xa9"}\r\n')
    link = tmp_path / "link"
    link.symlink_to(path)
    for name in (path, link):
        document = _inputs.read_user_config(str(name), None)
        assert document
        assert document.text == '{\r\n"a": "é"}\r\n'
        assert document.source == f"user_config ({name})"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("{}")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    large = tmp_path / "large"
    large.write_bytes(b" " * (1024 * 1024 + 1))
    fails(tmp_path / "absent", "there is no such file")
    fails(dangling, "there is no such file")
    fails(tmp_path, "this is a directory: give a file")
    fails(plain / "x", "a part of this path is no directory")
    fails(pipe, "this is no regular file")
    fails("/dev/null", "this is no regular file")
    fails(loop, "cannot read this: Too many levels of symbolic links")
    fails(large, "more than the 1048576 bytes")
    fails("a\0b", "cannot read this: embedded null byte")


def test_a_file_without_the_right_to_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    if os.access(path, os.R_OK):

        def refuse(*_args: object) -> int:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "open", refuse)
    fails(path, "you may not read this")


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes('{\n"é": "'.encode() + b"\xe9")
    fails(path, "the byte 0xe9 is no UTF-8", line=2, column=7)


def test_broken_json_names_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{\n  "a": 1,\n}')
    fails(path, "line 2, column 9: a comma before }", line=2, column=9)


def test_content_is_text_or_a_mapping() -> None:
    text = _inputs.read_user_config(None, '{"a": 1}')
    mapping = _inputs.read_user_config(None, {"a": 1})
    assert text
    assert mapping
    assert text.data == mapping.data == {"a": 1}
    assert text.source == mapping.source == "user_config_content"


def test_nothing_is_given() -> None:
    assert _inputs.read_user_config(None, None) is None
    assert _inputs.read_env(None, None) is None


@pytest.mark.parametrize("content", [[1], 5, True])
def test_content_of_another_kind(content: Any) -> None:
    with pytest.raises(InputError, match=r"^user_config_content: a (list|int|bool) is neither JSON text nor a mapping"):
        _inputs.read_user_config(None, content)


def test_path_and_content_at_once() -> None:
    with pytest.raises(InputError, match="give env or env_content, not both"):
        _inputs.read_env("x", "{}")


def test_an_environment_is_an_object() -> None:
    document = _inputs.read_env(None, '{"motor_common_env": {}}')
    assert document
    assert document.data == {"motor_common_env": {}}
    with pytest.raises(InputError, match=r"^env_content, line 1, column 1: an environment is an object"):
        _inputs.read_env(None, "[]")


def make_release(tmp_path: Path) -> Path:
    release = tmp_path / "release"
    for name, text in {
        "yaml_template/engine_template.yaml": "kind: A\nmode: 0550\n---\n---\nkind: B\n",
        "startup/boot.sh": "#!/bin/bash\r\n",
        "startup/roles/engine.sh": "x",
        "probe/probe.py": "y",
        "startup/picture.png": "z",
        "output_yamls/old.yaml": "{",
        "deploy.py": "z",
    }.items():
        (release / name).parent.mkdir(parents=True, exist_ok=True)
        (release / name).write_text(text, newline="")
    return release


def test_a_release(tmp_path: Path) -> None:
    release = make_release(tmp_path)
    assert _inputs.read_release(str(release)) == {
        "yaml_template/engine_template.yaml": [{"kind": "A", "mode": 360}, {"kind": "B"}],
        "startup/boot.sh": "#!/bin/bash\r\n",
        "startup/roles/engine.sh": "x",
        "probe/probe.py": "y",
    }
    linked = tmp_path / "linked"
    linked.mkdir()
    for folder in ("yaml_template", "startup"):
        (linked / folder).symlink_to(release / folder)
    assert "startup/roles/engine.sh" in _inputs.read_release(str(linked))


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("a: [1\nb: 2\n", 2, "this is no valid YAML"),
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("a: !!python/object:os.system 1\n", 1, "could not determine a constructor"),
        ("\x01", None, "this is no valid YAML"),
        ("a: 2026-13-45\n", None, "month must be in 1..12"),
    ],
)
def test_broken_templates(tmp_path: Path, text: str, line: int | None, wrong: str) -> None:
    release = make_release(tmp_path)
    path = release / "yaml_template" / "engine_template.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        _inputs.read_release(str(release))
    assert str(caught.value).startswith(f"release ({path})")
    assert wrong in str(caught.value)
    assert caught.value.line == line
    assert (caught.value.column is None) == (line is None)


def test_what_is_no_release(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, wrong in (
        (tmp_path / "absent", "there is no such directory"),
        (tmp_path / "file", "this is a file: give the directory of a Motor release"),
        (tmp_path, "there is no folder yaml_template in it"),
    ):
        with pytest.raises(InputError) as caught:
            _inputs.read_release(str(path))
        assert str(caught.value).startswith(f"release ({path}): {wrong}")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    release = make_release(tmp_path)
    (release / "prestop").write_text("")
    with pytest.raises(InputError, match="prestop\\): a part of this path is no directory"):
        _inputs.read_release(str(release))


def test_a_directory_with_too_many_files(tmp_path: Path) -> None:
    release = make_release(tmp_path)
    for index in range(501):
        (release / "startup" / f"{index}.sh").write_text("")
    with pytest.raises(InputError, match="more than 500 files"):
        _inputs.read_release(str(release))


def test_pyyaml_may_be_missing_until_a_release_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    spec = importlib.util.spec_from_file_location(f"{_inputs.__name__}_without_yaml", _inputs.__file__)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert _inputs.HAS_YAML
    assert not _inputs.YAML_IMPORT_ERROR
    assert not module.HAS_YAML
    assert "yaml" in module.YAML_IMPORT_ERROR
    assert module.read_user_config(None, "{}").data == {}
