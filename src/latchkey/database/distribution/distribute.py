"""Makes a database a distributed one, and keeps it so after each migration.

Every step looks at what is there and does what is missing. So it can be repeated, and continues where it was
interrupted.
"""

import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Final

from latchkey.database.distribution.functions import Function, function, source_digest, wanted
from latchkey.database.distribution.statements import TABLES
from latchkey.database.errors import DistributionError
from latchkey.database.migrate import commands, pending_after
from latchkey.database.sql import query

Told = Callable[[str], None]

# The first table that is spread; the others are on the nodes where its rows are.
FIRST: Final = "feeds"
# More than any cluster has nodes, so that projects can be moved in small parts; see docs/scaling.md.
SHARDS: Final = 32
_SHARED_FUNCTIONS = (
    "at_node.shards()",
    "at_project.refuse()",
    "at_project.hold(text)",
    "at_node.serves(bigint)",
    "public.next_customer_keys(text, bigint)",
    "public.wake_deliveries(bigint[])",
    "public.export_epoch()",
    "at_project.make(text, bigint)",
    "at_project.make_all()",
)


async def require_cluster(connection: Any) -> None:
    """Raise unless this is the coordinator of a cluster that rows can be spread over."""
    if not await connection.fetchval("select exists (select from pg_extension where extname = 'citus')"):
        known = await connection.fetchval("select exists (select from pg_available_extensions where name = 'citus')")
        raise DistributionError(
            "This PostgreSQL has Citus, but the database does not: run `create extension citus` in it on every node, "
            "then `select citus_set_coordinator_host(...)` and `select citus_add_node(...)` on the coordinator."
            if known
            else "Citus is not installed in this PostgreSQL. Rows can be spread over nodes only with it; "
            "docs/scaling.md says more."
        )
    nodes = await connection.fetch(
        "select groupid, shouldhaveshards from pg_dist_node where isactive and noderole = 'primary'"
    )
    if await connection.fetchval("select groupid from pg_dist_local_group") != 0:
        raise DistributionError("This node is a worker. LATCHKEY_DATABASE_URL must name the coordinator.")
    if not any(node["groupid"] == 0 for node in nodes):
        raise DistributionError(
            "The coordinator does not know its own address: run `select citus_set_coordinator_host('<host>', <port>)` "
            "in this database, with the address that the workers reach it by."
        )
    if not any(node["groupid"] != 0 and node["shouldhaveshards"] for node in nodes):
        raise DistributionError(
            "The cluster has no workers: run `select citus_add_node('<host>', <port>)` in this database for each."
        )


async def undistributed(connection: Any) -> list[str]:
    there = await _distributed_tables(connection)
    return [table for table, place in TABLES.items() if place != "local" and table not in there]


async def distribute(connection: Any, told: Told = lambda _: None, *, shards: int = SHARDS) -> None:
    """Spread the tables. The connection must not be in a transaction: each table is one of its own."""
    await connection.execute("set client_min_messages = warning")
    # A plan for all projects at once cannot be sent to one node.
    await connection.execute("set plan_cache_mode = auto")
    await connection.execute("set citus.multi_shard_modify_mode = 'sequential'")
    for command in commands((files("latchkey.database.distribution") / "setup.sql").read_text(encoding="utf-8")):
        await connection.execute(command)
    missing = await undistributed(connection)
    if missing:
        await _put_keys_aside(connection, missing)
        for table in missing:
            await _spread(connection, table, _command(table, shards), told)
    if "at_project.statements" not in await _distributed_tables(connection):
        await connection.execute("select create_reference_table('at_project.statements')")
    await _put_keys_back(connection, told)
    await _make_functions(connection, told)


async def require_finished_upgrade(connection: Any) -> None:
    """Raise if an upgrade waits for its second half, which changes tables in ways that a distributed one forbids."""
    if waiting := await pending_after(connection):
        raise DistributionError(
            f"The last upgrade is not finished ({waiting[0].label} is pending). Run `latchkey migrate --after` first."
        )


def _command(table: str, shards: int) -> str:
    if TABLES[table] == "reference":
        return f"select create_reference_table('public.{table}')"
    if table != FIRST:
        return f"select create_distributed_table('public.{table}', 'project_id', colocate_with := 'public.{FIRST}')"
    return (
        f"select create_distributed_table('public.{table}', 'project_id', colocate_with := 'none',"
        f" shard_count := {int(shards)})"
    )


async def _distributed_tables(connection: Any) -> set[str]:
    rows = await connection.fetch(
        "select case when n.nspname = 'public' then c.relname else n.nspname || '.' || c.relname end::text as name"
        " from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid"
        " join pg_namespace n on n.oid = c.relnamespace"
        # Tables that Citus keeps an eye on because of their foreign keys are still on the coordinator alone.
        " where not (p.partmethod = 'n' and p.repmodel = 's')"
    )
    return {row["name"] for row in rows}


async def _spread(connection: Any, table: str, command: str, told: Told) -> None:
    rows = await connection.fetchval(f"select count(*) from public.{table}")  # noqa: S608
    began = time.monotonic()
    await connection.execute(command)
    if rows:
        # The rows are on the nodes now; these are the copies that were left behind.
        await connection.execute(f"select truncate_local_data_after_distributing_table('public.{table}')")
    told(f"{table}: {TABLES[table]}, {rows} rows in {time.monotonic() - began:.1f} s")


async def _put_keys_aside(connection: Any, missing: Sequence[str]) -> None:
    """Foreign keys between tables that are not distributed alike hinder distributing them. They are noted first, so
    that they come back also after an interruption. Later, for a new table, only its own keys are put aside: to check
    all of them again would take long."""
    await connection.execute(
        "create table if not exists at_project.foreign_keys"
        " (name text, of_table text, definition text, primary key (of_table, name))"
    )
    touched = list(TABLES) if FIRST in missing else list(missing)
    keys = (
        "from pg_constraint c join pg_class r on r.oid = c.conrelid join pg_class f on f.oid = c.confrelid"
        " where c.contype = 'f' and c.connamespace = 'public'::regnamespace and c.conparentid = 0"
        # Not those of shards that the coordinator has.
        " and r.relname = any($1::text[]) and (r.relname = any($2::text[]) or f.relname = any($2::text[]))"
    )
    await connection.execute(
        f"insert into at_project.foreign_keys select c.conname, r.relname, pg_get_constraintdef(c.oid) {keys}"
        " on conflict do nothing",
        list(TABLES),
        touched,
    )
    for row in await connection.fetch(
        f"select r.relname::text as of_table, c.conname::text as name {keys}", list(TABLES), touched
    ):
        await connection.execute(f"alter table public.{row['of_table']} drop constraint {row['name']}")


async def _put_keys_back(connection: Any, told: Told) -> None:
    if await connection.fetchval("select to_regclass('at_project.foreign_keys')") is None:
        return
    missing = await connection.fetch(
        "select k.of_table, k.name, k.definition from at_project.foreign_keys k where not exists ("
        " select from pg_constraint c join pg_class r on r.oid = c.conrelid"
        " where c.contype = 'f' and r.relname = k.of_table and c.conname = k.name"
        " and r.relnamespace = 'public'::regnamespace) order by 1, 2"
    )
    for row in missing:
        await connection.execute(
            f"alter table public.{row['of_table']} add constraint {row['name']} {row['definition']}"
        )
    await connection.execute("drop table at_project.foreign_keys")
    told(f"{len(missing)} foreign keys added again")


async def _make_functions(connection: Any, told: Told) -> None:
    there = {row["label"] for row in await connection.fetch("select label from at_project.statements")}
    for signature in _SHARED_FUNCTIONS:
        await connection.execute(f"select create_distributed_function('{signature}')")
    made = [one for one in [await _function(connection, name) for name in wanted()] if one.label not in there]
    homes = {
        row["name"]: f"public.{row['name']}_{row['shardid']}"
        for row in await connection.fetch(
            "select c.relname::text as name, s.shardid from pg_dist_shard s join pg_class c on c.oid = s.logicalrelid"
            " join pg_dist_partition p using (logicalrelid)"
            " where p.partmethod = 'n' and p.repmodel = 't' and c.relnamespace = 'public'::regnamespace"
        )
    }
    for one in made:
        if one.place == "home":
            body = one.body
            for table, shard in homes.items():
                body = body.replace(f"@{table}@", shard)
            async with connection.transaction():
                await connection.execute("set local citus.enable_ddl_propagation = off")
                await connection.execute(f"{one.outer} as $inner$ {body} $inner$")
        else:
            await connection.execute(one.outer)
            types = ", ".join(one.types)
            await connection.execute(
                f"select create_distributed_function('at_project.{one.label}({types})', 'of_project',"
                f" colocate_with := 'public.{FIRST}', force_delegation := true)"
            )
            if one.on_node is not None:
                await connection.execute(one.on_node)
                await connection.execute(f"select create_distributed_function('at_node.{one.label}({types})')")
        # Last: whoever finds this row can use the function.
        await connection.execute(
            "insert into at_project.statements (label, name, digest, arguments, returns, body, call)"
            " values ($1, $2, $3, $4, $5, $6, $7) on conflict (label) do nothing",
            *(one.label, one.name, source_digest(one.name), one.arguments, one.returns, one.body, one.call),
        )
    results = await connection.fetch(
        "select success, result from run_command_on_workers('select at_project.make_all()')"
    )
    if failed := [row["result"] for row in results if not row["success"]]:
        raise DistributionError(f"A worker could not make the functions of its shards: {failed[0]}")
    if made:
        told(f"{len(made)} statements as functions on the nodes")


async def _function(connection: Any, name: str) -> Function:
    text = query(name)
    prepared = await connection.prepare(text)
    parameters = [parameter.name for parameter in prepared.get_parameters()]
    columns = [(attribute.name, attribute.type.name) for attribute in prepared.get_attributes()]
    source = None
    if name == "write_changes":
        row = await connection.fetchrow(
            "select pg_get_function_arguments(oid) as arguments, prosrc from pg_proc"
            " where oid = to_regproc('public.write_changes')"
        )
        source = (row["arguments"], row["prosrc"])
    return function(name, text, parameters, columns, source=source)
