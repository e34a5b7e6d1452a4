"""docs/charts.md has the definitions that the dashboard shows."""

from tests.docs.chart_definitions import BEGIN, END, PAGE, written


def test_the_page_has_the_definitions_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = page.partition(BEGIN)[2].partition(END)[0]
    assert shown == written(), "run python -m tests.docs.chart_definitions"
