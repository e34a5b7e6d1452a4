"""Checks of the ids, names, countries, currencies and durations that an operator chooses."""

import re
from importlib.resources import files

from latchkey.domain.instants import parse_duration
from latchkey.domain.money.pinned_rates import REFERENCE
from latchkey.domain.purchases.purchase import USD
from latchkey.domain.refusal import Invalid

# All of ISO 3166-1, and the codes that stores use for Kosovo: those with two letters, by those with three.
TWO_LETTERS = dict(
    line.split() for line in (files("latchkey.domain") / "countries.txt").read_text(encoding="utf-8").splitlines()
)
COUNTRIES = frozenset(TWO_LETTERS.values())
# In another one sales could not be converted, and would count nothing.
CURRENCIES = frozenset({USD, *REFERENCE})


# Of ids, and of names; the vendor's clients send names of up to 1,500 characters.
LONGEST = 200
LONGEST_NAME = 1500
ID_PATTERN = r"^[A-Za-z0-9_.:-]+$"
# At least one visible character and no control characters; surrounding spaces are removed.
NAME_PATTERN = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x20\x7f\x85][^\x00-\x1f\x7f]*$"
# Up to 99 years: for unlimited access sell a one-time product without a duration.
DURATION_PATTERN = (
    r"^P(?!$)([0-9]{1,2}Y)?([0-9]{1,3}M)?([0-9]{1,3}W)?([0-9]{1,4}D)?"
    r"(T(?=[0-9])([0-9]{1,5}H)?([0-9]{1,5}M)?([0-9]{1,6}S)?)?$"
)
# Of a store: any name in lower case.
STORE_PATTERN = r"^[a-z][a-z0-9_]{0,49}$"
LONGEST_TEXT = 1500
TEXT_PATTERN = r"^[^\x00-\x08\x0b-\x1f\x7f]*$"

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_STORE = re.compile(r"[a-z][a-z0-9_]{0,49}")
_DURATION = re.compile(DURATION_PATTERN.rstrip("$"))
# Clients that normalise paths would resolve these to another path.
_PATH_SIGNS = frozenset({".", ".."})


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None and text not in _PATH_SIGNS


def checked_id(text: str, param: str = "id") -> str:
    if not is_id(text):
        raise Invalid(
            f"An id has 1 to {LONGEST} characters: letters without accents, digits, and any of _ . : -", param=param
        )
    return text


def checked_name(text: str, param: str = "name") -> str:
    """The name without surrounding spaces."""
    trimmed = text.strip()
    if not 1 <= len(trimmed) <= LONGEST_NAME or not _is_clean(text):
        raise Invalid(f"A name has 1 to {LONGEST_NAME} characters, none of them a control character.", param=param)
    return trimmed


def checked_lookup_key(text: str, param: str = "lookup_key") -> str:
    """The name by which apps know an offering or a package, without surrounding spaces. No path contains it, so it may
    have any visible characters."""
    trimmed = text.strip()
    if not 1 <= len(trimmed) <= LONGEST or not _is_clean(trimmed):
        raise Invalid(f"A lookup key has 1 to {LONGEST} characters, none of them a control character.", param=param)
    return trimmed


def checked_text(text: str, param: str = "description") -> str:
    """Free text; line breaks are allowed."""
    if len(text) > LONGEST_TEXT or not _is_clean(text.replace("\n", "").replace("\t", "")):
        raise Invalid(f"This text has at most {LONGEST_TEXT} characters and no control characters.", param=param)
    return text


def checked_currency(code: str, param: str = "currency") -> str:
    if code not in CURRENCIES:
        raise Invalid("This is no currency of ISO 4217. Its code has three capital letters, such as USD.", param=param)
    return code


def checked_country(code: str, param: str = "country") -> str:
    if code not in COUNTRIES:
        raise Invalid("This is no country of ISO 3166-1. Its code has two capital letters, such as DE.", param=param)
    return code


def checked_store(name: str, param: str = "store") -> str:
    if _STORE.fullmatch(name) is None:
        raise Invalid("A store is named in lower case, such as app_store or paddle.", param=param)
    return name


def checked_duration(text: str, param: str = "duration") -> str:
    """An ISO 8601 duration, as it was written."""
    if _DURATION.fullmatch(text) is None:
        raise Invalid("A duration is written as in ISO 8601, such as P1M, P7D or PT12H; up to 99 years.", param=param)
    try:
        parse_duration(text)
    except ValueError as error:
        raise Invalid(f"{error}.", param=param) from None
    return text


def _is_clean(text: str) -> bool:
    return not any(char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in text)
