"""Named queries, and arrays in PostgreSQL's notation: what is written is what the database reads."""

import re
from pathlib import Path

import pytest

import latchkey
from latchkey.database.errors import QueryNotNamedError
from latchkey.database.pool import Database
from latchkey.database.sql import all_queries, notation, parse, query, values_of


def test_a_file_holds_several_queries_each_with_its_purpose() -> None:
    first, second = parse(
        "-- name: load_customers\n-- what a read needs\nselect 1\n  from customers;\n\n"
        "-- name: drop_it\n-- for tests\ndelete from x -- all of it\n",
        "customers.sql",
    )
    assert (first.name, first.purpose, first.text) == (
        "load_customers",
        "what a read needs",
        "select 1\n  from customers",
    )
    assert second.text == "delete from x -- all of it"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: a\nselect 1", "what it is for"),
        ("-- name: a\n-- why\n", "has no SQL"),
        ("select 1", "before its first"),
    ],
)
def test_a_query_without_a_name_a_purpose_or_sql_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(QueryNotNamedError, match=complaint):
        parse(text, "broken.sql")


def test_what_several_queries_share_stands_once() -> None:
    parts: dict[str, str] = {}
    (only,) = parse("-- part: both\na, b\n\n-- name: c\n-- for tests\nselect {both} from c;\n", "c.sql", parts)
    assert (only.text, parts) == ("select {both} from c", {"both": "a, b"})
    assert "{" not in query("products_of_packages")
    assert "p.display_name" in query("products_of_packages")


def test_a_misspelt_name_is_refused() -> None:
    with pytest.raises(QueryNotNamedError, match="lod_customers"):
        query("lod_customers")


def test_every_query_in_the_package_can_be_read() -> None:
    for named in all_queries().values():
        assert named.purpose
        assert query(named.name) == named.text


def test_every_query_that_is_named_is_defined() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(latchkey.__file__).parent.rglob("*.py")]
    named = {name for source in sources for name in re.findall(r'\bquery\(\s*"(\w+)"', source)}
    assert named - all_queries().keys() == set()


def test_every_query_is_used() -> None:
    folder = Path(latchkey.__file__).parent
    lines = (line for path in folder.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines())
    named = {text for line in lines if not line.lstrip().startswith("#") for text in re.findall(r'"(\w+)"', line)}
    assert [name for name in all_queries() if name not in named] == []


TEXTS = ["", "USD", "null", 'a "word"', "back\\slash", "{1,2}", "a,b", " ", "ä🔑", "line\nend\x1f", None]
NUMBERS = [0, -1, 2**63 - 1, -(2**63), None]


@pytest.mark.parametrize(
    ("type", "values"), [("text", TEXTS), ("bigint", NUMBERS), ("boolean", [True, False, None]), ("text", [])]
)
async def test_the_database_reads_what_was_written(database: Database, type: str, values: list[str | int]) -> None:
    assert await database.pool.fetchval(f"select $1::text::{type}[]", notation(values)) == values
    assert values_of(notation(values)) == values
