"""Examples of replies, for the OpenAPI document: the files of `contract/`.

A test compares these files with the real replies, so the document cannot show what the service does not send. A wheel
has them inside the package; a checkout has them beside it.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from msgspec import json

_PROJECT = "/v2/projects/{project_id}"


def stem(path: str, method: str, status: str) -> str:
    """The folder and the beginning of the name of an example: `v2/customers.customer_id.get.200`."""
    words = [word.strip("{}") for word in path.removeprefix(_PROJECT).split("/") if word]
    folder = path.split("/")[1]
    if folder == "rcbilling":
        words = words[2:]
    elif words[:1] in (["v1"], ["v2"]):
        words = words[1:]
    return f"{folder}/{'.'.join([*(words or ['project']), method.lower(), status])}"


def examples(path: str, method: str, status: str) -> dict[str, Any]:
    """By name: what a reply with this status looks like. Empty where no file shows one, or it has no body."""
    found = _files().get(stem(path, method, status), {})
    return {name: {"value": json.decode(body)} for name, body in found.items()}


@cache
def _files() -> dict[str, dict[str, bytes]]:
    """By stem: the examples with their names. The file `receipts.post.400.invalid_receipt` is the example
    `invalid_receipt` of the stem `receipts.post.400`. It can also be the only example of a longer stem."""
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    folder = _folder()
    for room in folder.iterdir() if folder is not None else ():
        if not room.is_dir():
            continue
        for one in sorted(room.iterdir(), key=lambda file: file.name):
            if one.name.endswith(".json") and (body := one.read_bytes()):
                whole = f"{room.name}/{one.name.removesuffix('.json')}"
                start, _, name = whole.rpartition(".")
                found[whole]["example"] = body
                found[start][name] = body
    return dict(found)


def _folder() -> Traversable | None:
    packaged = files("latchkey") / "contract"
    beside = Path(__file__).parents[3] / "contract"
    return packaged if packaged.is_dir() else beside if beside.is_dir() else None
