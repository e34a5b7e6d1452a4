"""Statements as functions on the node of their project.

Citus plans every statement anew and sends its text; a statement of several joins costs more to plan than to run. So
each statement of one project is a function there. Citus sends the call to the node that has the project
(`create_distributed_function`), and the function uses the tables of the project's shard by their own names, with plans
that are kept, as on plain PostgreSQL. That also allows what Citus has no plans for: ctid, locks with joins, and
writes in common table expressions.

    at_project.name_digest(project, ...)    sent to the node of the project; calls
    at_shard.name_digest_102008(...)        the statement with the tables of one shard; made on its first use.
                                            A process that asks a node itself (`nodes.py`) calls it at once
    at_node.name_digest(null, ...)          the same for all shards of the node that is asked, for what is due
    at_home.name_digest(...)                a statement on the coordinator's copies of reference tables

The digest is of the statement, so that two releases can run beside each other.
"""

import re
from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from latchkey.database.distribution import statements
from latchkey.database.sql import all_queries, query

_WRITTEN = re.compile(r"\b(?:insert\s+into|update|delete\s+from)\s+(?P<table>[a-z_]+)\b", re.IGNORECASE)
_LOCKED = re.compile(r"\bfor\s+(?:no\s+key\s+)?(?:update|share)\b", re.IGNORECASE)

# As of the hot pool on plain PostgreSQL; see `database.py`.
_SETTINGS = """
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_memoize = off set jit = off
set lock_timeout = '10s'
"""

# Reads of one project, apart from the hottest, are planned as on the ordinary pool: with statistics, by their values.
_ORDINARY = """
set plan_cache_mode = auto
set enable_seqscan = on set enable_hashjoin = on set enable_mergejoin = on set enable_memoize = on
"""
_HOT_READS = frozenset({"read_leased", "read_admitted", "look_at_customers"})

# The shard of a project, for a change (see setup.sql) and for a read.
_HELD = "at_project.hold(of_project)"
_SEEN = "get_shard_id_for_distribution_column('public.feeds', of_project)"
# A read that is sent to the node of its shard.
_DIRECT = "select {columns} from at_shard.{label}_{{shard}}({values}) where at_node.serves({{shard}})"


class Function(Struct, frozen=True):
    """A statement, as `at_project.statements` keeps it."""

    name: str
    # Of the function's own text.
    digest: str
    # 'project' or 'home'.
    place: str
    # Of the inner function.
    arguments: str
    returns: str
    body: str
    # The outer function, and how the statement is called with it.
    outer: str
    call: str
    types: tuple[str, ...]
    # For all shards of a node, if it is asked so.
    on_node: str | None = None

    @property
    def label(self) -> str:
        return f"{self.name}_{self.digest}"


def wanted() -> list[str]:
    return [
        name
        for name in all_queries()
        if not isinstance(route := statements.routes()[name], statements.Apart | statements.Planned)
        and not (isinstance(route, statements.Home) and not route.quick)
    ]


def source_digest(name: str) -> str:
    """Of what this code says of a statement: a process uses only functions that were made of its own statements."""
    text = query(name)
    said = [text if name == "write_changes" else template(name, text), _SETTINGS, _OUTER, _HELD, _SEEN, _DIRECT]
    if _is_ordinary(name):
        said.append(_ORDINARY)
    if is_asked_of_nodes(name):
        said.append(_ON_NODE)
    return sha256("\0".join(said).encode()).hexdigest()[:16]


def template(name: str, text: str) -> str:
    """The text with @table@ where a shard's table has to be named."""
    bare = statements.COMMENT.sub("", text)
    home = isinstance(statements.routes()[name], statements.Home)
    for match in _WRITTEN.finditer(bare):
        if statements.TABLES.get(match["table"].lower()) == "reference":
            raise statements.UnfitStatementError(f"{name} writes {match['table']}, of which every node has a copy.")

    def placed(match: re.Match[str]) -> str:
        table = match["table"].lower()
        place = statements.TABLES.get(table)
        if place is None or (home and place == "local"):
            return match[0]
        if place == "local" or (home and place == "by project"):
            raise statements.UnfitStatementError(f"{name} uses {table}, which is {place}.")
        return f"{match['before']}{match['space']}@{table}@"

    return statements.INSERTED.sub(placed, statements.TABLE.sub(placed, bare))


def writes(text: str) -> bool:
    bare = statements.COMMENT.sub("", text)
    return bool(_WRITTEN.search(bare) or _LOCKED.search(bare))


def direct_call(call: str) -> str:
    """How a read is called on the node of its shard, where `{shard}` is the shard's number: without the project, which
    only Citus needs."""
    columns, _, rest = call.removeprefix("select ").partition(" from at_project.")
    label, _, values = rest.removesuffix(")").partition("(")
    own = ", ".join(f"${number}" for number in range(1, values.count("$")))
    return _DIRECT.format(columns=columns, label=label, values=own)


def is_asked_of_nodes(name: str) -> bool:
    """Whether it reads what is due on all shards of a node."""
    route = statements.routes()[name]
    return isinstance(route, statements.EachShard) and route.by_node and not writes(query(name))


def _is_ordinary(name: str) -> bool:
    return isinstance(statements.routes()[name], statements.AtProject) and name not in _HOT_READS and only_reads(name)


def only_reads(name: str) -> bool:
    return name != "write_changes" and not writes(query(name))


def function(
    name: str,
    text: str,
    parameters: Sequence[str],
    columns: Sequence[tuple[str, str]],
    *,
    source: tuple[str, str] | None = None,
) -> Function:
    """`parameters` are types, `columns` names and types. `source`: the statement calls a function with these arguments
    and this body, which are used in its place."""
    home = isinstance(statements.routes()[name], statements.Home)
    declared = ", ".join(f"a{number} {type}" for number, type in enumerate(parameters, 1))
    results = [(f"c{number}", type, column) for number, (column, type) in enumerate(columns, 1)]
    if source is not None:
        arguments, body = source
        returns, body = columns[0][1], template(name, body)
    else:
        arguments, body = declared, template(name, text)
        if results:
            returns = "table (" + ", ".join(f"{made} {type}" for made, type, _ in results) + ")"
            body = f"begin return query {body}; end"
        else:
            returns = "bigint"
            body = f"declare amount bigint; begin {body}; get diagnostics amount = row_count; return amount; end"
    digest = sha256("\0".join((arguments, returns, body, source_digest(name))).encode()).hexdigest()[:10]
    label = f"{name}_{digest}"
    values = ", ".join(f"${number}" for number in range(1, len(parameters) + 1))
    on_node: str | None = None
    listed = ", ".join(f'{made} as "{column}"' for made, _, column in results)
    if home:
        outer = f"create or replace function at_home.{label}({arguments}) returns {returns} language plpgsql{_SETTINGS}"
        call = f"select {listed or '*'} from at_home.{label}({values})"  # noqa: S608
    else:
        whole = returns if results else "table (c1 bigint)"
        if source is not None:
            whole = f"table (c1 {returns})"
        said = {
            "label": label,
            "declared": f"of_project text, {declared}" if declared else "of_project text",
            "whole": whole,
            "settings": _SETTINGS,
            "values": values,
            "using": " using " + ", ".join(f"a{n}" for n in range(1, len(parameters) + 1)) if parameters else "",
        }
        outer = _OUTER.format(shard=_HELD if source is not None or writes(text) else _SEEN, **said)
        on_node = _ON_NODE.format(**said) if is_asked_of_nodes(name) else None
        shifted = ", ".join(f"${number}" for number in range(1, len(parameters) + 2))
        call = f"select {listed or 'c1'} from at_project.{label}({shifted})"  # noqa: S608
    if _is_ordinary(name):
        returns += _ORDINARY
    place, types = "home" if home else "project", ("text", *parameters)
    return Function(name, digest, place, arguments, returns, body, outer, call, types, on_node)


_OUTER = """
create or replace function at_project.{label}({declared}) returns {whole} language plpgsql {settings} as $outer$
declare shard bigint := {shard};
begin
    if to_regproc('at_shard.{label}_' || shard) is null then
        perform at_project.make('{label}', shard);
    end if;
    return query execute 'select * from at_shard.{label}_' || shard || '({values})'{using};
end $outer$
"""

_ON_NODE = """
create or replace function at_node.{label}({declared}) returns {whole} language plpgsql {settings} as $outer$
declare shard bigint;
begin
    for shard in select at_node.shards() loop
        if to_regproc('at_shard.{label}_' || shard) is null then
            perform at_project.make('{label}', shard);
        end if;
        return query execute 'select * from at_shard.{label}_' || shard || '({values})'{using};
    end loop;
end $outer$
"""
