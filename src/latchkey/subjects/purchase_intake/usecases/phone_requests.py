"""What a phone asks for beside its receipts: signatures for promotional offers of the App Store, and whether its user
could restore a purchase."""

from collections.abc import Sequence
from uuid import UUID, uuid4

from latchkey.domain.customers import identity
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.stores.store import TEST_STORE
from latchkey.engine.reads import Reader, look_at
from latchkey.engine.storage import records
from latchkey.engine.storage.catalog import app_rows
from latchkey.engine.storage.records import PurchaseKey
from latchkey.stores import errors
from latchkey.stores.adapter import AppReceipt
from latchkey.stores.apple.api import sign_offer
from latchkey.stores.apple.credentials import AppleCredentials
from latchkey.stores.apple.snapshots import STORE
from latchkey.subjects.purchase_intake.rules import proves_purchase
from latchkey.subjects.purchase_intake.usecases.app_receipts import TEST_PREFIX, CannotCheck, RejectedReceipt
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections
from latchkey.subjects.purchase_intake.wire import SignatureData, SignatureError, SignedOffer

# Codes that the iOS SDK knows.
NOT_ELIGIBLE = 7232
NO_SIGNING_KEY = 7234


# Its id, and that of the product.
Offer = tuple[str, str]


def account_token(app_user_id: str, *, storekit_1: bool) -> str:
    """What the SDK passes to StoreKit with the purchase; the signature must cover the same. StoreKit 1 gets the user id
    as it is, StoreKit 2 only an id that is a UUID, which Apple writes in lower case."""
    if storekit_1:
        return app_user_id
    try:
        return str(UUID(app_user_id)) if len(app_user_id) == 36 else ""
    except ValueError:
        return ""


async def sign_offers(
    connections: Connections,
    project_id: str,
    app_id: str | None,
    customer: Customer | None,
    token: str,
    asked: Sequence[Offer],
) -> list[SignedOffer]:
    """A signature for each offer. Only for a customer with a subscription of the App Store on record: an app's public
    key is no secret, and without this rule anybody could have discounts signed."""
    app = await connections.of_app(project_id, app_id) if app_id is not None else None
    credentials = app.credentials if app is not None and app.store == STORE else None
    if not isinstance(credentials, AppleCredentials):
        reason = "This app is not connected to the App Store, so its offers cannot be signed."
        return [_refused(offer, NO_SIGNING_KEY, reason) for offer in asked]
    if customer is None or not any(subscription.store == STORE for subscription in customer.subscriptions):
        reason = "Promotional offers are for customers who have or had a subscription in the App Store."
        return [_refused(offer, NOT_ELIGIBLE, reason, credentials.key_id) for offer in asked]
    now = connections.now()
    signed = []
    for offer_id, product_id in asked:
        nonce = uuid4()
        signature = sign_offer(
            credentials, product_id=product_id, offer_id=offer_id, account_token=token, nonce=nonce, now=now
        )
        data = SignatureData(nonce=str(nonce), signature=signature, timestamp=now)
        signed.append(
            SignedOffer(key_id=credentials.key_id, offer_id=offer_id, product_id=product_id, signature_data=data)
        )
    return signed


def _refused(offer: Offer, code: int, message: str, key_id: str = "") -> SignedOffer:
    error = SignatureError(code=code, message=message)
    return SignedOffer(key_id=key_id, offer_id=offer[0], product_id=offer[1], signature_error=error)


async def may_restore(
    connections: Connections,
    reader: Reader,
    project_id: str,
    app_id: str | None,
    store: str | None,
    app_user_id: str,
    token: str,
) -> bool:
    """The receipt is verified as if it were posted. True if all its purchases are free, or may go to this user. Nothing
    is changed and nothing is kept."""
    shown = await _purchases(connections, project_id, app_id, store, token)
    return all([await _may_have(connections, reader, project_id, app_user_id, token, *one) for one in shown])


async def _purchases(
    connections: Connections, project_id: str, app_id: str | None, store: str | None, token: str
) -> list[tuple[PurchaseKey, str | None]]:
    """Each with the app user id that the app gave to the store, if it did."""
    is_test = token.startswith(TEST_PREFIX)
    if app_id is None:
        raise RejectedReceipt("Send a receipt with the public key of its app.", param="fetch_token")
    if store == TEST_STORE and is_test:
        return [((TEST_STORE, token), None)]
    if store == TEST_STORE or is_test:
        raise RejectedReceipt("The fetch_token is not a token of the test store and this app.", param="fetch_token")
    app = await connections.of_app(project_id, app_id)
    if app is None:
        raise CannotCheck("This app is not connected to its store.")
    try:
        reading = await connections.adapters[app.store].read_receipt(app, AppReceipt(token=token))
    except errors.InvalidReceipt as error:
        raise RejectedReceipt(error.message, param="fetch_token") from error
    except errors.StoreError as error:
        raise CannotCheck("The store cannot be asked now.") from error
    return [((one.snapshot.store, one.snapshot.id), one.account_token) for one in reading.seen]


async def _may_have(
    connections: Connections,
    reader: Reader,
    project_id: str,
    app_user_id: str,
    token: str,
    key: PurchaseKey,
    named: str | None,
) -> bool:
    async with connections.database.acquire() as connection:
        owner_id = await records.owner_of(connection, project_id, key)
        project = await app_rows.load(connection, project_id)
    row = await reader.read(project_id, owner_id) if owner_id is not None else None
    if row is None or project is None:
        return True
    view = look_at(row, connections.now())
    owner = view.customer
    if app_user_id in owner.aliases:
        return True
    if not identity.came_from_an_app(owner, key) or not proves_purchase(token, key, named, app_user_id, owner):
        return False
    behavior = RestoreBehavior(project.restore_behavior)
    return identity.belongs_to(owner, app_user_id) or identity.may_move(behavior, owner, view.now)
