"""What is not in a row: the next values of sequences, and what a cluster counts in another way."""

from __future__ import annotations

from typing import Any

from latchkey.storage.errors import NotRelocatableError

_SEQUENCES = "select sequencename::text as name, last_value from pg_sequences where schemaname = 'public'"
_COUNTER = "customers_id_seq"
# The column that each sequence is for.
_OWNERS = """
select s.relname::text as name, t.relname::text as table, a.attname::text as column
from pg_depend d
join pg_class s on s.oid = d.objid and s.relkind = 'S' and s.relnamespace = 'public'::regnamespace
join pg_class t on t.oid = d.refobjid
join pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid
where d.deptype in ('a', 'i')
"""


async def take_over(source: Any, target: Any) -> int:
    """Nothing gets a number that the old database has given. How many sequences there are."""
    rows = {row["name"]: row["last_value"] for row in await source.fetch(_SEQUENCES)}
    for name, last in rows.items():
        await target.execute(
            "select setval(format('public.%I', $1::text)::regclass, $2, $3)", name, last or 1, last is not None
        )
    there = {row["name"]: row["last_value"] for row in await target.fetch(_SEQUENCES)}
    if there != rows:
        raise NotRelocatableError("The sequences are not the same in both databases.")
    return len(rows)


async def into_cluster(source: Any, target: Any) -> None:
    """A cluster counts the keys of customers for each project. Transaction ids of the old server mean nothing here."""
    last = await source.fetchval("select coalesce(last_value, 0) from pg_sequences where sequencename = $1", _COUNTER)
    projects = [row["id"] for row in await target.fetch("select id from projects")]
    await target.execute("delete from customer_keys")
    await target.execute(
        "insert into customer_keys (project_id, last) select id, $2 from unnest($1::text[]) as id", projects, last
    )
    await _forget_transaction_ids(target)


async def into_plain(source: Any, target: Any) -> None:
    """One counter for all projects, beyond all of theirs; so are the other sequences, of which each node has its own
    range."""
    counted = await source.fetchval("select coalesce(max(last), 0) from customer_keys")
    owners = await target.fetch(_OWNERS)
    for row in owners:
        last = await target.fetchval(f'select coalesce(max("{row["column"]}"), 0) from public.{row["table"]}')  # noqa: S608
        if row["name"] == _COUNTER:
            last = max(last, counted)
        await target.execute("select setval($1::text::regclass, $2, $3)", row["name"], max(last, 1), last > 0)
    await _forget_transaction_ids(target)


async def _forget_transaction_ids(target: Any) -> None:
    """The roller compares them with those of running transactions: 0 is below all of these."""
    await target.execute("update facet_rolls set mark_xid = 0 where mark_xid is not null")
