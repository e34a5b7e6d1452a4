"""What a reply says about a field that the framework refuses.

Messages of pydantic ("Input should be a valid dictionary or object to extract fields from") speak of Python, and some
show a regular expression. These speak of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAID = {
    "missing": "This field is required.",
    "extra_forbidden": "There is no such field.",
    "int_parsing_size": "This number is too large.",
    "string_pattern_mismatch": "It does not have the required form; see /docs.",
    "list_type": "It must be a list.",
    "tuple_type": "It must be a list.",
    **dict.fromkeys(("bool_type", "bool_parsing"), "It must be true or false."),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "It must be an object."),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "It must be a whole number."),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number", "decimal_type"), "It must be a number."),
    **dict.fromkeys(("string_type", "string_sub_type", "string_unicode"), "It must be a string."),
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        "It must be a date such as 2027-01-31.",
    ),
}
_LIMITS = {
    "greater_than_equal": "It must be at least {ge}.",
    "greater_than": "It must be greater than {gt}.",
    "less_than_equal": "It must be at most {le}.",
    "less_than": "It must be less than {lt}.",
    "string_too_long": "It may have at most {max_length} characters.",
    "string_too_short": "It must have at least {min_length} {characters}.",
    "too_long": "It may have at most {max_length} entries.",
    "too_short": "It must have at least {min_length} {entries}.",
    "literal_error": "It must be {expected}.",
    "enum": "It must be {expected}.",
}


def said(error: Mapping[str, Any]) -> str:
    """One sentence about the first thing that is wrong."""
    kind = str(error["type"])
    if kind in _SAID:
        return _SAID[kind]
    context = error.get("ctx") or {}
    if kind in _LIMITS:
        one = context.get("min_length") == 1
        plural = {"characters": "character" if one else "characters", "entries": "entry" if one else "entries"}
        return _LIMITS[kind].format(**context, **plural)
    # Our own validators.
    return str(error["msg"]).removeprefix("Value error, ")
