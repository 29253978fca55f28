# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of metadata in protobuf, as API servers write them, and what is none."""

from __future__ import annotations

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import metadata_list


def field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def text(number: int, content: str) -> bytes:
    return field(number, content.encode())


def item(name: str, *more: bytes) -> bytes:
    known = (text(1, name), text(2, "made-"), text(3, "chat"), text(4, ""), text(5, f"uid of {name}"), text(6, "17"))
    return field(1, b"".join((*known, b"\x38\x01", *more)))


def listed(*parts: bytes) -> bytes:
    head = field(1, text(1, "meta.k8s.io/v1") + text(2, "PartialObjectMetadataList"))
    return b"k8s\x00" + head + field(2, b"".join(parts)) + field(3, b"") + field(4, b"")


LIST = field(1, text(2, "42") + text(3, "next") + b"\x20\x07")
FIELDS = field(17, b"\x0a\xff\xff\xff" * 100)


def test_each_object_has_what_says_which_one_it_is_and_in_which_version() -> None:
    found = metadata_list.read(listed(LIST, field(2, item("p0", FIELDS)), field(2, item("模型"))))
    metadata = [{"name": name, "namespace": "chat", "uid": f"uid of {name}", "resourceVersion": "17"} for name in ("p0", "模型")]
    assert found == {"metadata": {"resourceVersion": "42", "continue": "next"}, "items": [{"metadata": row} for row in metadata]}


def test_a_server_that_answers_in_json_is_understood() -> None:
    assert metadata_list.read(b'{"metadata": {"resourceVersion": "1"}, "items": []}')["metadata"] == {"resourceVersion": "1"}


def test_an_answer_that_is_cut_off_anywhere_is_an_error_and_never_a_shorter_list() -> None:
    whole = b"k8s\x00" + field(2, LIST + field(2, item("p0", FIELDS)) + field(2, item("p1")))
    for size in range(len(whole)):
        with pytest.raises(ValueError):
            metadata_list.read(whole[:size])


def test_a_field_of_a_type_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown type"):
        metadata_list.read(listed(LIST, b"\x1f\x00"))
