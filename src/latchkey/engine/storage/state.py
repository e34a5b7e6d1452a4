"""The stored form of a customer: its struct as JSON, with the version of that form.

A state begins with its version: `{"v":1,"project_id":…`. An upgrade of Latchkey does not rewrite rows. A state of
another version is converted each time it is read, by pure steps over its JSON, and is stored in the current version
when the customer next changes.

How to change the form of a state, and which releases may run beside each other: docs/architecture/database.md
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType, UnionType
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct, StructMeta, ValidationError, json, structs

from latchkey.database.errors import StateVersionError
from latchkey.database.pool import Executor
from latchkey.database.sql import query
from latchkey.domain.customers.customer import Customer
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Period, Status, Subscription

# By class; a test holds the names to the fields.
Unseen: TypeAlias = tuple[tuple[type[Struct], frozenset[str]], ...]


@cache
def struct_of(shape: type, unseen: Unseen = ()) -> Any:
    """The struct without the `unseen` fields, and all that it is made of likewise."""
    types = get_type_hints(shape)
    hidden: frozenset[str] = dict(unseen).get(shape, frozenset())
    return msgspec.defstruct(
        shape.__name__,
        [_field(field, types[field.name], unseen) for field in structs.fields(shape) if field.name not in hidden],
        namespace={name: value for name, value in vars(shape).items() if _is_ours(name, value)},
        frozen=True,
        kw_only=True,
        gc=False,
    )


def _field(field: structs.FieldInfo, type: Any, unseen: Unseen) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.default is not NODEFAULT:
        return field.name, _type(type, unseen), field.default
    if field.default_factory is not NODEFAULT:
        return field.name, _type(type, unseen), msgspec.field(default_factory=field.default_factory)
    return field.name, _type(type, unseen)


def _type(type: Any, unseen: Unseen) -> Any:
    if isinstance(type, StructMeta):
        return struct_of(type, unseen)
    origin, parts = get_origin(type), tuple(_type(part, unseen) for part in get_args(type))
    if origin is None:
        return type
    return Union[parts] if origin in (Union, UnionType) else origin[parts]  # noqa: UP007 - made of what is known only now


def _is_ours(name: str, value: Any) -> bool:
    """A property or method that somebody wrote, not one that msgspec made."""
    return isinstance(value, property | FunctionType) and not name.startswith("__")


State: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[State], State]
T = TypeVar("T")

# The version that this code writes.
VERSION = 1
# Each converts a state of its version into the next version towards VERSION. Steps from older versions stay for ever.
# A step from VERSION + 1 lets this release read what the next one writes while both run.
STEPS: Mapping[int, Step] = {}

# Of a period and of a purchase.
_OF_PAYMENT = frozenset({"given_back", "parts_back", "country", "terms", "offering", "offer_code"})
# Fields that V1's hot read neither shows nor needs.
UNSEEN: Unseen = (
    (Customer, frozenset({"aliases", "record", "balances", "transfers", "currency_transactions", "joined"})),
    (Subscription, frozenset({"app_id", "invoices", "expired"})),
    (Period, _OF_PAYMENT | {"number", "cause", "as_of", "changed_from", "paid_from"}),
    (Status, frozenset({"as_of", "renewal_off_reason", "next_product_id", "ended"})),
    (Purchase, _OF_PAYMENT | {"app_id", "credited", "credited_code", "credit_owed", "expired", "told_at"}),
)
# The same for V2's hot read, which shows no purchases.
UNSEEN_BY_V2: Unseen = (
    (Customer, UNSEEN[0][1] | {"original_application_version"}),
    (Subscription, UNSEEN[1][1] | {"id"}),
    (Period, UNSEEN[2][1] | {"id", "price"}),
    UNSEEN[3],
    (Purchase, UNSEEN[4][1] | {"price"}),
)


class _Versioned(Struct):
    v: int


_VERSION_OF = json.Decoder(_Versioned)


class StateFormat(Generic[T]):
    """Reads and writes the states of one struct."""

    def __init__(self, shape: type[T], version: int, steps: Mapping[int, Step], unseen: Unseen = ()) -> None:
        self._version = version
        self._steps = steps
        self._encode = json.Encoder().encode
        self._prefix = b'{"v":%d,' % version
        self._shape = shape
        self._decode = json.Decoder(shape).decode
        self._read_shape = _with_version(cast(type, shape), unseen, version)
        self._decode_for_reading: Callable[[bytes], T] = json.Decoder(self._read_shape).decode

    def encode(self, value: T) -> bytes:
        return self._prefix + self._encode(value)[1:]

    def decode(self, state: bytes) -> T:
        if state.startswith(self._prefix):
            return self._decode(state)
        version = _VERSION_OF.decode(state).v
        if version == self._version:
            return self._decode(state)
        return msgspec.convert(self._converted(state, version), self._shape)

    def decode_for_reading(self, state: bytes) -> T:
        """For the two hot reads: read-only, and faster to decode, see `struct_of`. The decoder checks the version
        while decoding: looking for the version first would slow down every read."""
        try:
            return self._decode_for_reading(state)
        except ValidationError:
            version = _VERSION_OF.decode(state).v
            if version == self._version:
                raise
            seen: T = msgspec.convert(self._converted(state, version), self._read_shape)
            return seen

    def _converted(self, state: bytes, version: int) -> State:
        """The state in the current version."""
        # Works for any number: it stops at the first version that has no step.
        if any(at not in self._steps for at in _way(version, self._version)):
            raise StateVersionError(
                f"A customer's stored state has version {version}; this Latchkey reads versions up to "
                f"{max(self._version, *self._steps, 0)}. A newer Latchkey has written it, so run only that one, or a "
                "newer one, on this database. Nothing was changed."
            )
        converted: State = json.decode(state)
        for at in _way(version, self._version):
            converted = self._steps[at](converted)
        return converted | {"v": self._version}


def _way(version: int, target: int) -> range:
    """The versions from the first towards the target, without the target."""
    return range(version, target, 1 if version < target else -1)


def _with_version(shape: type, unseen: Unseen, version: int) -> Any:
    """The struct with its version, which must be this one."""
    field = ("v", Annotated[int, Meta(ge=version, le=version)])
    struct = struct_of(shape, unseen)
    return msgspec.defstruct(shape.__name__, [field], bases=(struct,), frozen=True, kw_only=True, gc=False)


_CUSTOMERS = StateFormat(Customer, VERSION, STEPS, UNSEEN)
encode = _CUSTOMERS.encode
decode = _CUSTOMERS.decode
decode_for_reading = _CUSTOMERS.decode_for_reading
decode_for_v2 = StateFormat(Customer, VERSION, STEPS, UNSEEN_BY_V2).decode_for_reading


async def load(connection: Executor, project_id: str, app_user_id: str) -> Customer | None:
    """A customer by any of its ids, read without a lock."""
    state = await connection.fetchval(query("customer_state"), project_id, app_user_id)
    return None if state is None else decode(state)


async def key_of(connection: Executor, project_id: str, app_user_id: str) -> int | None:
    """The key of the customer's row, under which its events and currency transactions are stored."""
    key: int | None = await connection.fetchval(query("customers_by_whole_id"), project_id, [app_user_id])
    return key
