"""The definitions of all charts, as docs/charts.md shows them. Run it to write the page again."""

from collections.abc import Iterator
from pathlib import Path

from latchkey.subjects.charts.rules.definition import CHARTS, GROUPS, Definition, Unit, title_of

PAGE = Path(__file__).parents[2] / "docs" / "charts.md"
BEGIN, END = "<!-- charts -->\n", "<!-- end of charts -->"
UNITS = {Unit.COUNT: "count", Unit.MONEY: "money", Unit.SHARE: "share"}


def written() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for group in GROUPS:
        yield f"### {group}"
        for one in CHARTS:
            if one.group == group:
                yield from _chart(one)


def _chart(one: Definition) -> Iterator[str]:
    yield f"#### {one.title} (`{one.name}`)"
    yield one.words
    if one.differs:
        yield ""
        yield f"Differs from RevenueCat: {one.differs}"
    yield ""
    said = [f"Unit: {UNITS[one.unit]}"]
    if one.segments:
        own = ("experiment", "attribute") if one.has_experiments else ("attribute",)
        said.append(f"broken down by {', '.join([*(title_of(id).lower() for id in one.segments), *own])}")
    else:
        said.append("no breakdown")
    for selector in one.selectors:
        choices = ", ".join(f"`{choice.id}`" for choice in selector.choices) or "the project's experiments"
        said.append(f"`{selector.name}`: {choices}")
    yield "; ".join(said) + "."
    yield ""


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + written() + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
