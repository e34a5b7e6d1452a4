"""The error bodies of both API versions."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class RejectedAttribute(Struct, frozen=True, kw_only=True):
    key_name: str
    message: str


class RedemptionErrorInfo(Struct, frozen=True, kw_only=True):
    # Where a new link was sent; empty if no mail could be sent.
    obfuscated_email: str


class V1Error(Struct, frozen=True, kw_only=True):
    code: int
    message: str
    attribute_errors: list[RejectedAttribute] | UnsetType = UNSET
    # Of a purchase whose link has expired.
    purchase_redemption_error_info: RedemptionErrorInfo | UnsetType = UNSET


V2ErrorType = Literal[
    "parameter_error",
    "resource_already_exists",
    "resource_missing",
    "idempotency_error",
    "rate_limit_error",
    "authentication_error",
    "authorization_error",
    "store_error",
    "server_error",
    "resource_locked_error",
    "unprocessable_entity_error",
    "invalid_request",
]


class V2Error(Struct, frozen=True, kw_only=True):
    object: Literal["error"] = "error"
    type: V2ErrorType
    message: str
    retryable: bool
    param: str | UnsetType = UNSET
    doc_url: str | UnsetType = UNSET
    backoff_ms: int | UnsetType = UNSET
