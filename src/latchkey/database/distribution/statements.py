"""Where each named statement runs in a distributed database. It follows from the statement: the tables that it uses
(`TABLES`), and the parameter with the project.

- Without a table spread by project it is at home: it uses only tables that the coordinator has.
- A list of projects (`unnest($1::text[], ...) as a (project_id, ...)`) is taken apart, and sent once for each project.
- Otherwise the first parameter is the project.

What does not follow is in `_SPECIAL`. `tests/citus/test_statements.py` asks a real cluster.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from latchkey.database.sql import all_queries

# The list that `latchkey migrate --distributed` follows. A test compares it with the migrations.
Placement = Literal["reference", "by project", "local"]

# In the order in which they are to be distributed.
_PLACED: Final[dict[Placement, str]] = {
    # A copy on every node. Read with everything, changed seldom: each change is a commit on all nodes. The health of a
    # webhook changes when it begins to fail, at each failure after that, and when it recovers. `partitions` gets a row
    # when one is opened; partitions follow their tables.
    "reference": """
        projects apps api_keys entitlements products product_prices offerings packages package_products placements
        targeting_rules product_entitlements former_product_entitlements virtual_currencies experiments test_clocks
        webhooks store_connections former_notification_tokens former_public_keys exchange_rate_readings partitions
    """,
    # Spread by project_id, all in the same way: the rows of one project are on one node. `customer_keys` has the last
    # key of a customer in each project; only a distributed database has rows there.
    "by project": """
        feeds customers aliases customer_emails absorbed_customers purchase_owners purchase_endings offering_overrides
        purchase_transactions currency_transactions events deliveries lanes attempts chart_periods chart_customers
        store_handles gone_customers rewritten_events imports import_skips customer_keys facet_rolls facet_marks
        customer_facets customer_notes
    """,
    # On the coordinator alone: of the whole deployment, of accounts, or of few rows that one process works through.
    "local": """
        rate_windows request_log key_uses idempotent_requests event_traces accounts memberships sessions account_tokens
        second_factors outgoing_mails failed_sign_ins audit_entries exchange_rates missing_rates operational_events
        replays store_notifications store_healings temporary_grants checkouts purchase_links import_rows import_ids
        customer_segments bulk_grants bulk_grant_customers exports export_runs alert_subscriptions alert_watches alerts
        schema_migrations server_identity restores
    """,
}

TABLES: Final = {table: place for place, tables in _PLACED.items() for table in tables.split()}

_DUE = "what is due in any project"
_NEW = "new projects, wherever they are"
_OF_ALL = "the state of the whole deployment"
_MEASURED = "metrics of the whole deployment"


class AtProject(Struct, frozen=True):
    """On one shard: a parameter is the project."""

    parameter: int = 1


class ByProject(Struct, frozen=True):
    """On one shard for each project that the arrays name; almost always that is one. Parallel arrays stand together, by
    the numbers of their parameters; the first is the project of each entry."""

    columns: tuple[tuple[int, ...], ...]
    # Whether there is one row for each entry, in the order of the entries.
    in_order: bool = False
    # The column of the rows that numbers the entries, from 1.
    place: str | None = None


class AtWebhook(Struct, frozen=True):
    """On the shard of a webhook's project; the parameter is the webhook's key."""

    parameter: int = 1


class ByWebhook(Struct, frozen=True):
    """As `ByProject`, for arrays that begin with the keys of webhooks."""

    first: int
    last: int
    # A parameter that must differ from call to call: each call adds this many.
    apart: tuple[int, int] | None = None
    # Whether projects on a node that is away are left out.
    goes_past: bool = False


class EachShard(Struct, frozen=True):
    """On all shards on purpose, one after the other: work that is due in any project. `limit` is the parameter with the
    number of rows that are wanted; later shards are asked for the rest."""

    why: str
    limit: int | None = None
    merge: Literal["rows", "sums"] = "rows"
    # Of sums: the columns of which the least counts.
    least: tuple[str, ...] = ()
    # By the first column, and not more than the limit.
    sorted: bool = False
    # The parameter that names one project, if it is about one.
    project: int | None = None

    @property
    def goes_past(self) -> bool:
        """Whether shards on a node that is away are left out: what is due there is found when the node is back."""
        return self.why in (_DUE, _NEW, _MEASURED)

    @property
    def by_node(self) -> bool:
        """Whether each node can be asked once, about all of its shards. Not where it matters that a shard on its way
        from one node to another is neither left out nor counted twice."""
        return self.why == _DUE and self.limit is None


class Home(Struct, frozen=True):
    """On the coordinator: reference and local tables only. `quick`: as a function too, with its plan kept, because it
    is part of a hot path."""

    quick: bool = False


class Planned(Struct, frozen=True):
    """Sent as it is, over all shards on purpose; Citus makes the plan."""

    why: str


class Apart(Struct, frozen=True):
    """Not sent to a distributed database: storage uses other statements there."""

    why: str


Route = AtProject | ByProject | AtWebhook | ByWebhook | EachShard | Home | Planned | Apart

_SPECIAL: Final[dict[str, Route]] = {
    # Their tables are those of a function that they call, or are named in a string.
    "write_changes": AtProject(),
    "new_customer_keys": AtProject(),
    # With plans that are kept, because they are part of a hot path.
    "count_reads": Home(quick=True),
    "hand_back": Home(quick=True),
    "project_settings": Home(quick=True),
    "webhooks_by_key": Home(quick=True),
    # Local tables with reference tables, for which Citus has no plan.
    "note_key_uses": Home(quick=True),
    "prune_key_uses": Home(quick=True),
    "prune_rate_windows": Home(quick=True),
    # The project is that of a webhook.
    "claim_lanes": ByWebhook(1, 2, apart=(5, 500), goes_past=True),
    "count_deliveries_of_webhooks": ByWebhook(1, 1),
    # All projects.
    "due_webhooks": EachShard(_DUE),
    "partition_is_pending": EachShard("a part has rows of all projects", merge="sums"),
    "keep_deliveries": EachShard("a part has rows of all projects", merge="sums"),
    "watch_queue": EachShard(_MEASURED),
    "watch_queue_estimate": EachShard(_MEASURED, merge="sums"),
    "watch_lists": EachShard(_MEASURED, merge="sums", least=("oldest_at",)),
    "look_at_feeds": Planned(_OF_ALL),
    # After a restore or a failover.
    "feed_heads": Planned(_OF_ALL),
    "move_feeds_on": Planned(_OF_ALL),
    "move_customer_keys_of_projects_on": Planned(_OF_ALL),
    "release_ended": EachShard("what ended processes had claimed, of any project", merge="sums"),
    "hold_lanes": EachShard("what waits in any project, after a restore", merge="sums"),
    "free_lanes": EachShard("what waits in any project, after a restore", merge="sums"),
    "customers_due": EachShard(_DUE, limit=2),
    "claim_checks": EachShard(_DUE, limit=3),
    "claim_acknowledgements": EachShard(_DUE, limit=3),
    "look_out_in_projects": EachShard(_DUE, merge="sums", least=("customer_at", "acknowledgement_at", "check_at")),
    "take_facets_behind": EachShard(_DUE, limit=2, sorted=True),
    "start_facets": EachShard(_NEW, project=1),
    # Other statements of queries/distribution.sql are in their place, put together in `result_merge.py`.
    "admit_reads": Apart("counting requests is for the coordinator, reading for the project's node"),
    "admit_reads_with_leases": Apart("as admit_reads"),
    "size_of_partition": Apart("the size of a table on all nodes is another question there"),
}
# One row for each entry of a list of projects, in the order of the entries.
_IN_ORDER: Final = frozenset({"read_customers"})
# Rows that number the entries of such a list, from 1, and the column.
_NUMBERED: Final = {"record_attempts": "place"}

COMMENT = re.compile(r"--.*$", re.MULTILINE)
TABLE = re.compile(
    r"\b(?P<before>from|join|into|update|using)(?P<space>\s+)(?P<table>[a-z_]+)\b(?!\s*\()", re.IGNORECASE
)
INSERTED = re.compile(r"\b(?P<before>into)(?P<space>\s+)(?P<table>[a-z_]+)\b", re.IGNORECASE)
_LIST = re.compile(
    r"(?P<inserted>\binto\s+\w+(?:\s+as\s+\w+)?\s*\(\s*project_id\b[^()]*\)\s*select\s+\*\s+from\s+)?"
    r"\bunnest\(\s*(?P<arrays>(?P<first>\$\d+)::text(?:::text)?\[\](?:[^()]|\([^()]*\))*)\)"
    r"(?:\s+with\s+ordinality)?(?:\s+as\s+\w+\s*\(\s*(?P<name>\w+))?"
)
_PROJECT = re.compile(r"\bproject_id(?: \|\| '')? = \$(?P<number>\d+)")
# A row that begins with it, or a join with the project.
_FIRST = re.compile(r"\(\s*project_id\b[^()]*\)\s*(?:values\s*\(|select\s+)\$1\b|\bp\.id = \$1\b|\$1::text is not null")
_WEBHOOK = re.compile(r"\bwebhook_key = \$(?P<number>\d+)")


class UnfitStatementError(Exception):
    """A statement that cannot run on a shard."""


def route(name: str, text: str) -> Route:
    if name in _SPECIAL:
        return _SPECIAL[name]
    bare = COMMENT.sub("", text)
    used = {match["table"].lower() for pattern in (TABLE, INSERTED) for match in pattern.finditer(bare)}
    if not any(TABLES.get(table) == "by project" for table in used):
        return Home()
    lists: dict[str, set[int]] = defaultdict(set)
    for listed in _LIST.finditer(bare):
        if listed["name"] == "project_id" or (listed["name"] is None and listed["inserted"]):
            lists[listed["first"]] |= {int(number) for number in re.findall(r"\$(\d+)", listed["arrays"])}
    if lists:
        columns = sorted(tuple(sorted(numbers)) for numbers in lists.values())
        return ByProject(tuple(columns), name in _IN_ORDER, _NUMBERED.get(name))
    if found := _PROJECT.search(bare):
        return AtProject(int(found["number"]))
    if found := _WEBHOOK.search(bare):
        return AtWebhook(int(found["number"]))
    if _FIRST.search(bare):
        return AtProject()
    raise UnfitStatementError(f"{name} names neither its project nor its webhook; say in `_SPECIAL` where it runs.")


@cache
def routes() -> Mapping[str, Route]:
    """Of every named statement. Only a distributed database needs them."""
    return {name: route(name, named.text) for name, named in all_queries().items()}
