# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of the metadata of objects, as the API server writes them in protobuf.

Of each object only what says which one it is, and in which version, is read. Nine tenths of the metadata tell who wrote which field:
as JSON all of it has to be read, here it is stepped over. Field numbers are those of meta/v1 in the API of Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .api import Form

_ACCEPT = ",".join(
    f"{form};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" for form in ("application/vnd.kubernetes.protobuf", "application/json")
)
# What comes before an Unknown of the runtime, whose field 2 is the object itself.
_MAGIC = b"k8s\x00"
_RAW = 2
_LIST_METADATA, _ITEM, _ITEM_METADATA = 1, 2, 1
_OF_LIST = {2: "resourceVersion", 3: "continue"}
_OF_ITEM = {1: "name", 3: "namespace", 5: "uid", 6: "resourceVersion"}
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


def read(body: bytes) -> dict[str, Any]:
    """The list that a server answered, in either form. Raises ValueError for what is neither."""
    if not body.startswith(_MAGIC):
        found: dict[str, Any] = json.loads(body)
        return found
    metadata: dict[str, str] = {}
    items: list[dict[str, Any]] = []
    for number, begin, end in _fields(body, *_one(body, len(_MAGIC), len(body), _RAW)):
        if number == _LIST_METADATA:
            metadata = _texts(body, begin, end, _OF_LIST)
        elif number == _ITEM:
            items.append({"metadata": _texts(body, *_one(body, begin, end, _ITEM_METADATA), _OF_ITEM)})
    return {"metadata": metadata, "items": items}


def _one(data: bytes, begin: int, end: int, wanted: int) -> tuple[int, int]:
    """Where the first field with this number is."""
    for number, first, last in _fields(data, begin, end):
        if number == wanted:
            return first, last
    raise ValueError(f"the answer of the server has no field {wanted}")


def _texts(data: bytes, begin: int, end: int, names: dict[int, str]) -> dict[str, str]:
    """The fields with these numbers, which are texts. Fields come in the order of their numbers."""
    found, last = {}, max(names)
    for number, first, after in _fields(data, begin, end):
        if number > last:
            break
        if number in names:
            found[names[number]] = data[first:after].decode()
    return found


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of each field between two places. Numbers themselves are stepped over."""
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > end:
                raise ValueError("the answer of the server is cut off")
            yield tag >> 3, at, at + size
            at += size
        elif kind == _VARINT:
            dummy, at = _varint(data, at)
        elif kind in (_FIXED_64, _FIXED_32):
            at += 8 if kind == _FIXED_64 else 4
        else:
            raise ValueError(f"the answer of the server has a field of unknown type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value, shift = 0, 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("the answer of the server is cut off")


FORM = Form(_ACCEPT, read)
