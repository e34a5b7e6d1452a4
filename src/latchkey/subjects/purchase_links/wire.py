"""Purchase links of V2, and what the SDKs send to redeem a purchase."""

from typing import Literal

from msgspec import Struct


class PurchaseLink(Struct, frozen=True, kw_only=True):
    object: Literal["purchase_link"] = "purchase_link"
    id: str
    project_id: str
    # The app that sells.
    app_id: str
    # One of the two is null.
    product_id: str | None
    offering_id: str | None
    # What buyers open. `?app_user_id=` names a known user.
    url: str
    created_at: int
    # Null while it sells.
    archived_at: int | None
