"""What `latchkey doctor` says about the database as a whole: nodes, sizes, connections, standbys, projects, customer
lists, and with several hosts who is the primary and what a failover would lose."""

from collections.abc import Iterator, Sequence

import asyncpg

from latchkey.database.errors import StorageError
from latchkey.database.pool import Database
from latchkey.database.primary import Primary
from latchkey.database.servers import Server, Silent
from latchkey.database_address import parse
from latchkey.domain.instants import SECOND, Ms
from latchkey.subjects.deployment.rules import DeploymentReport, Finding, ListsReport, Node, troubles
from latchkey.subjects.deployment.usecases import look

# How many tables and projects are named.
NAMED = 3


async def deployment(url: str, now: Ms) -> list[Finding]:
    try:
        # As the service does: in a cluster, statements of projects are sent to the nodes.
        async with Database(url, max_size=1, connect_timeout=5, application_name="latchkey doctor") as database:
            standing = await look(database, now)
    except (StorageError, asyncpg.PostgresError) as error:
        return [Finding("unknown", "nodes", f"sizes and nodes cannot be read: {error}")]
    return [*told_about(standing), *troubles(standing)]


def told_about(standing: DeploymentReport) -> Iterator[Finding]:
    if standing.nodes:
        yield Finding("good", "nodes", f"Citus {standing.citus}: {'; '.join(_node(node) for node in standing.nodes)}")
    else:
        yield Finding("good", "nodes", "one PostgreSQL server, not distributed")
    largest = ", ".join(f"{table.name} {_gib(table.bytes)}" for table in standing.tables[:NAMED])
    yield Finding("good", "size", f"{_gib(standing.bytes)}; the largest tables: {largest}")
    server = standing.server
    yield Finding("good", "connections", f"{server.connections:,} of {server.most_connections:,} are used")
    yield Finding("good", "replication", _standbys(standing))
    hot = [project for project in standing.projects[:NAMED] if project.events]
    if hot:
        said = ", ".join(
            f"{project.id} ({project.lately:,} in the last day, {project.events:,} ever)" for project in hot
        )
        yield Finding("good", "projects", f"those with the most events: {said}")
    if standing.lists is not None:
        yield Finding(
            "good", "customer lists", f"{_behind(standing.lists)}; their tables take {_gib(standing.lists.bytes)}"
        )


def _behind(one: ListsReport) -> str:
    said = []
    if one.behind:
        waited = f"{one.lag // SECOND:,} s" if one.lag >= SECOND else "less than 1 s"
        said.append(f"{one.behind:,} events behind, the first of them for {waited}")
    if one.customers:
        noun = "customer is" if one.customers == 1 and not one.more else "customers are"
        said.append(f"{one.customers:,}{' or more' if one.more else ''} new {noun} not counted yet")
    return ", ".join(said) or "up to date with all events"


def _node(node: Node) -> str:
    state = f"PostgreSQL {node.server.version}" if node.server else "does not answer"
    held = f", {node.shards:,} shards, {_gib(node.shard_bytes)}" if node.shards else ""
    return f"{node.role} {node.name} ({state}{held})"


def _standbys(standing: DeploymentReport) -> str:
    if standing.server.is_standby:
        return "this server is a standby"
    if not standing.standbys:
        return "no standby follows this server"
    names: Sequence[str] = [
        f"{standby.name or standby.address or 'a standby'} "
        f"({standby.sync or 'hidden'}, {_gib(standby.lag_bytes or 0)} behind)"
        for standby in standing.standbys
    ]
    return ", ".join(names)


def _gib(count: int) -> str:
    return f"{count / 1024**3:,.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:,.1f} MiB"


async def hosts(url: str) -> Finding | None:
    """None if the address names one host."""
    address = parse(url)
    if not address.is_cluster:
        return None
    answers = await Primary(address).survey()
    words = ", ".join(f"{answer.host.name} {_role(answer)}" for answer in answers)
    writable = [answer for answer in answers if isinstance(answer, Server) and answer.takes_changes]
    if len(writable) > 1:
        oldest = min(writable, key=lambda one: one.timeline)
        remedy = f"Stop {oldest.host.name} and make it a standby again: docs/failover.md. Latchkey does not use it."
        return Finding("bad", "hosts", words, remedy)
    if not all(server.waits_for_standby for server in writable):
        remedy = (
            "Commits wait for no standby (synchronous_standby_names is empty, or synchronous_commit is off or local): "
            "a failover may lose purchases that were confirmed."
        )
        return Finding("unknown", "hosts", words, remedy)
    if len(answers) - len(writable) > sum(isinstance(answer, Server) and answer.is_standby for answer in answers):
        return Finding("unknown", "hosts", words, "Until the others are standbys again, nobody can take over.")
    return Finding("good", "hosts", f"{words}; commits wait for a standby")


def _role(one: Server | Silent) -> str:
    if isinstance(one, Silent):
        return one.reason
    if one.is_standby:
        return "is a standby"
    return f"{'takes' if one.takes_changes else 'refuses'} changes (timeline {one.timeline})"
