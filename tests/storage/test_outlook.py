"""The one look for background work is written twice: for one server as a whole, for a cluster in two parts."""

from __future__ import annotations

from latchkey.storage.sql import query


def without_select(name: str) -> str:
    lines = (line for line in query(name).splitlines() if not line.lstrip().startswith("--"))
    return " ".join(" ".join(lines).split()).removeprefix("select ").removesuffix(";")


def test_a_cluster_is_asked_the_same_as_one_server() -> None:
    at_home, in_projects = without_select("look_out_at_home"), without_select("look_out_in_projects")
    assert f"{at_home}, {in_projects}" == without_select("look_out")
