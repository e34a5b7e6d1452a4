"""Sums of facts as columns, computed with Apache Arrow.

A table has a column for each dimension, for `day`, `n` and `currency`, and for each amount. A dimension with several
values (variants, attributes) is one text with `SEPARATOR` between them. Amounts that are zero in every row have no
column. Adding up two tables gives the sums of the facts of both, so tables can be stored and merged in any order.

Import this module inside functions: Arrow takes a fifth of a second to import, and most processes never need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from latchkey.domain.charts.cuboids import FULL, PARENTS, Cuboid
from latchkey.domain.charts.fact import Day, Dimensions, Kind, Money
from latchkey.domain.charts.merging import quarter_of, start_of
from latchkey.storage.charts.packing import Packed, Table, unpack, whole

SEPARATOR: Final = "\x1f"

DIMENSIONS = Dimensions._fields
AMOUNTS = ("quantity", *Money._fields)
_TEXTS = (*DIMENSIONS, "currency")
_KEYS = (*DIMENSIONS, "day", "n", "currency")
_TEXT = pa.dictionary(pa.int32(), pa.string())

# The dimensions that most filters are about first.
_ORDER = ("country", "store", "product", "app_version", "duration", "platform", "offering", "variants", "attributes")


class Raw(NamedTuple):
    """Sums as they come from the database, column by column."""

    # A place in `dimensions` for each row.
    places: Sequence[int]
    days: Sequence[Day]
    ns: Sequence[int]
    currencies: Sequence[str]
    # In the order of AMOUNTS.
    amounts: Sequence[Sequence[int | None]]


def from_rows(raw: Raw, dimensions: Sequence[Dimensions]) -> Table:
    """The sums of these rows."""
    places = pa.array(raw.places, pa.int32())
    columns: dict[str, Any] = {}
    for name in DIMENSIONS:
        values = [_text(getattr(one, name)) for one in dimensions]
        columns[name] = pa.array(values, pa.string()).dictionary_encode().take(places)
    columns["day"] = pa.array(raw.days, pa.int32())
    columns["n"] = pa.array(raw.ns, pa.int32())
    columns["currency"] = pa.array(raw.currencies, pa.string()).dictionary_encode()
    for name, amounts in zip(AMOUNTS, raw.amounts, strict=True):
        columns[name] = pc.fill_null(pa.array(amounts, pa.int64()), 0)
    return added([pa.table(columns)])


def _text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else SEPARATOR.join(value)


def split(text: str) -> list[str]:
    return text.split(SEPARATOR) if text else []


def decode(packed: Packed) -> Table:
    """A stored table, with types that tables can be added up with."""
    table = unpack(packed)
    return table.cast(pa.schema([(name, _type(name)) for name in table.column_names]))


def _type(name: str) -> Any:
    """The type of a column while tables are added up."""
    if name in _TEXTS:
        return _TEXT
    return pa.int64() if name in AMOUNTS else pa.int32()


def added(tables: Sequence[Table]) -> Table:
    """One table with the sums of all, which have the same dimensions. Rows in which everything is zero are left out."""
    table = _joined(tables)
    keys = [one for one in _KEYS if one in table.column_names]
    return _sorted(_grouped(table, keys))


def extract(table: Table, cuboid: Cuboid, kind: Kind) -> Table:
    """The sums of a kind by the dimensions of a cuboid, from those of its parent."""
    tag = cuboid.tag
    if tag is not None and PARENTS[cuboid.number] is FULL:
        table = _exploded(table, tag)
    dimensions = cuboid.dimensions_of(kind)
    keys = [one for one in _KEYS if one in dimensions or one not in DIMENSIONS]
    return _sorted(_grouped(table, keys))


def by_month(table: Table) -> Table:
    """The same sums with the first day of each month as the day."""
    days = pc.cast(table["day"], pa.date32())
    months = pc.cast(pc.floor_temporal(days, unit="month"), pa.int32())
    changed = table.set_column(table.column_names.index("day"), "day", months)
    return _sorted(_grouped(changed, [one for one in _KEYS if one in table.column_names]))


def by_quarter(table: Table) -> Iterator[Table]:
    """The rows of each quarter of a year."""
    first, last = map(quarter_of, span(table))
    for quarter in range(first, last + 1):
        start, end = start_of(quarter), start_of(quarter + 1)
        part = table.filter(pc.and_(pc.greater_equal(table["day"], start), pc.less(table["day"], end)))
        if part.num_rows:
            yield part.combine_chunks()


def span(table: Table) -> tuple[Day, Day]:
    """The first day and the last."""
    found = pc.min_max(table["day"])
    return found["min"].as_py(), found["max"].as_py()


def quantity(table: Table) -> int:
    total: int | None = pc.sum(table["quantity"]).as_py() if "quantity" in table.column_names else 0
    return total or 0


def _joined(tables: Sequence[Table]) -> Table:
    """All rows of all tables, each with all amounts that any of them has."""
    amounts = [name for name in AMOUNTS if any(name in one.column_names for one in tables)]
    keys = [name for name in _KEYS if name in tables[0].column_names]
    rows = pa.concat_tables([_with(one, amounts).select([*keys, *amounts]) for one in tables])
    return rows.unify_dictionaries().combine_chunks()


def _with(table: Table, amounts: Iterable[str]) -> Table:
    for name in amounts:
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(pa.scalar(0, pa.int64()), table.num_rows))
    return table


def _grouped(table: Table, keys: Sequence[str]) -> Table:
    if not table.num_rows:
        return table.select([*keys, *(one for one in AMOUNTS if one in table.column_names)])
    amounts = [name for name in AMOUNTS if name in table.column_names]
    # Grouped by the places in dictionaries, which are numbers.
    texts = {name: whole(table[name]) for name in keys if name in _TEXTS}
    plain = {name: texts[name].indices if name in texts else table[name] for name in keys}
    # Several groups on one thread each are quicker than one on all: these tables are small.
    found = (
        pa.table(plain | {name: table[name] for name in amounts})
        .group_by(list(keys), use_threads=table.num_rows > 200_000)
        .aggregate([(name, "sum") for name in amounts])
    )
    columns: dict[str, Any] = {}
    for name in keys:
        column = found[name].combine_chunks()
        columns[name] = pa.DictionaryArray.from_arrays(column, texts[name].dictionary) if name in texts else column
    kept: Any = None
    for name in amounts:
        column = found[f"{name}_sum"].combine_chunks()
        present = pc.not_equal(column, 0)
        if pc.any(present).as_py():
            columns[name] = column
            kept = present if kept is None else pc.or_(kept, present)
    made = pa.table(columns)
    return made.slice(0, 0) if kept is None else made.filter(kept)


def _sorted(table: Table) -> Table:
    """Rows that are alike beside each other: they compress well."""
    keys = [name for name in (*_ORDER, "n", "currency", "day") if name in table.column_names]
    plain = pa.table({name: _numbers(table[name]) for name in keys})
    order = pc.sort_indices(plain, sort_keys=[(name, "ascending") for name in keys])
    return table.take(order).combine_chunks()


def _numbers(column: Any) -> Any:
    if not pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([one.indices for one in column.chunks], pa.int32())


def _exploded(table: Table, tag: str) -> Table:
    """One row for each variant, or attribute, of each row."""
    column = whole(table[tag])
    lists = pa.array([split(one) for one in column.dictionary.to_pylist()], pa.list_(pa.string())).take(column.indices)
    rows, tags = pc.list_parent_indices(lists), pc.list_flatten(lists)
    place = table.column_names.index(tag)
    return table.take(rows).set_column(place, tag, tags.dictionary_encode())
