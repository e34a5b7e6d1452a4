"""Durations and prices as they are asked for in JSON, or a message that says what is wrong with them."""

from __future__ import annotations

from latchkey.domain.instants import Duration, parse_duration
from latchkey.domain.money import Price, to_micros
from latchkey.domain.refusal import Invalid


def duration_of(text: str, param: str) -> Duration:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Invalid(f"{error}.", param=param) from None


def price_of(amount: float, currency: str) -> Price:
    try:
        return Price(to_micros(amount), currency)
    except ValueError as error:
        raise Invalid(str(error), param="price") from None
