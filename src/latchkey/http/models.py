"""The types of request bodies and parameters. Unknown fields, and values of another type, are refused.

Bodies are strict: `"1"` is not a number and `1` is not a string. For a choice use `Literal`, not an Enum.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from latchkey.domain import naming
from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.domain.money.amounts import HIGHEST, to_micros
from latchkey.domain.naming import COUNTRIES, CURRENCIES
from latchkey.domain.refusal import Invalid
from latchkey.domain.time_zones import checked_time_zone, time_zones
from latchkey.domain.user_id import BLOCKED, DIRECTIONS, MAX_LENGTH, problem_with
from latchkey.http.errors import InvalidParameter
from latchkey.subjects.api_keys.usecases import FASTEST
from latchkey.wire.paging import DEFAULT_LIMIT, LARGEST_LIMIT, encoded, page
from latchkey.wire.v2 import Page

# Validation errors for which V1 has its own codes.
EMPTY_USER_ID = "empty_app_user_id"
INVALID_USER_ID = "invalid_app_user_id"
USER_ID_PATTERN = r"^[^/\x00-\x1f\x7f]*[^/\s\x00-\x1f\x7f][^/\x00-\x1f\x7f]*$"


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AppBody(BaseModel):
    """A body that apps send. Later versions of the SDKs add fields, so unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class AnyBody(BaseModel):
    """Any JSON object. Nothing of it is used."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _user_id(value: str) -> str:
    problem = problem_with(value)
    if problem is not None:
        # Braces would be parsed as a template.
        kind = INVALID_USER_ID if value.strip() else EMPTY_USER_ID
        raise PydanticCustomError(kind, "{problem}", {"problem": problem})
    return value


# `problem_with`, as far as a JSON schema can express it.
_id_schema: dict[str, Any] = {
    "minLength": 1,
    "maxLength": MAX_LENGTH,
    "pattern": USER_ID_PATTERN,
    "not": {"enum": sorted(BLOCKED | DIRECTIONS)},
}
AppUserId = Annotated[str, AfterValidator(_user_id), Field(json_schema_extra=_id_schema)]
# A V2 body of ours that names a customer: it may say `customer_id` as the vendor does, or `app_user_id`, not both. The
# body's schema needs `either_id`.
CustomerId = Annotated[AppUserId, Field(validation_alias=AliasChoices("app_user_id", "customer_id"))]
PathUserId = Annotated[str, AfterValidator(_user_id), Path(json_schema_extra=_id_schema)]
Instant = Annotated[int, Field(ge=EARLIEST, le=LATEST, description="Epoch milliseconds.")]
Limit = Annotated[
    int,
    Field(ge=1),
    # Who asks for more gets a page of the largest size, and `next_page` leads on.
    AfterValidator(lambda limit: min(limit, LARGEST_LIMIT)),
    Query(description=f"Items on a page; default {DEFAULT_LIMIT}. Above {LARGEST_LIMIT} it is {LARGEST_LIMIT}."),
]


def _held_to(check: Callable[[str], str]) -> AfterValidator:
    """Validates with a rule of the domain."""

    def validate(value: str) -> str:
        try:
            return check(value)
        except Invalid as refusal:
            raise PydanticCustomError("invalid", "{problem}", {"problem": refusal.message}) from None

    return AfterValidator(validate)


def _price(value: float) -> float:
    try:
        to_micros(value)
    except ValueError as error:
        raise PydanticCustomError("invalid", "{problem}", {"problem": str(error)}) from None
    return value


def without_nul(value: str | None) -> str | None:
    if value is not None and "\0" in value:
        raise PydanticCustomError("invalid", "It contains a NUL character.")
    return value


def one_of(**fields: str) -> dict[str, Any]:
    """For a body's schema: exactly one of these fields, each with its JSON type, is present and not null."""
    return {"oneOf": [{"required": [name], "properties": {name: {"type": type}}} for name, type in fields.items()]}


def either_id(schema: dict[str, Any]) -> None:
    """For the schema of a body with a `CustomerId`: exactly one of the two names is present."""
    schema["properties"]["customer_id"] = {**schema["properties"]["app_user_id"], "title": "Customer Id"}
    schema["required"] = [name for name in schema["required"] if name != "app_user_id"]
    schema["oneOf"] = [{"required": ["app_user_id"]}, {"required": ["customer_id"]}]


def any_of(**fields: str) -> dict[str, Any]:
    """The same for at least one of these fields."""
    return {"anyOf": one_of(**fields)["oneOf"]}


def not_null() -> Any:
    """For a field that may be omitted, but not null. A factory, because a default would appear in the document."""
    return Field(default_factory=lambda: None)


def _name_schema(pattern: str, longest: int = naming.LONGEST) -> Any:
    return Field(json_schema_extra={"minLength": 1, "maxLength": longest, "pattern": pattern})


Id = Annotated[str, _held_to(naming.checked_id), _name_schema(naming.ID_PATTERN)]
Name = Annotated[str, _held_to(naming.checked_name), _name_schema(naming.NAME_PATTERN, naming.LONGEST_NAME)]
LookupKey = Annotated[str, _held_to(naming.checked_lookup_key), _name_schema(naming.NAME_PATTERN)]
Description = Annotated[
    str,
    _held_to(naming.checked_text),
    Field(json_schema_extra={"maxLength": naming.LONGEST_TEXT, "pattern": naming.TEXT_PATTERN}),
]
IsoDuration = Annotated[
    str, _held_to(naming.checked_duration), Field(json_schema_extra={"pattern": naming.DURATION_PATTERN})
]
CurrencyCode = Annotated[str, _held_to(naming.checked_currency), Field(json_schema_extra={"enum": sorted(CURRENCIES)})]
CountryCode = Annotated[str, _held_to(naming.checked_country), Field(json_schema_extra={"enum": sorted(COUNTRIES)})]
# The names are read only when the document is made: they are 600 files.
TimeZone = Annotated[
    str,
    _held_to(checked_time_zone),
    Field(json_schema_extra=lambda schema: schema.update(enum=list(time_zones()))),
]
StoreName = Annotated[
    str, Field(pattern=naming.STORE_PATTERN, description="Lower case, such as `paddle` or `bank_transfer`.")
]
Amount = Annotated[float, Field(ge=0, le=HIGHEST, description="At most six decimals."), AfterValidator(_price)]
Quantity = Annotated[int, Field(ge=1, le=MAX_BALANCE)]
RateLimit = Annotated[int, Field(ge=1, le=FASTEST, description="Requests a minute.")]
_Cursor = Annotated[str, Field(max_length=500), AfterValidator(without_nul)]
# The id of something that should exist: a lookup decides.
AnyId = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(without_nul)]
StoreId = AnyId
StartingAfter = Annotated[
    _Cursor | None,
    # An empty cursor, from a client without a previous page, means the first page.
    AfterValidator(lambda cursor: cursor or None),
    Query(
        description="The last item of the page before. A list that is sorted by it goes on there even if the item is "
        "gone; in any other list an unknown item is 404 `resource_missing`."
    ),
]


# The default of a list in the query; FastAPI copies it.
NO_ITEMS: list[Any] = []

Item = TypeVar("Item")
_id_of = attrgetter("id")


class PageRequest(NamedTuple):
    """Which page of a list is asked for, and the path of the list."""

    limit: int
    after: str | None
    path: str

    @property
    def window(self) -> tuple[str | None, int]:
        """What a query needs: where the page starts, and how many items. One more shows whether a page follows."""
        return self.after, self.limit + 1

    def of(
        self, items: Sequence[Item], name: Callable[[Item], str] = _id_of, filters: Mapping[str, str] | None = None
    ) -> Page[Item]:
        """The page with the items that a query found for the window. `name` is what the next page starts after."""
        return page(items, name, self.path, self.limit, None, filters)


async def _paging(request: Request, limit: Limit = DEFAULT_LIMIT, starting_after: StartingAfter = None) -> PageRequest:
    written = {name: encoded(value) for name, value in request.path_params.items()}
    return PageRequest(limit, starting_after, request.scope["route"].path_format.format(**written))


Paging = Annotated[PageRequest, Depends(_paging)]

GrantLength = Literal[
    "daily", "three_day", "weekly", "two_week", "monthly", "two_month", "three_month", "six_month", "yearly", "lifetime"
]

AppleId = Annotated[int, Field(gt=0, lt=10**15)]


def base_of(request: Request) -> str:
    """Where the service is reached. Always https: stores accept nothing else."""
    return f"https://{request.headers.get('host', '')}"


def in_order(since_ms: int | None, until_ms: int | None) -> None:
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise InvalidParameter("until_ms must be later than since_ms.", param="until_ms")
