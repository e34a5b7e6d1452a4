"""Answers a question about facts with DuckDB: one reading of the facts, then sums of sums.

The facts are in three tables of the same columns: `kept.facts` (the file: facts up to the moment it was built),
`kept.ahead` (the file: later facts, and all of test clocks), and `recent.tail` (what has changed since, with weights
of 1 and -1). In the file, texts are enums, and each experiment and each attribute has a column of its own. `shown` is
the currency of amounts in USD: that, or the own one where no exchange rate is known. `month` is the first day of the
month.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from latchkey.domain.charts.period_amounts import PeriodMoney
from latchkey.domain.instants import Ms
from latchkey.subjects.charts.rules.definition import ATTRIBUTE, EXPERIMENT
from latchkey.subjects.charts.rules.facts import LEVELS, REST, Amounts, Kind, Question, Resolution, Run

if TYPE_CHECKING:
    import duckdb

# Variants and attributes are one text each in the tail: name=value, separated by this. No name has an equals sign.
SEPARATOR = "\x1f"

_SUMMED = "sums"
_PAID, _IN_USD = ("micros", "tax", "commission"), ("usd", "tax_usd", "commission_usd")
# The columns that are added up besides the quantity, and which of them each field of `Money` is.
_ADDED = {
    Amounts.ALL: PeriodMoney._fields,
    Amounts.USD: (*_IN_USD, "unconverted"),
    Amounts.GROSS_USD: ("usd", "unconverted"),
    Amounts.DISPLAY: (*_IN_USD, "unconverted"),
    Amounts.NONE: (),
}
_USD_OF = dict(zip(_PAID, _IN_USD, strict=True))
_PERIOD = {
    Resolution.DAY: "day",
    # 1970-01-01 was a Thursday. The remainder of a negative number is negative.
    Resolution.WEEK: "day - ((day + 4) % 7 + 7) % 7",
    Resolution.MONTH: "month_of(day)",
}


class Source(NamedTuple):
    table: str
    # Whether it has facts after now, and whether they have weights.
    timed: bool = True
    weighed: bool = False
    # The experiments and attributes that have columns. None: they are in two texts.
    columns: Collection[str] | None = None

    def column(self, dimension: str) -> str:
        """The SQL of a value: one of a field of `Dimensions`, of an experiment or of an attribute."""
        if not is_tag(dimension):
            return dimension
        if self.columns is not None:
            return name(dimension) if dimension in self.columns else "''"
        return tag_sql(dimension)


def is_tag(dimension: str) -> bool:
    return dimension.startswith((EXPERIMENT, ATTRIBUTE))


def tag_sql(dimension: str) -> str:
    """The variant or the attribute's value from the text that has all of them; "" for none."""
    field, prefix = ("variants", EXPERIMENT) if dimension.startswith(EXPERIMENT) else ("attributes", ATTRIBUTE)
    start = text(f"{SEPARATOR}{dimension.removeprefix(prefix)}=")
    return f"split_part(split_part({text(SEPARATOR)} || {field}, {start}, 2), {text(SEPARATOR)}, 1)"


def name(of: str) -> str:
    """Of a column or a type. DuckDB takes names that differ only in case for the same, so those of experiments and
    attributes are in hexadecimal."""
    return f'"tag_{of.encode().hex()}"' if is_tag(of) else f'"{of}"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def texts(values: Iterable[str]) -> str:
    return ", ".join(map(text, values))


class Answer:
    """The sums that answer a question, by all segments, in a table of this connection. It is replaced by the next
    answer on the same connection."""

    def __init__(self, duck: duckdb.DuckDBPyConnection, sources: Sequence[Source], question: Question, now: Ms) -> None:
        self._duck = duck
        self._question = question
        union = " union all ".join(
            _sums_sql(source, question, kind, now) for source in sources for kind in question.kinds
        )
        columns = "".join(f", sum({one}) as {one}" for one in ("quantity", *_ADDED[question.amounts]))
        duck.execute(
            f"create or replace temp table {_SUMMED} as"
            f" select kind, n, day, segment, currency{columns} from ({union}) group by all"
        )

    def runs(self, *, by: Resolution | None = None, largest: Collection[str] | None = None) -> list[Run]:
        """By longer periods than asked for, if these are named. All but the largest segments as one, if these are."""
        question = self._question
        added = ("quantity", *_ADDED[question.amounts])
        segment = "segment"
        if largest is not None and question.segment is not None:
            segment = f"case when segment in ({texts(largest) or 'null'}) then segment else {text(REST)} end"
        sums = ", ".join(f"sum({one})::bigint as {one}" for one in added)
        lists = ", ".join(f"list({one}) as {one}" for one in ("period", *added))
        found = self._duck.execute(
            f"select kind, n, segment, currency, {lists} from ("
            f" select kind, n, {segment} as segment, currency, {_PERIOD[by or question.resolution]} as period, {sums}"
            f" from {_SUMMED} group by all having {' or '.join(f'sum({one}) <> 0' for one in added)}"
            " order by period nulls first"
            ") group by all order by all"
        ).fetchall()
        return list(map(self._run, found))

    def _run(self, row: tuple[Any, ...]) -> Run:
        kind, n, segment, currency, periods, quantities, *amounts = row
        columns = dict(zip(_ADDED[self._question.amounts], amounts, strict=True))
        money: list[list[int]] = []
        if columns:
            none = [0] * len(quantities)
            for field in PeriodMoney._fields:
                found = columns.get(field)
                money.append(columns.get(_USD_OF.get(field, ""), none) if found is None else found)
        return Run(Kind(kind), n, segment, currency, periods, quantities, money)


def _sums_sql(source: Source, question: Question, kind: Kind, now: Ms) -> str:
    """The facts of a kind, added up by n, day (or month), segment and currency."""
    n, most = "n", None
    for any_kind, limit in question.any_n:
        if any_kind is kind:
            n, most = "0", limit
    day = "month" if question.resolution is Resolution.MONTH else "day"
    where = [f"environment = {text(question.environment)}", f"kind = {text(kind)}", f"day <= {question.last}"]
    if kind in LEVELS:
        day = f"case when day >= {question.first} then {day} end"
    else:
        where.append(f"day >= {question.first}")
    if source.timed:
        where.append(f"moment <= {now}")
    if most is not None:
        where.append(f"n <= {most}")
    where += [f"{source.column(chosen.dimension)} in ({texts(chosen.values)})" for chosen in question.filters]
    segment = "''" if question.segment is None else source.column(question.segment)
    currency, amounts = _amounts(question)
    weight = "weight * " if source.weighed else ""
    sums = "".join(f", sum({weight}{amount}) as {one}" for one, amount in {"quantity": "quantity", **amounts}.items())
    return (
        f"select {text(kind)} as kind, {n} as n, {day} as day, {segment} as segment, {currency} as currency{sums}"
        f" from {source.table} where {' and '.join(where)} group by all"
    )


def _amounts(question: Question) -> tuple[str, dict[str, str]]:
    """The SQL of the currency and of each amount that is added up."""
    columns = {one: one for one in _ADDED[question.amounts]}
    match question.amounts:
        case Amounts.ALL:
            return "currency", columns
        case Amounts.USD | Amounts.GROSS_USD:
            return "shown", columns
        case Amounts.DISPLAY:
            own = f"currency = {text(question.currency)}"
            columns |= {usd: f"case when {own} then {paid} else {usd} end" for paid, usd in _USD_OF.items()}
            return f"case when {own} then currency else shown end", columns
        case Amounts.NONE:
            return "''", {}
