"""What grows although it should not: the last quarter of a run beside its second. The first is warm-up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import linear_regression, median
from typing import Literal, TypeAlias

from bench.soak.load import CHART, PAGE, PURCHASE, RECEIVER, V1, V2
from bench.soak.sampling import MIB, Sample
from bench.table import Row

# Tables with a row for each purchase, customer or request, or several, and how long they are kept. They may grow as
# purchases do; every other table must stop growing.
GROWING: Mapping[str, str] = {
    "customers": "until they are erased",
    "aliases": "as long as their customer",
    "customer_emails": "as long as their customer",
    "customer_facets": "as long as their customer",
    "purchase_owners": "as long as their customer",
    "purchase_transactions": "as long as their customer",
    "store_handles": "as long as their customer",
    "chart_periods": "for ever",
    "events": "for ever",
    "deliveries": "30 days",
    "attempts": "30 days",
    "store_notifications": "90 days",
    "idempotent_requests": "24 hours",
    "audit_entries": "for ever: a test clock is made, moved and deleted",
    "gone_customers": "for ever: the customers of a test clock are erased",
    "rewritten_events": "for ever: the customers of a test clock are erased",
    "purchase_endings": "for ever: the customers of a test clock are erased",
}
# What grows with them on disk. Logs and the database's own log must not.
GROWING_ON_DISK = ("tables and indexes", "consumer", "charts")
TIMED = (PURCHASE, V1, V2, CHART, PAGE, RECEIVER)
LEAST_SAMPLES = 16
# Growth that counts as none, as a share and what is added to it, because small values move: in MiB, milliseconds, rows,
# and bytes a purchase.
MEMORY, P50, P99, CPU, OPEN = (0.05, 10.0), (0.25, 2.0), (0.5, 10.0), (0.2, 0.5), (0.1, 10.0)
ROWS, SIZE, DISK, LINEAR = (0.25, 500.0), (0.25, 1.0), (0.25, 64.0), (0.15, 8.0)
# A table that must not grow is shown from this size on.
SHOWN_ROWS, SHOWN_MIB = 100, 1.0
# Of a smaller table what a purchase adds is not known: it grows by whole pages.
LEAST_BYTES = 4 * 1024**2

Value: TypeAlias = Callable[[Sample], float | None]


def judge(samples: Sequence[Sample]) -> list[Row]:
    """`ceiling` of a row is the second quarter; `holds` is None where nothing is asked."""
    if len(samples) < LEAST_SAMPLES:
        raise SystemExit(f"{len(samples)} samples are too few for a verdict; {LEAST_SAMPLES} are needed.")
    run, last = Run(samples), samples[-1]
    rows = [
        Row("time", last.at / 60, "minutes"),
        Row("purchases", last.purchases, ""),
        Row("events", last.events, ""),
        Row("requests that failed", sum(last.errors.values()), ""),
    ]
    rows += [run.memory(role) for role in sorted(last.memory)]
    rows += [run.compared(f"open files: {role}", files_of(role), max, OPEN) for role in sorted(last.files)]
    rows.append(run.compared("database connections", lambda sample: sample.connections, max, OPEN))
    for kind in TIMED:
        rows.append(run.compared(f"{kind}, p50", timing_of(kind, "p50"), median, P50, "ms"))
        rows.append(run.compared(f"{kind}, p99", timing_of(kind, "p99"), median, P99, "ms"))
    rows += [run.cpu(role) for role in sorted(last.cpu)]
    rows += [run.bytes_of_a_purchase(table) for table in sorted(GROWING)]
    rows += run.of_bounded_tables(bounded(last))
    for place in sorted(last.disk):
        within = None if place in GROWING_ON_DISK else DISK
        rows.append(run.compared(f"disk: {place}", disk_of(place), max, within, "MiB"))
    return rows


def bounded(sample: Sample) -> list[str]:
    """The tables that must not grow."""
    return sorted(sample.tables.keys() - GROWING.keys())


class Run:
    def __init__(self, samples: Sequence[Sample]) -> None:
        quarter = len(samples) // 4
        self._after_warm_up = samples[quarter:]
        self._second, self._last = samples[quarter : 2 * quarter], samples[-quarter:]

    def compared(
        self,
        name: str,
        value: Value,
        summary: Callable[[Iterable[float]], float],
        within: tuple[float, float] | None,
        unit: str = "",
    ) -> Row:
        """`within` None: it may grow."""
        second, last = self._both(value, summary)
        if within is None:
            return Row(name, last, unit, second, _ratio(last, second), "grows")
        words, holds = _within(within, unit, second, last)
        return Row(name, last, unit, second, _ratio(last, second), words, holds)

    def memory(self, role: str) -> Row:
        """By its slope after the warm-up."""
        known = [(sample.at, mib) for sample in self._after_warm_up if (mib := sample.memory.get(role)) is not None]
        slope, _ = linear_regression(*zip(*known, strict=True))
        grown, most = slope * (known[-1][0] - known[0][0]), max(MEMORY[0] * median(mib for _, mib in known), MEMORY[1])
        second, last = self._both(memory_of(role), median)
        words = f"{slope * 3600:+.1f} an hour; ≤ {most:.0f} in all"
        return Row(f"memory: {role}", last, "MiB", second, _ratio(last, second), words, grown <= most)

    def cpu(self, role: str) -> Row:
        """Milliseconds for each purchase, with the reads, charts and pages beside it."""
        second, last = (
            sum(sample.cpu.get(role, 0.0) for sample in part[1:]) / max(1, part[-1].purchases - part[0].purchases)
            for part in (self._second, self._last)
        )
        words, holds = _within(CPU, "ms", second, last)
        return Row(
            f"CPU of a purchase and all beside it: {role}", last, "ms", second, _ratio(last, second), words, holds
        )

    def bytes_of_a_purchase(self, table: str) -> Row:
        """What the second half of the time after the warm-up added, beside the first half."""
        half = len(self._after_warm_up) // 2
        before, after = (_added(part, table) for part in (self._after_warm_up[: half + 1], self._after_warm_up[half:]))
        small = self._last[-1].tables[table].bytes < LEAST_BYTES
        words = "too small to tell" if small else f"≤ {1 + LINEAR[0]:g} times and {LINEAR[1]:g}"
        holds = None if small else after <= before * (1 + LINEAR[0]) + LINEAR[1]
        return Row(f"bytes a purchase: {table}", after, "", before, _ratio(after, before), words, holds)

    def of_bounded_tables(self, tables: Sequence[str]) -> list[Row]:
        """The largest, those that grow, and how many others there are."""
        rows = [self.compared(f"rows: {table}", table_of(table, "rows"), max, ROWS) for table in tables]
        rows += [self.compared(f"size: {table}", table_of(table, "bytes", MIB), max, SIZE, "MiB") for table in tables]
        shown = [row for row in rows if not row.holds or row.value >= (SHOWN_MIB if row.unit else SHOWN_ROWS)]
        others = len(tables) - len({row.name.partition(": ")[2] for row in shown})
        return [*shown, Row("other tables, which are small and stay so", others, "")]

    def _both(self, value: Value, summary: Callable[[Iterable[float]], float]) -> tuple[float, float]:
        """Of the second and the last quarter."""
        parts = ([value(sample) for sample in part] for part in (self._second, self._last))
        second, last = (summary([one for one in part if one is not None] or [0.0]) for part in parts)
        return second, last


def _within(most: tuple[float, float], unit: str, second: float, last: float) -> tuple[str, bool]:
    share, added = most
    return f"≤ {1 + share:g} times and {added:g} {unit}".rstrip(), last <= second * (1 + share) + added


def _ratio(last: float, second: float) -> float | None:
    return last / second if second else None


def _added(part: Sequence[Sample], table: str) -> float:
    first, last = part[0], part[-1]
    return (last.tables[table].bytes - first.tables[table].bytes) / max(1, last.purchases - first.purchases)


def memory_of(role: str) -> Value:
    return lambda sample: sample.memory.get(role)


def files_of(role: str) -> Value:
    return lambda sample: sample.files.get(role)


def disk_of(place: str) -> Value:
    return lambda sample: sample.disk.get(place)


def cpu_of(role: str, samples: Sequence[Sample]) -> Value:
    """Milliseconds of a second."""
    seconds = median(later.at - sooner.at for sooner, later in pairwise(samples))
    return lambda sample: sample.cpu.get(role, 0.0) / seconds


def timing_of(kind: str, which: Literal["p50", "p99"]) -> Value:
    return lambda sample: getattr(sample.timings[kind], which) if kind in sample.timings else None


def table_of(name: str, field: Literal["rows", "bytes", "dead"], scale: float = 1) -> Value:
    return lambda sample: getattr(sample.tables[name], field) / scale if name in sample.tables else None
