"""Sums of facts as columns, computed with Apache Arrow.

A table has a column for each dimension, for `day`, `n` and `currency`, and for each amount. A dimension with several
values (variants, attributes) is one text with `SEPARATOR` between them. Amounts that are zero in every row have no
column. Adding up two tables gives the sums of the facts of both, so tables can be stored and merged in any order.

Import this module inside functions: Arrow takes a fifth of a second to import, and most processes never need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from latchkey.domain.charts.cuboids import FULL, PARENTS, Cuboid
from latchkey.domain.charts.fact import Dimensions, Money
from latchkey.domain.charts.sums import Amounts, Day
from latchkey.domain.purchases.terms import USD

SEPARATOR: Final = "\x1f"

DIMENSIONS = Dimensions._fields
AMOUNTS = ("quantity", *Money._fields)
_TEXTS = (*DIMENSIONS, "currency")
_KEYS = (*DIMENSIONS, "day", "n", "currency")
_TEXT = pa.dictionary(pa.int32(), pa.string())
# Quick to read; about twice the size of the best compression.
_WRITING = pa.ipc.IpcWriteOptions(compression="lz4")

# Bytes; such a block is read in some milliseconds.
_LARGE = 500_000
# Rows that are compressed together.
_BATCH = 65_536
# The dimensions that most filters are about first.
_ORDER = ("country", "store", "product", "app_version", "duration", "platform", "offering", "variants", "attributes")

# Arrow has no types for mypy.
Table = Any


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


def encode(table: Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=_WRITING) as writer:
        writer.write_table(table, max_chunksize=_BATCH)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: bytes) -> Table:
    with pa.ipc.open_file(pa.py_buffer(data)) as reader:
        return reader.read_all()


def _reader(data: bytes, wanted: Callable[[str], bool]) -> Any:
    """Reads batches of rows. Only the columns that are wanted are uncompressed."""
    buffer = pa.py_buffer(data)
    with pa.ipc.open_file(buffer) as whole:
        places = [place for place, name in enumerate(whole.schema.names) if wanted(name)]
    # Small ones are not worth waking other threads.
    options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=len(data) > _LARGE)
    return pa.ipc.open_file(buffer, options=options)


def added(tables: Sequence[Table]) -> Table:
    """One table with the sums of all, which have the same dimensions. Rows in which everything is zero are left out."""
    table = _joined(tables)
    keys = [one for one in _KEYS if one in table.column_names]
    return _sorted(_grouped(table, keys))


def extract(table: Table, cuboid: Cuboid) -> Table:
    """The sums by the dimensions of a cuboid, from those of its parent."""
    tag = cuboid.tag
    if tag is not None and PARENTS[cuboid.number] is FULL:
        table = _exploded(table, tag)
    keys = [one for one in _KEYS if one in cuboid.dimensions or one not in DIMENSIONS]
    return _sorted(_grouped(table, keys))


def by_month(table: Table) -> Table:
    """The same sums with the first day of each month as the day."""
    days = pc.cast(table["day"], pa.date32())
    months = pc.cast(pc.floor_temporal(days, unit="month"), pa.int32())
    changed = table.set_column(table.column_names.index("day"), "day", months)
    return _sorted(_grouped(changed, [one for one in _KEYS if one in table.column_names]))


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
    whole = pa.concat_tables([_with(one, amounts).select([*keys, *amounts]) for one in tables])
    return whole.unify_dictionaries().combine_chunks()


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
    texts = {name: _whole(table[name]) for name in keys if name in _TEXTS}
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


def _whole(column: Any) -> Any:
    """A column as one array."""
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def _exploded(table: Table, tag: str) -> Table:
    """One row for each variant, or attribute, of each row."""
    column = _whole(table[tag])
    lists = pa.array([split(one) for one in column.dictionary.to_pylist()], pa.list_(pa.string())).take(column.indices)
    rows, tags = pc.list_parent_indices(lists), pc.list_flatten(lists)
    place = table.column_names.index(tag)
    return table.take(rows).set_column(place, tag, tags.dictionary_encode())


# --- Answering questions

# Which columns of amounts are read, and from which others the rest is taken.
_READ = {
    Amounts.ALL: (*AMOUNTS, "currency"),
    Amounts.USD: ("quantity", "usd", "tax_usd", "commission_usd", "unconverted", "currency"),
    Amounts.GROSS_USD: ("quantity", "usd", "unconverted", "currency"),
    Amounts.NONE: ("quantity",),
}
_IN_USD = {"micros": "usd", "tax": "tax_usd", "commission": "commission_usd"}

# What a day of a table stands for, beside a period: everything before the first, and not asked for.
BEFORE: Final = -(2**31)
OUTSIDE: Final = -(2**31) + 1


class Days(NamedTuple):
    """The period of each day, from `first` on."""

    first: Day
    periods: Any

    @classmethod
    def of(cls, first: Day, last: Day, period: Callable[[Day], int]) -> Days:
        return cls(first, pa.array([period(day) for day in range(first, last + 1)], pa.int32()))


class Scan(NamedTuple):
    """What is asked of tables. Values are those of a dimension, `SEPARATOR` included."""

    filters: Mapping[str, Callable[[str], bool]]
    # The dimension to break down by, and the segment of a value.
    segment: tuple[str, Callable[[str], str]] | None = None
    # Only rows with such a variant or attribute, by it; None: the row has none.
    tag: tuple[str, Callable[[str], str | None]] | None = None
    amounts: Amounts = Amounts.ALL

    def wants(self, name: str) -> bool:
        """Whether a column is needed of rows that match the filters."""
        if name in AMOUNTS or name == "currency":
            return name in _READ[self.amounts]
        return name not in DIMENSIONS or any(one is not None and one[0] == name for one in (self.segment, self.tag))


class AnyN(NamedTuple):
    """All n count as 0, up to this one."""

    most: int | None


class Codes:
    """Numbers for texts, in the order they come."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


class Reader:
    """Adds up what several tables answer to a question."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._found: list[Table] = []
        self._segments, self._tags, self._currencies = Codes(), Codes(), Codes()
        self._amounts = [one for one in AMOUNTS if one in _READ[scan.amounts]]

    def load(self, data: bytes, any_n: AnyN | None) -> list[Any]:
        """The rows that match the filters. Several threads may do this at once."""
        scan = self._scan
        filters = scan.filters
        found: list[Any] = []
        # Of rows that are alike beside each other, a filter often leaves out whole batches, which are then not read.
        narrow = _reader(data, filters.__contains__) if filters else None
        wide = _reader(data, self._scan.wants)
        for place in range(wide.num_record_batches):
            kept = None if narrow is None else self._matching(narrow.get_batch(place))
            if kept is None or kept.true_count:
                batch = wide.get_batch(place)
                batch = batch if kept is None else _filtered(batch, kept)
                if any_n is not None and any_n.most is not None:
                    batch = _filtered(batch, pc.less_equal(batch["n"], any_n.most))
                if scan.tag is not None:
                    batch = _filtered(batch, _mapped(batch[scan.tag[0]], self._is_tagged, pa.bool_()))
                found.append(batch)
        return found

    def _is_tagged(self, text: str) -> bool:
        return self._scan.tag is not None and self._scan.tag[1](text) is not None

    def _matching(self, batch: Any) -> Any:
        kept: Any = None
        for name, matches in self._scan.filters.items():
            one = _mapped(batch[name], matches, pa.bool_())
            kept = one if kept is None else pc.and_(kept, one)
        return kept

    def add(self, kind: int, batch: Any, days: Days, any_n: AnyN | None) -> None:
        """Rows of one kind, as `load` gives them."""
        scan = self._scan
        periods = days.periods.take(pc.subtract(batch["day"], days.first))
        kept = pc.not_equal(periods, OUTSIDE)
        if not pc.all(kept).as_py():
            batch, periods = batch.filter(kept), periods.filter(kept)
        count = batch.num_rows
        if not count:
            return
        zeros = pa.repeat(pa.scalar(0, pa.int32()), count)
        columns = {
            "kind": pa.repeat(pa.scalar(kind, pa.int16()), count),
            "n": batch["n"] if any_n is None else zeros,
            "period": periods,
            "segment": zeros,
            "currency": self._currency(batch),
            "tag": zeros,
        }
        if scan.segment is not None:
            name, segment_of = scan.segment
            columns["segment"] = _mapped(batch[name], lambda text: self._segments.of(segment_of(text)), pa.int32())
        if scan.tag is not None:
            name, of = scan.tag
            columns["tag"] = _mapped(batch[name], lambda text: self._tags.of(of(text) or ""), pa.int32())
        names = batch.schema.names
        for name in self._amounts:
            columns[name] = batch[name] if name in names else pa.repeat(pa.scalar(0, pa.int64()), count)
        self._found.append(pa.table(columns))

    def _currency(self, batch: Any) -> Any:
        if self._scan.amounts is Amounts.NONE:
            return pa.repeat(pa.scalar(self._currencies.of(""), pa.int32()), batch.num_rows)
        own = _mapped(batch["currency"], self._currencies.of, pa.int32())
        if self._scan.amounts is Amounts.ALL:
            return own
        usd = _mapped(batch["currency"], lambda text: self._currencies.of(text and USD), pa.int32())
        if "unconverted" not in batch.schema.names:
            return usd
        return pc.if_else(pc.equal(batch["unconverted"], 0), usd, own)

    def columns(self) -> list[list[Any]]:
        """By kind, n, period, segment, currency and tag: the sums, column by column, in the order of AMOUNTS. Rows in
        which everything is zero are left out."""
        keys = ["kind", "n", "period", "segment", "currency", "tag"]
        if not self._found:
            return [[] for _ in (*keys, *AMOUNTS)]
        grouped = pa.concat_tables(self._found).group_by(keys).aggregate([(name, "sum") for name in self._amounts])
        kept = pc.not_equal(grouped["quantity_sum"], 0)
        for name in self._amounts[1:]:
            kept = pc.or_(kept, pc.not_equal(grouped[f"{name}_sum"], 0))
        grouped = grouped.filter(kept)
        made = {name: grouped[name].to_pylist() for name in keys}
        made["period"] = [None if one == BEFORE else one for one in made["period"]]
        texts = {"segment": self._segments.texts or [""], "tag": self._tags.texts or [""]}
        for name, known in {**texts, "currency": self._currencies.texts}.items():
            made[name] = list(map(known.__getitem__, made[name]))
        amounts = {name: grouped[f"{name}_sum"].to_pylist() for name in self._amounts}
        none = [0] * grouped.num_rows
        for name in AMOUNTS:
            made[name] = amounts.get(name) or amounts.get(_IN_USD.get(name, ""), none)
        return [made[name] for name in (*keys, *AMOUNTS)]


def _filtered(batch: Any, kept: Any) -> Any:
    return batch if pc.all(kept).as_py() else batch.filter(kept)


def _mapped(column: Any, function: Callable[[str], Any], type: Any) -> Any:
    """What the function says of each value of a column. It is called once for each distinct value."""
    return pa.array([function(one) for one in column.dictionary.to_pylist()], type).take(column.indices)


def rows_by_value(tables: Iterable[bytes], name: str) -> dict[str, int]:
    """How many rows have each value of a dimension."""
    found: dict[str, int] = {}
    for data in tables:
        column = _reader(data, name.__eq__).read_all()[name]
        for one in pc.value_counts(column.cast(pa.string())).to_pylist():
            found[one["values"]] = found.get(one["values"], 0) + one["counts"]
    return found
