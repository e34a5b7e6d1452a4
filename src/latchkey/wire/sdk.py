"""V1: small replies that only the vendor's SDKs ask for."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class MappedProduct(Struct, frozen=True, kw_only=True):
    product_identifier: str
    base_plan_id: str | UnsetType = UNSET
    entitlements: list[str]


class ProductEntitlementMapping(Struct, frozen=True, kw_only=True):
    """By product, or by `product:plan` where the store has base plans."""

    product_entitlement_mapping: dict[str, MappedProduct]


class Accepted(Struct, frozen=True):
    """An empty object: the SDKs parse every reply as JSON."""


class ServiceHealth(Struct, frozen=True, kw_only=True):
    status: str = "ok"


class HealthReportAvailability(Struct, frozen=True, kw_only=True):
    # Whether the SDK should ask for a health report and log it. There are none here.
    report_logs: bool = False


class RestoreEligibility(Struct, frozen=True, kw_only=True):
    is_purchase_allowed_by_restore_behavior: bool


class SignatureData(Struct, frozen=True, kw_only=True):
    nonce: str
    signature: str
    timestamp: int


class SignatureError(Struct, frozen=True, kw_only=True):
    code: int
    message: str


class SignedOffer(Struct, frozen=True, kw_only=True):
    """A signature, or the reason why there is none."""

    key_id: str
    offer_id: str
    product_id: str
    signature_data: SignatureData | None = None
    signature_error: SignatureError | None = None


class SignedOffers(Struct, frozen=True, kw_only=True):
    offers: list[SignedOffer]
