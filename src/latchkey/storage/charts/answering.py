"""Answers questions from stored tables of sums, with Apache Arrow.

1. `load` reads a stored table: the rows that match, by what the questions tell apart.
2. `together` adds up what was loaded of several tables.
3. `Reader` answers one question from that. Several questions about other days, periods and segments of the same facts
   share the first two steps.

Import this module inside functions: Arrow takes a fifth of a second to import, and most processes never need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from latchkey.domain.charts.fact import Amounts, Day
from latchkey.domain.purchases.purchase import USD
from latchkey.storage.charts import packing
from latchkey.storage.charts.columns import AMOUNTS
from latchkey.storage.charts.layout import Column, Plan
from latchkey.storage.charts.packing import Table, whole

# Which columns of amounts are read.
_READ = {
    Amounts.ALL: AMOUNTS,
    Amounts.USD: ("quantity", "usd", "tax_usd", "commission_usd", "unconverted"),
    Amounts.GROSS_USD: ("quantity", "usd", "unconverted"),
    Amounts.DISPLAY: AMOUNTS,
    Amounts.NONE: ("quantity",),
}
_IN_USD = {"micros": "usd", "tax": "tax_usd", "commission": "commission_usd"}
# The columns that are left of them, and from which others the rest is taken.
_LEFT = _READ | {Amounts.DISPLAY: ("quantity", *_IN_USD, "unconverted")}
_TAKEN = _IN_USD | {usd: own for own, usd in _IN_USD.items()}

# The period of a day that is not asked for.
OUTSIDE: Final = -(2**31)

# Several columns make one number to group by, as long as it stays below this.
MOST_GROUPS: Final = 2**31

# Numbers of which fewer than one in so many occurs are sorted; others are put in order without comparing them.
_SPARSE = 20

# Fewer rows of a table are not worth adding up before those of others are known.
_FEW = 20_000

# If this share of the rows is distinct, adding up costs more than it saves.
_NEARLY_ALL = 0.9


class Days(NamedTuple):
    """Something about each day, from `first` on. Days outside are not asked about."""

    first: Day
    values: Any

    @classmethod
    def of(cls, first: Day, values: Sequence[int | bool]) -> Days:
        return cls(first, pa.array(values, pa.bool_() if isinstance(values[0], bool) else pa.int32()))

    def at(self, days: Any) -> Any:
        return self.values.take(pc.subtract(pc.cast(days, pa.int32()), self.first))


class AnyN(NamedTuple):
    """All n count as 0, up to this one."""

    most: int | None


class Scan(NamedTuple):
    """What is asked of tables. Values are those of a dimension, `SEPARATOR` included."""

    filters: Mapping[str, Callable[[str], bool]]
    # The dimension to break down by.
    segment: str | None = None
    # A dimension: only rows with such a variant or attribute, by it.
    tag: tuple[str, Callable[[str], bool]] | None = None
    amounts: Amounts = Amounts.ALL
    # Of `Amounts.DISPLAY`.
    currency: str = USD

    @property
    def texts(self) -> dict[str, str]:
        """What is told apart by texts, and in which columns they are."""
        found = {} if self.segment is None else {"segment": self.segment}
        if self.tag is not None:
            found["tag"] = self.tag[0]
        if self.amounts is not Amounts.NONE:
            found["currency"] = "currency"
        return found

    def wants(self, columns: Mapping[str, Column], any_n: AnyN | None) -> set[str]:
        """Which of the columns of a table are needed of rows that match the filters."""
        found = {"day", *_READ[self.amounts], *self.texts.values()}
        if any_n is None or any_n.most is not None:
            found.add("n")
        if self.amounts in (Amounts.USD, Amounts.GROSS_USD) and _is_in_usd(columns):
            found.discard("currency")
        return found


def _is_in_usd(columns: Mapping[str, Column]) -> bool:
    """Whether all amounts of a table are known in USD."""
    return "unconverted" not in columns and "" not in (columns["currency"].values or ())


class Rows(NamedTuple):
    """What was loaded of a table."""

    table: Table
    # No two of them have to be added up.
    is_distinct: bool


def load(plan: Plan, spans: Sequence[bytes], scan: Scan, days: Days | None, any_n: AnyN | None) -> list[Rows]:
    """The rows that match, by `day`, `n` and what the scan tells apart; of all days if there are none. Several threads
    may do this at once."""
    found: list[Table] = []
    for batch, kept in packing.batches(plan, spans):
        if kept is not None:
            batch = _filtered(batch, kept)
        if days is not None:
            batch = _filtered(batch, days.at(batch["day"]))
        if any_n is not None and any_n.most is not None:
            batch = _filtered(batch, pc.less_equal(batch["n"], any_n.most))
        if scan.tag is not None:
            batch = _filtered(batch, _mapped(batch[scan.tag[0]], scan.tag[1], pa.bool_()))
        if batch.num_rows:
            found.append(_as_asked(batch, scan, any_n))
    if not found:
        return []
    rows = found[0] if len(found) == 1 else pa.concat_tables(found).unify_dictionaries()
    # Numbers are as narrow as they are stored, until few are left.
    if _is_distinct(plan, scan, any_n):
        return [Rows(_wide(rows), is_distinct=True)]
    is_large = rows.num_rows > _FEW
    return [Rows(_wide(_summed(rows) if is_large else rows), is_distinct=is_large)]


def _is_distinct(plan: Plan, scan: Scan, any_n: AnyN | None) -> bool:
    """Whether all columns that rows differ in are told apart. Rows of a stored table differ in some."""
    apart = {"day", *scan.texts.values()}
    if any_n is None:
        apart.add("n")
    if scan.amounts is not Amounts.ALL:
        apart.discard("currency")
    return all(name in apart or name in AMOUNTS or plan.has_one_value(name) for name in plan.columns)


def _as_asked(batch: Any, scan: Scan, any_n: AnyN | None) -> Table:
    columns = {"day": batch["day"]}
    if any_n is None:
        columns["n"] = batch["n"]
    names = batch.schema.names
    for name, column in scan.texts.items():
        # The currency is left out where it is USD everywhere.
        if column in names:
            columns[name] = batch[column]
    if scan.amounts is Amounts.DISPLAY:
        return pa.table(columns | _displayed(batch, scan.currency))
    if scan.amounts in (Amounts.USD, Amounts.GROSS_USD) and "currency" in columns:
        columns["currency"] = _in_usd(batch, columns["currency"])
    for name in _READ[scan.amounts]:
        if name in names:
            columns[name] = batch[name]
    return pa.table(columns)


def _displayed(batch: Any, currency: str) -> dict[str, Any]:
    """The currency and the amounts: those in this currency as they were paid, all others in USD."""
    own = _mapped(batch["currency"], lambda text: text == currency, pa.bool_())
    names = batch.schema.names
    columns = {"currency": _in_usd(batch, batch["currency"], currency)}
    columns |= {name: batch[name] for name in ("quantity", "unconverted") if name in names}
    for name, usd in _IN_USD.items():
        paid, in_usd = (
            pc.cast(batch[one], pa.int64()) if one in names else pa.scalar(0, pa.int64()) for one in (name, usd)
        )
        columns[name] = pc.if_else(own, paid, in_usd)
    return columns


def _wide(table: Table) -> Table:
    """With types that tables can be joined with."""
    return table.cast(pa.schema([(one.name, _wide_type(one)) for one in table.schema]))


def _wide_type(field: Any) -> Any:
    if pa.types.is_dictionary(field.type):
        return pa.dictionary(pa.int32(), pa.string())
    return pa.int64() if field.name in AMOUNTS else pa.int32()


def _in_usd(batch: Any, currency: Any, kept: str = USD) -> Any:
    """The currency of amounts in USD: their own if they have no exchange rate, or if it is one that is kept."""
    known = currency.dictionary.to_pylist()
    if "unconverted" not in batch.schema.names:
        shown = [one if one in ("", kept) else USD for one in known]
        return pa.array(shown, pa.string()).take(currency.indices).dictionary_encode()
    texts = pa.array([*known, USD], pa.string())
    places = pa.array([place if one in ("", kept) else len(known) for place, one in enumerate(known)], pa.int32())
    is_converted = pc.equal(batch["unconverted"], 0)
    shown = pc.if_else(is_converted, places.take(currency.indices), currency.indices.cast(pa.int32()))
    return pa.DictionaryArray.from_arrays(shown, texts)


def together(loaded: Sequence[Rows]) -> Table:
    """What was loaded of several tables, added up if that leaves fewer rows."""
    tables = [one.table for one in loaded]
    names = list(dict.fromkeys(name for one in tables for name in one.column_names))
    rows = pa.concat_tables([_with(one, names) for one in tables]).unify_dictionaries()
    # Most tables have days of their own, so where each of them is distinct, so is nearly everything.
    distinct = sum(one.table.num_rows for one in loaded if one.is_distinct)
    return rows if distinct > _NEARLY_ALL * rows.num_rows else _summed(rows)


def _summed(rows: Table) -> Table:
    """The sums of rows, of which there are some, with the same dictionary in each part of a column."""
    keys = [name for name in rows.column_names if name not in AMOUNTS]
    amounts = [name for name in rows.column_names if name in AMOUNTS]
    texts = {name: rows[name].chunk(0).dictionary for name in keys if pa.types.is_dictionary(rows[name].type)}
    plain = {name: _places(rows[name]) if name in texts else rows[name] for name in keys}
    grouped = (
        pa.table(plain | {name: rows[name] for name in amounts})
        .group_by(keys, use_threads=False)
        .aggregate([(name, "sum") for name in amounts])
    )
    made = {name: whole(grouped[name]) for name in keys}
    for name, dictionary in texts.items():
        made[name] = pa.DictionaryArray.from_arrays(made[name], dictionary)
    return pa.table(made | {name: whole(grouped[f"{name}_sum"]) for name in amounts})


def _places(column: Any) -> Any:
    return pa.chunked_array([one.indices for one in column.chunks])


def _with(table: Table, names: Sequence[str]) -> Table:
    for name in set(names).difference(table.column_names):
        # The currency is left out where it is USD everywhere.
        value = pa.scalar(0, pa.int64()) if name in AMOUNTS else pa.scalar(USD, pa.string())
        column = pa.repeat(value, table.num_rows)
        table = table.append_column(name, column if name in AMOUNTS else column.dictionary_encode())
    return table.select(names)


class Codes:
    """Numbers for texts, in the order they come; or for what a function makes of them."""

    def __init__(self, function: Callable[[str], str] | None = None) -> None:
        self.texts: list[str] = []
        self._function = function
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int:
        if self._function is not None:
            text = self._function(text)
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


class Series(NamedTuple):
    """Sums that differ in their periods only, as columns of equal length."""

    kind: int
    n: int
    segment: str
    currency: str
    tag: str
    # Oldest first.
    periods: list[int]
    # In the order of AMOUNTS.
    amounts: list[list[int]]


class Reader:
    """Adds up what several tables answer to one question."""

    def __init__(
        self, amounts: Amounts, segment_of: Callable[[str], str] | None, tag_of: Callable[[str], str] | None
    ) -> None:
        self._has_currencies = amounts is not Amounts.NONE
        self._amounts = _LEFT[amounts]
        self._codes = {"segment": Codes(segment_of), "currency": Codes(), "tag": Codes(tag_of)}
        self._found: list[Table] = []

    def add(self, kind: int, table: Table, days: Days) -> None:
        """Sums of one kind, as `together` gives them; with the period of each day."""
        periods = days.at(whole(table["day"]))
        kept = pc.not_equal(periods, OUTSIDE)
        if kept.true_count < len(kept):
            table, periods = table.filter(kept), periods.filter(kept)
        count = table.num_rows
        if not count:
            return
        names = table.column_names
        columns = {
            "kind": pa.repeat(pa.scalar(kind, pa.int32()), count),
            "n": table["n"] if "n" in names else pa.repeat(pa.scalar(0, pa.int32()), count),
            "period": periods,
        }
        for name, codes in self._codes.items():
            if name in names:
                columns[name] = _mapped(whole(table[name]), codes.of, pa.int32())
            else:
                text = USD if name == "currency" and self._has_currencies else ""
                columns[name] = pa.repeat(pa.scalar(codes.of(text), pa.int32()), count)
        for name in self._amounts:
            columns[name] = table[name] if name in names else pa.repeat(pa.scalar(0, pa.int64()), count)
        self._found.append(pa.table(columns))

    def series(self) -> Iterator[Series]:
        """By kind, n, segment, currency and tag. Sums in which everything is zero are left out."""
        if not self._found:
            return
        rows = pa.concat_tables(self._found).combine_chunks()
        periods = whole(rows["period"])
        limits = pc.min_max(periods)
        first, last = limits["min"].as_py(), limits["max"].as_py()
        keys = ["kind", "n", "segment", "currency", "tag"]
        number = _numbered([whole(rows[name]) for name in keys])
        places = pc.add(pc.multiply(number, last - first + 1), pc.subtract(pc.cast(periods, pa.int64()), first))
        # One number for each row is quicker to group and to sort by than six.
        plain = {"place": places, "row": _counted(rows.num_rows)} | {name: rows[name] for name in self._amounts}
        grouped = (
            pa.table(plain)
            .group_by("place", use_threads=False)
            .aggregate([("row", "min"), *((name, "sum") for name in self._amounts)])
        )
        kept = pc.not_equal(grouped["quantity_sum"], 0)
        for name in self._amounts[1:]:
            kept = pc.or_(kept, pc.not_equal(grouped[f"{name}_sum"], 0))
        grouped = _in_order(grouped.filter(kept), "place")
        if not grouped.num_rows:
            return
        found = whole(grouped["place"])
        encoded = pc.run_end_encode(pc.divide(found, last - first + 1))
        ends = encoded.run_ends.to_pylist()
        starts = [0, *ends[:-1]]
        of = whole(grouped["row_min"])
        shown = periods.take(of).to_pylist()
        # What all sums of a series have in common, from a row of the first of them.
        heads = rows.select(keys).take(of.take(pa.array(starts, pa.int64())))
        columns = [heads[name].to_pylist() for name in keys]
        segments, currencies, tags = (self._codes[name].texts for name in keys[2:])
        amounts = {name: grouped[f"{name}_sum"].to_pylist() for name in self._amounts}
        sources = [amounts.get(name) or amounts.get(_TAKEN.get(name, "")) for name in AMOUNTS]
        for start, end, kind, n, segment, currency, tag in zip(starts, ends, *columns, strict=True):
            none = [0] * (end - start)
            mine = [none if one is None else one[start:end] for one in sources]
            yield Series(kind, n, segments[segment], currencies[currency], tags[tag], shown[start:end], mine)


def _numbered(columns: Sequence[Any]) -> Any:
    """A number for each combination of numbers."""
    found, groups = None, 1
    for one in columns:
        limits = pc.min_max(one)
        low, high = limits["min"].as_py(), limits["max"].as_py()
        if low == high and found is not None:
            continue
        width = high - low + 1
        numbers = pc.subtract(pc.cast(one, pa.int64()), low)
        if groups * width >= MOST_GROUPS and found is not None:
            # There are no more of them than rows.
            found = pc.cast(found.dictionary_encode().indices, pa.int64())
            groups = len(found)
        found = numbers if found is None else pc.add(pc.multiply(found, width), numbers)
        groups *= width
    return found


def _in_order(table: Table, name: str) -> Table:
    """By a column of numbers from 0 on, none of them twice."""
    numbers = whole(table[name])
    most = pc.max(numbers).as_py()
    if most is None or most > _SPARSE * len(numbers):
        return table.sort_by(name)
    # Where each number stands. That takes a tenth of the time of sorting.
    places = pc.inverse_permutation(numbers, max_index=most, output_type=pa.int64())
    return table.take(places.drop_null())


def _counted(rows: int) -> Any:
    """0, 1, 2 and so on."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=-1)


def rows_by_value(plans: Iterable[tuple[Plan, Sequence[bytes]]], name: str) -> dict[str, int]:
    """How many rows have each value of a dimension."""
    found: dict[str, int] = {}
    for plan, spans in plans:
        for batch, _ in packing.batches(plan, spans):
            for one in pc.value_counts(batch[name].cast(pa.string())).to_pylist():
                found[one["values"]] = found.get(one["values"], 0) + one["counts"]
    return found


def _filtered(batch: Any, kept: Any) -> Any:
    return batch if kept.true_count == len(kept) else batch.filter(kept)


def _mapped(column: Any, function: Callable[[str], Any], type: Any) -> Any:
    """What the function says of each value of a column. It is called once for each distinct value."""
    return pa.array([function(one) for one in column.dictionary.to_pylist()], type).take(column.indices)
