"""The errors of a request.

ApiError
├── BadRequest                 400  malformed in some way: not JSON, or JSON that cannot be stored
│   └── InvalidParameter       400  one named parameter or field is wrong
│       └── InvalidAppUserId   400  an id that is not allowed
├── Unauthenticated            401  no key, or an unknown one
├── Forbidden                  403  the key may not do this
├── NoSuchPath                 404  no route has this path
├── Missing                    404  the named object does not exist
├── MethodNotAllowed           405  the path does not support this method
├── Conflicting                409  the object exists already, or is still in use
├── UnderWay                   409  the same request is being carried out
├── BodyTooLarge               413  more than the limit
├── UnsupportedMediaType       415  not JSON
├── Unprocessable              422  not possible in the current state
├── TooManyRequests            429  the key's rate limit is used up
├── Failure                    500  an error of the service; the log has the details
│   └── Unavailable            503  an error of the service that is likely temporary
│       ├── StoreUnavailable   503  a store that had to be asked cannot be reached
│       └── StillPreparing     503  what was asked for is being prepared
└── StoreNotConnected          503  a receipt of a store that is not connected yet; the phone keeps the purchase

An error knows both of its bodies; the path alone decides which one is sent. The errors derive from Starlette's
HTTPException because FastAPI lets only those pass while it reads a body.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from msgspec import UNSET, json
from starlette.exceptions import HTTPException

from latchkey.domain.refusal import (
    CodedRefusal,
    Conflict,
    InUse,
    Invalid,
    NotFound,
    NotReady,
    OwnedByAnother,
    Refusal,
    StoreRefused,
    StoreUnreachable,
)
from latchkey.wire.errors import RedemptionErrorInfo, RejectedAttribute, V1Error, V2Error, V2ErrorType

Version = Literal["v1", "v2"]

# Parameters that name a customer: V1 has its own code for a customer that does not exist.
_CUSTOMER_PARAMETERS = frozenset({None, "app_user_id", "customer_id", "target_customer_id"})

# Messages and parameters repeat what was sent, which can be as long as a body.
LONGEST_MESSAGE, LONGEST_PARAM = 1_000, 200

# How long to wait before a store is asked again, where it does not say so itself.
_STORE_PAUSE_MS = 10_000


class ApiError(HTTPException):
    status: ClassVar[int]
    code: int = 7226
    type: V2ErrorType = "invalid_request"
    retryable: ClassVar[bool] = False
    # When to send the request again.
    retry_after_ms: int | None = None
    message: str = ""

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        type: V2ErrorType | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after_ms: int | None = None,
        attribute_errors: Sequence[RejectedAttribute] | None = None,
        obfuscated_email: str | None = None,
    ) -> None:
        self.message = _clipped(message or self.message, LONGEST_MESSAGE)
        self.retry_after_ms = wait = retry_after_ms or self.retry_after_ms
        retry = {} if wait is None else {"retry-after": str(-(-wait // 1000))}
        super().__init__(self.status, self.message, {**retry, **(headers or {})})
        self.code = code if code is not None else self.code
        self.type = type if type is not None else self.type
        self.param = None if param is None else _clipped(param, LONGEST_PARAM)
        self.attribute_errors = attribute_errors
        self.obfuscated_email = obfuscated_email

    def body(self, version: Version, request_id: str) -> bytes:
        message = self.message if self.status < 500 else f"{self.message} Request id: {request_id}"
        if version == "v1":
            sent_to = self.obfuscated_email
            info = UNSET if sent_to is None else RedemptionErrorInfo(obfuscated_email=sent_to)
            wrong = list(self.attribute_errors or ()) or UNSET
            return json.encode(
                V1Error(code=self.code, message=message, attribute_errors=wrong, purchase_redemption_error_info=info)
            )
        param, wait = self.param or UNSET, self.retry_after_ms or UNSET
        return json.encode(
            V2Error(type=self.type, message=message, retryable=self.retryable, param=param, backoff_ms=wait)
        )


def _clipped(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class BadRequest(ApiError):
    status = 400


class InvalidParameter(BadRequest):
    type = "parameter_error"


class InvalidAppUserId(InvalidParameter):
    code = 7256

    def __init__(self, message: str, *, param: str = "app_user_id", empty: bool = False) -> None:
        super().__init__(message, param=param, code=7220 if empty else 7256)


class Unauthenticated(ApiError):
    status = 401
    code = 7225
    type = "authentication_error"

    def __init__(self, message: str, *, code: int = 7225) -> None:
        super().__init__(message, code=code, headers={"www-authenticate": "Bearer"})


class Forbidden(ApiError):
    status = 403
    code = 7243
    type = "authorization_error"


class NoSuchPath(ApiError):
    status = 404
    type = "resource_missing"
    message = "There is nothing at this path. /openapi.json lists all paths."


class Missing(ApiError):
    status = 404
    code = 7259
    type = "resource_missing"


class MethodNotAllowed(ApiError):
    status = 405

    def __init__(self, allowed: Sequence[str]) -> None:
        listed = ", ".join(allowed)
        super().__init__(f"This path answers only {listed}.", headers={"allow": listed})


class Conflicting(ApiError):
    status = 409
    type = "resource_already_exists"


class UnderWay(ApiError):
    status = 409
    type = "idempotency_error"
    retryable = True
    retry_after_ms = 1_000
    message = "A request with this key is under way. Send it again in a moment, to get its reply."


class BodyTooLarge(ApiError):
    status = 413


class UnsupportedMediaType(ApiError):
    status = 415


class Unprocessable(ApiError):
    status = 422
    type = "unprocessable_entity_error"


class TooManyRequests(ApiError):
    status = 429
    code = 7638
    type = "rate_limit_error"
    retryable = True

    def __init__(self, retry_after_ms: int, reason: str = "This key has used up its requests for now.") -> None:
        wait = max(1, retry_after_ms)
        super().__init__(f"{reason} Try again in {-(-wait // 1000)} s.", retry_after_ms=wait)


class Failure(ApiError):
    status = 500
    code = 7110
    type = "server_error"
    retryable = True
    message = "An unexpected error in the service. Try again, and if it stays, quote the request id."


class Unavailable(Failure):
    status = 503
    retry_after_ms = 1_000
    message = "The service cannot answer right now. Try again in a moment."


class StoreNotConnected(ApiError):
    """Replaces every 4xx that would make a phone drop a purchase which may be real."""

    status = 503
    code = 7101
    type = "store_error"
    retryable = True
    retry_after_ms = 60_000


class StoreUnavailable(Unavailable):
    code = 7101


class StillPreparing(Unavailable):
    retry_after_ms = 30_000


# Of coded refusals those that are no 422: an address that is none, a checkout that is not there, and a token that is
# refused.
_BY_CODE: dict[int, type[ApiError]] = {7012: BadRequest, 7877: Missing, **dict.fromkeys((7849, 7852, 7853), BadRequest)}


# By the kind of refusal, the first that fits: the error, and what is not as the error has it by default.
_OF_REFUSALS: dict[type[Refusal], tuple[type[ApiError], dict[str, Any]]] = {
    Conflict: (Conflicting, {}),
    InUse: (Conflicting, {"type": "unprocessable_entity_error"}),
    Invalid: (InvalidParameter, {}),
    StoreRefused: (Unprocessable, {"type": "store_error", "code": 7101}),
    NotReady: (StillPreparing, {}),
    OwnedByAnother: (Unprocessable, {"code": 7102}),
    Refusal: (Unprocessable, {}),
}


def from_refusal(refusal: Refusal) -> ApiError:
    """The API error for a refusal of the rules."""
    match refusal:
        case CodedRefusal(problem=code):
            kind = _BY_CODE.get(code, Unprocessable)
            return kind(refusal.message, code=code, obfuscated_email=refusal.obfuscated_email)
        case NotFound():
            code = 7259 if refusal.param in _CUSTOMER_PARAMETERS else 7226
            return Missing(refusal.message, param=refusal.param, code=code)
        case StoreUnreachable():
            return StoreUnavailable(refusal.message, retry_after_ms=max(refusal.retry_after_ms or 0, _STORE_PAUSE_MS))
    kind, own = next(error for of, error in _OF_REFUSALS.items() if isinstance(refusal, of))
    return kind(refusal.message, param=refusal.param, **own)


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
    context = error.get("ctx") or {}
    one = context.get("min_length") == 1
    plural = {"characters": "character" if one else "characters", "entries": "entry" if one else "entries"}
    if words := _SAID.get(error["type"]):
        return words.format(**context, **plural)
    # Our own validators.
    return str(error["msg"]).removeprefix("Value error, ")
