"""A purchase of a buyer whom nobody knew is taken over by the user of the app who shows its token. The first one gets
it; asking again as the same user changes nothing."""

from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from msgspec import Struct

from latchkey.database.pool import Executor
from latchkey.domain.customers.customer import Customer
from latchkey.domain.refusal import CodedRefusal, OwnedByAnother
from latchkey.subjects.checkout import storage
from latchkey.subjects.checkout.rules import obfuscated
from latchkey.subjects.checkout.usecases.checkouts import Checkouts
from latchkey.subjects.checkout.usecases.redemption_token import LONGEST_TOKEN, new_token, opened
from latchkey.subjects.customers.usecases import identities
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections


class RedemptionProblem(IntEnum):
    """By the codes that the SDKs know."""

    INVALID_TOKEN = 7849
    OTHER_USER = 7852
    EXPIRED = 7853


class RedemptionRefusal(CodedRefusal):
    """By a `RedemptionProblem`. Of an expired link, the address to which a new one was sent."""


_invalid = partial(RedemptionRefusal, RedemptionProblem.INVALID_TOKEN, "This link is not valid.")
_other_user = partial(RedemptionRefusal, RedemptionProblem.OTHER_USER, "Another user has this purchase already.")


@dataclass(frozen=True, slots=True)
class RedeemablePurchase:
    checkout: storage.Checkout
    expired: bool


class Redemptions(Struct, frozen=True, eq=False):
    checkouts: Checkouts

    @property
    def _connections(self) -> Connections:
        return self.checkouts.connections

    def token(self, paid: storage.Checkout) -> str:
        return new_token(self._connections.sealer, paid.id_hash, self._connections.now())

    async def find(self, token: str) -> RedeemablePurchase | None:
        """What a token is about. None: nothing."""
        known = opened(self._connections.sealer, token) if len(token) <= LONGEST_TOKEN else None
        paid = await storage.load_paid(self._connections.database, known[0]) if known is not None else None
        if known is None or paid is None or not paid.redeemable or paid.purchase_id is None:
            return None
        return RedeemablePurchase(paid, expired=paid.redeemed_by is None and self._connections.now() >= known[1])

    async def send_again(self, paid: storage.Checkout) -> str:
        """A mail with a new link, to the address that is returned so that only its owner recognises it. Empty: no mail
        can be sent."""
        if paid.email is None or self.checkouts.mail is None:
            return ""
        letter = await self.checkouts.letter(paid)
        await self.checkouts.mail.send_again(paid.email, letter, self._connections.now())
        return obfuscated(paid.email)

    async def redeem(self, project_id: str, token: str, app_user_id: str) -> None:
        found = await self.find(token)
        if found is None or found.checkout.project_id != project_id:
            raise _invalid()
        paid = found.checkout
        if found.expired:
            sent_to = await self.send_again(paid)
            message = "This link has expired." + (f" A new one was sent to {sent_to}." if sent_to else "")
            raise RedemptionRefusal(RedemptionProblem.EXPIRED, message, sent_to)
        customer = await self._customer(project_id, app_user_id)
        # Not the app's store: the app may be gone, and what was bought in it stays.
        buyer = await self._customer(project_id, paid.app_user_id)
        key = next(((one.store, one.id) for one in buyer.bought if one.id == paid.purchase_id), None) if buyer else None
        if key is None:
            raise _other_user()

        async def claim(connection: Executor) -> None:
            """Of several users who show the token at once one goes on."""
            first = await storage.redeem(connection, paid.id_hash, app_user_id, self._connections.now())
            if first is None:
                raise _invalid()
            if first != app_user_id and (customer is None or first not in customer.aliases):
                raise _other_user()

        if _holds(customer, key):
            await claim(self._connections.database)
            return
        try:
            await identities.redeem(self.checkouts.changes, project_id, paid.app_user_id, app_user_id, key, claim)
        except OwnedByAnother as refusal:
            raise _other_user() from refusal
        if not _holds(await self._customer(project_id, app_user_id), key):
            raise _other_user()

    async def _customer(self, project_id: str, app_user_id: str) -> Customer | None:
        return (await self.checkouts.customer(project_id, app_user_id))[0]


def _holds(customer: Customer | None, key: tuple[str, str]) -> bool:
    return customer is not None and (customer.subscription(*key) or customer.purchase(*key)) is not None
