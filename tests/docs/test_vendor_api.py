"""docs/vendor-api.md lists every operation of the vendor, and says truly which of them are served."""

import re
from pathlib import Path

from latchkey.process.http_application import routes

PAGE = (Path(__file__).parents[2] / "docs" / "vendor-api.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (GET|POST|DELETE) `(/[^`]+)` \| ([a-z ]+) \|(.*)\|$", re.MULTILINE)
STATUSES = {"served", "with additions", "left out"}
V1, V2, BETA, EXTERNAL = 15, 85, 3, 1


def operations() -> list[tuple[str, str, str, str]]:
    return [(method, whole(path), status, notes.strip()) for method, path, status, notes in ROW.findall(PAGE)]


def whole(path: str) -> str:
    return path if path.startswith(("/v1/", "/v2/")) else f"/v2/projects/{{project_id}}{path}"


def unnamed(path: str) -> str:
    """The path without the names of its parameters."""
    return re.sub(r"\{\w+\}", "{}", path)


def test_every_operation_of_the_vendor_has_one_row() -> None:
    found = operations()
    assert len({(method, path) for method, path, _, _ in found}) == len(found)
    v1 = [path for _, path, _, _ in found if path.startswith("/v1/")]
    assert len(v1) == V1 + EXTERNAL
    assert len(found) - len(v1) == V2 + BETA
    assert {status for _, _, status, _ in found} <= STATUSES


def test_what_is_served_has_a_route_and_what_is_left_out_has_a_reason_and_none() -> None:
    here = {(method.upper(), unnamed(path)) for path, item in routes().openapi()["paths"].items() for method in item}
    for method, path, status, notes in operations():
        if status in {"served", "with additions"}:
            assert (method, unnamed(path)) in here, f"{method} {path} has no route"
        elif status == "left out":
            assert (method, unnamed(path)) not in here, f"{method} {path} has a route"
            assert notes, f"{method} {path} is left out without a reason"
