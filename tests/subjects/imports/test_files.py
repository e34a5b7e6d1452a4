"""Files in every form in which they come."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from latchkey.domain.refusal import Invalid
from latchkey.subjects.imports.usecases.import_files import Record, opened, source
from tests.subjects.imports.conftest import Desk
from tests.subjects.imports.vendor_rows import file_of, row


def read(path: Path) -> list[Record]:
    with opened(path) as content:
        return list(content.records)


def cells(path: Path) -> list[dict[str, object]]:
    return [one.cells for one in read(path)]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", [{"a": "1", "b": "2"}]),
        ("\ufeffa,b\r\n1,2\r\n", [{"a": "1", "b": "2"}]),
        ("a;b\n1,5;2\n", [{"a": "1,5", "b": "2"}]),
        ("\n a , b \n1,2", [{"a": "1", "b": "2"}]),
        ('a,b\n"x ""y"", z",2\n', [{"a": 'x "y", z', "b": "2"}]),
        ('a,b\n"two\nlines",2\n', [{"a": "two\nlines", "b": "2"}]),
        # Quotes with backslashes before them.
        (r'a,b' '\n' r'"{\"k\": \"v\", \"l\": 1}",2', [{"a": '{"k": "v", "l": 1}', "b": "2"}]),
        (r'a,b' '\n' r'"{\"k\": 1}",2', [{"a": '{"k": 1}', "b": "2"}]),
        # A backslash that is part of the JSON, in doubled quotes.
        (r'a,b' '\n' r'"{""k"": ""x\ny \""z\"" ""}",2', [{"a": r'{"k": "x\ny \"z\" "}', "b": "2"}]),
        (r'a,b' '\n' r'"one\two\",2', [{"a": "one\\two\\", "b": "2"}]),
        ('{"a": 1}\n\n{"b": [2]}\n', [{"a": 1}, {"b": [2]}]),
    ],
)  # fmt: skip
def test_a_file_is_read(written: Path, text: str, expected: list[dict[str, object]]) -> None:
    for content in (text.encode(), gzip.compress(text.encode())):
        written.write_bytes(content)
        assert cells(written) == expected


def test_a_record_that_cannot_be_read_is_a_problem_of_its_own(written: Path) -> None:
    written.write_text('a,b\n1,2\n1,2,3\n"q\nq",2\n1\n')
    assert [(one.line, one.problem is None) for one in read(written)] == [(2, True), (3, False), (4, True), (6, False)]
    written.write_text('{"a": 1}\nnonsense\n[1]\n{"a": 2}')
    assert [(one.line, one.problem is None) for one in read(written)] == [(1, True), (2, False), (3, False), (4, True)]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n\xff\xfe,1\n", "is not UTF-8"),
        (gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:40], "is damaged, or not complete"),
        (b"a,b\n\0,1\n", "contains NUL"),
        (b"a,b\n" + b"x" * 5_000_000, "a line of more than 4,194,304 characters"),
        (b'a,b\n"' + b"x,\n" * 2_000_000, "line 2: a quoted cell does not end"),
        (b'a,b\n1,2\n3,"4\n5,6\n7,8\n', "line 3: a quoted cell does not end"),
        (b'a,b\n1,"2', "line 2: a quoted cell does not end"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(written: Path, content: bytes, complaint: str) -> None:
    written.write_bytes(content)

    def use() -> None:
        source(written)
        read(written)

    with pytest.raises(Invalid, match=complaint):
        use()


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read: No such file or directory"):
        source(tmp_path / "nothing")
    with pytest.raises(Invalid, match="cannot be read: Is a directory"):
        source(tmp_path)


def test_a_large_file_is_never_in_memory(written: Path) -> None:
    written.write_bytes(gzip.compress(b"a,b\n" + (b"x" * 2000 + b",text\n") * 10_000))
    tracemalloc.start()
    with opened(written) as content:
        assert sum(1 for _ in content.records) == 10_000
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n", "has no column app_user_id"),
        ("app_user_id,shoe_size\nada,39\n", "has a column that customers do not have: shoe_size"),
        ("app_user_id,transaction_id,shoe_size\nada,1,39\n", "has a column that transactions do not have: shoe_size"),
        ("app_user_id,transaction_id\nada,1\n", "has no column store, which transactions need"),
        ('{"app_user_id": "ada", "shoe_size": 39}', "line 1 has a column that customers do not have: shoe_size"),
    ],
)
async def test_a_file_of_another_kind_is_refused_before_anything_is_written(
    desk: Desk, text: str, complaint: str
) -> None:
    with pytest.raises(Invalid, match=complaint):
        await desk.take(text, format="latchkey")
    assert await desk.database.pool.fetchval("select count(*) from customers") == 0


async def test_a_file_that_is_no_export_of_the_vendor_names_what_is_missing(desk: Desk) -> None:
    with pytest.raises(Invalid, match="is_auto_renewable, start_time is missing"):
        await desk.take(file_of([row()]).replace("start_time", "x").replace("is_auto_renewable", "y"))


async def test_two_files_with_the_same_content_are_a_mistake(desk: Desk) -> None:
    with pytest.raises(Invalid, match="Two of the files have the same content"):
        await desk.take(file_of([row()]), file_of([row()]))


async def test_the_vendors_list_of_customers_brings_those_who_never_bought(desk: Desk) -> None:
    listed = (
        "App User ID;First Seen At;Last Seen At;Last Seen Platform;Email;Custom Attributes;Total Spent\n"
        'ada;1767225600000;1767312000000;android;ada@example.com;"{""level"": ""7""}";9.99\n'
        "bob;1767225600000;;;;;\n"
    )
    result = await desk.take(desk.file(listed, "list.csv", gzipped=True), file_of([row()]))
    assert result.counts["new customers"] == 2
    ada, bob = await desk.customer("ada"), await desk.customer("bob")
    assert {name: one.value for name, one in ada.attributes.items()} == {"$email": "ada@example.com", "level": "7"}
    assert len(ada.subscriptions) == 1
    assert bob.first_seen_at == 1_767_225_600_000
