"""One measured row, and the table of all rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: float
    unit: str
    # The same work without Latchkey: what the machine can do.
    ceiling: float | None = None
    ratio: float | None = None
    # The required value as text, and whether it is met.
    bar: str = ""
    holds: bool | None = None


def against(name: str, value: float, unit: str, ceiling: float, at_least: float | None = None) -> Row:
    """A row with its ceiling."""
    ratio = value / ceiling
    bar = f"≥ {at_least:g} of the ceiling" if at_least is not None else ""
    return Row(name, value, unit, ceiling, ratio, bar, ratio >= at_least if at_least is not None else None)


def show(rows: Sequence[Row], title: str, beside: str = "ceiling") -> None:
    """`beside` is what Latchkey is compared with."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading, justify in (("what", "left"), ("measured", "right"), (beside, "right"), ("ratio", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]  # rich wants its own literal
    table.add_column("bar")
    for row in rows:
        mark = "" if row.holds is None else " [green]✓[/]" if row.holds else " [red]✗[/]"
        table.add_row(
            row.name,
            f"{shown_number(row.value)} {row.unit}",
            f"{shown_number(row.ceiling)} {row.unit}" if row.ceiling is not None else "",
            f"{row.ratio:.2f}" if row.ratio is not None else "",
            row.bar + mark,
        )
    Console().print(table)


def shown_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def say(text: str) -> None:
    """What is being measured now."""
    print(text, flush=True)
