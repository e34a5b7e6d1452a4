"""What the old database notes for us: a publication names the tables, a slot keeps the WAL until we have read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating.decoding import Transaction, transactions
from latchkey.storage.relocating.tables import Described

NAME: Final = "latchkey_relocation"


async def require_fit(source: Any) -> None:
    """Raise unless this server notes changes and this user may read them."""
    if await source.fetchval("select current_setting('wal_level')") != "logical":
        raise NotRelocatableError(
            "The server does not note changes for others: set `wal_level = logical` in its postgresql.conf and restart "
            "PostgreSQL once (the service waits meanwhile and goes on)."
        )
    row = await source.fetchrow(
        "select r.rolsuper or r.rolreplication as replicates,"
        " r.rolsuper or pg_has_role(d.datdba, 'member') as owns"
        " from pg_roles r, pg_database d where r.rolname = current_user and d.datname = current_database()"
    )
    if not row["replicates"]:
        raise NotRelocatableError("This user may not read changes: run `alter role <user> replication` on the server.")
    if not row["owns"]:
        raise NotRelocatableError(
            "This user does not own the database, and could not stop writes to it for the switch."
        )
    if await source.fetchval("select count(*) from pg_prepared_xacts where database = current_database()"):
        raise NotRelocatableError("The database has prepared transactions. End them first.")


async def system_of(connection: Any) -> str:
    found: str = await connection.fetchval(
        "select system_identifier::text || '/' || (select oid from pg_database where datname = current_database())"
        " from pg_control_system()"
    )
    return found


async def create(source: Any, tables: Iterable[Described]) -> None:
    listed = ", ".join(f"public.{one.name}" for one in tables if not one.unlogged)
    await source.execute(f"create publication {NAME} for table {listed} with (publish_via_partition_root = true)")
    await source.fetchval("select pg_create_logical_replication_slot($1, 'pgoutput')", NAME)


async def exists(source: Any) -> bool:
    found: bool = await source.fetchval(
        "select exists (select from pg_replication_slots where slot_name = $1 and database = current_database()"
        " and coalesce(wal_status, '') <> 'lost')",
        NAME,
    )
    return found


async def drop(source: Any) -> None:
    await source.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
        " where slot_name = $1 and database = current_database()",
        NAME,
    )
    await source.execute(f"drop publication if exists {NAME}")


async def peek(source: Any, *, most: int | None = None, up_to: int | None = None) -> list[Transaction]:
    """The next transactions, in the order of their commits. They stay in the slot until `advance`."""
    rows = await source.fetch(
        "select data from pg_logical_slot_peek_binary_changes("
        " $1::text::name, $2, $3, 'proto_version', '1', 'publication_names', $1::text)",
        NAME,
        up_to,
        most,
    )
    return transactions(row["data"] for row in rows)


async def advance(source: Any, lsn: int) -> None:
    await source.execute(
        "select pg_replication_slot_advance($1, least($2::pg_lsn, pg_current_wal_flush_lsn()))", NAME, lsn
    )


async def written(source: Any) -> int:
    """Up to where the server has written, whether it is on the disk or not."""
    lsn: int = await source.fetchval("select pg_current_wal_insert_lsn()")
    return lsn


async def flushed(source: Any) -> int:
    lsn: int = await source.fetchval("select pg_current_wal_flush_lsn()")
    return lsn


async def behind(source: Any) -> int:
    """Bytes of WAL that we have not read."""
    lag: int = await source.fetchval(
        "select (pg_current_wal_insert_lsn() - confirmed_flush_lsn)::bigint from pg_replication_slots"
        " where slot_name = $1",
        NAME,
    )
    return lag
