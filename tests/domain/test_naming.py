"""What an operator may write into a catalog."""

from __future__ import annotations

import pytest

from latchkey.domain.naming import checked_currency, checked_duration, checked_id, checked_name, checked_text
from latchkey.domain.refusal import Invalid


@pytest.mark.parametrize("text", ["a", "pro_monthly", "com.example:pro-1", "7", "x" * 100, "..."])
def test_an_id_is_made_of_letters_digits_and_four_signs(text: str) -> None:
    assert checked_id(text) == text


@pytest.mark.parametrize("text", ["", " ", "a b", "a/b", "a\n", "é", ".", "..", "x" * 201, "$rc", "a\0"])
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        checked_id(text, "product_id")
    assert refusal.value.param == "product_id"


def test_a_name_loses_the_spaces_around_it() -> None:
    assert checked_name("  Pro, für immer 👩‍🚀 ") == "Pro, für immer 👩‍🚀"


@pytest.mark.parametrize("text", ["", "  ", "x" * 1501, "\x1fa", "a\n", "a\nb", "a\0b", "\x7f", "\ud800"])
def test_a_name_is_short_and_on_one_line(text: str) -> None:
    with pytest.raises(Invalid):
        checked_name(text)


def test_a_text_may_have_several_lines_but_no_control_characters() -> None:
    assert checked_text("a\n\tb", "description") == "a\n\tb"
    for text in ("x" * 1501, "\0", "\x1b[31m"):
        with pytest.raises(Invalid):
            checked_text(text, "description")


@pytest.mark.parametrize("text", ["P1M", "P1Y6M", "P2W", "P7D", "PT12H", "P1DT30M", "P99Y", "P01M"])
def test_a_duration_is_written_as_in_iso_8601(text: str) -> None:
    assert checked_duration(text) == text


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1", "1M", "p1m", "P0D", "PT0S", "P1.5M", "-P1M", "P100Y", "P1M\n", "P٣D"]
)
def test_what_is_no_length_of_time_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        checked_duration(text)


@pytest.mark.parametrize("text", ["usd", "US", "USDT", "U$D", "", "USD\n"])
def test_a_currency_is_three_capital_letters(text: str) -> None:
    assert checked_currency("USD") == "USD"
    with pytest.raises(Invalid):
        checked_currency(text)
