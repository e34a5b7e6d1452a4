"""Arrays in PostgreSQL's notation: what is written is what the database reads."""

import pytest

from latchkey.database.pool import Database
from latchkey.database.sql import columns, notation, values_of

TEXTS = ["", "USD", "null", 'a "word"', "back\\slash", "{1,2}", "a,b", " ", "ä🔑", "line\nend\x1f", None]
NUMBERS = [0, -1, 2**63 - 1, -(2**63), None]


@pytest.mark.parametrize(
    ("type", "values"), [("text", TEXTS), ("bigint", NUMBERS), ("boolean", [True, False, None]), ("text", [])]
)
async def test_the_database_reads_what_was_written(database: Database, type: str, values: list[str | int]) -> None:
    async with database.acquire() as connection:
        assert await connection.fetchval(f"select $1::text::{type}[]", notation(values)) == values
    assert values_of(notation(values)) == values


def test_columns_are_written_so_unless_they_are_listed() -> None:
    assert list(columns([("a", 1, b"x"), ("b", None, b"y")], 3, (2,))) == ['{"a","b"}', "{1,null}", (b"x", b"y")]
    assert list(columns([], 3, (2,))) == ["{}", "{}", ()]
