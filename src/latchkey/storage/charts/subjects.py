"""What each subject (a purchase or a customer) has contributed to the charts, and where it came from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec import msgpack

from latchkey.domain.charts.facts.subject import Issue, Origin
from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_SUBJECTS_OF = query("chart_subjects_of")
_RENAME = query("rename_chart_subjects")
_KEEP_ERASED = query("keep_erased_chart_subjects")
_KEEP_ISSUES = query("keep_chart_issues")

# A project and a subject's pseudonym.
SubjectRef: TypeAlias = tuple[str, UUID]

# One fact: the code of its kind, instant, n, currency, the number of its dimensions, quantity, and the amounts of
# `Money`. `chart_subjects.facts` is a list of these. The columns of the tail and of `chart_ahead` have the same order.
Row: TypeAlias = tuple[int, Ms, int, str, int, int, int, int, int, int, int, int, int]

_DECODER = msgpack.Decoder(list[Row])
_ENCODER = msgpack.Encoder()
NO_FACTS = _ENCODER.encode([])


class Known(NamedTuple):
    # None: it was never counted.
    facts: bytes | None
    origin: Origin | None
    issues: tuple[Issue, ...]
    # Of a purchase whose owner was erased: its payments up to then stay with that customer.
    erased_to: Ms | None = None


class Issued(NamedTuple):
    project_id: str
    subject: UUID
    at: Ms
    transaction_id: str
    grace_ends_at: Ms | None


def encode(rows: Sequence[Row]) -> bytes:
    return _ENCODER.encode(rows)


def decode(facts: bytes) -> list[Row]:
    return _DECODER.decode(facts)


async def known(connection: Connection, places: Collection[SubjectRef]) -> dict[SubjectRef, Known]:
    """Subjects of which nothing is known are left out."""
    if not places:
        return {}
    projects, subjects = zip(*places, strict=True)
    found: dict[SubjectRef, Known] = {}
    for row in await connection.fetch(_SUBJECTS_OF, projects, subjects):
        facts = row["facts"]
        found[row["project_id"], row["subject"]] = Known(
            facts,
            None if facts is None else Origin(row["platform"], row["app_version"], row["country"]),
            tuple(map(Issue, row["ats"] or (), row["transactions"] or (), row["graces"] or ())),
            row["erased_to"],
        )
    return found


async def keep_issues(connection: Connection, issued: Sequence[Issued]) -> None:
    if issued:
        await connection.execute(_KEEP_ISSUES, *zip(*issued, strict=True))


async def rename(connection: Connection, project_id: str, renamed: Mapping[UUID, UUID]) -> None:
    """Subjects without facts have no row, and need none."""
    await connection.execute(_RENAME, project_id, list(renamed), list(renamed.values()))


async def keep_erased(connection: Connection, project_id: str, to: Mapping[UUID, Ms]) -> None:
    """`to`: the last payment of each purchase that an erased customer made."""
    await connection.execute(_KEEP_ERASED, project_id, list(to), list(to.values()))
