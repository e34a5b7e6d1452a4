"""Actions in the test store, one at a time, each refused if it is not possible in the current state."""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct, json

from latchkey.domain.refusal import NotFound, Refusal
from latchkey.domain.stores.test_store.billing import STORE
from latchkey.domain.stores.test_store.orders import Action, perform
from latchkey.engine.changes import Change, Changes, Committed
from latchkey.http_client import HttpClient, HttpError


async def act(changes: Changes, project_id: str, action: Action) -> Committed:
    """Only a purchase creates a customer that does not exist yet."""
    return await changes.make(
        Change(
            project_id=project_id,
            app_user_id=action.app_user_id,
            apply=lambda situation: perform(situation.customer, situation.catalog, situation.now, action),
            create=action.name in ("purchase", "store_outage"),
            claims=frozenset({(STORE, action.new_id)}) if action.name == "purchase" else frozenset(),
        )
    )


# A year of a life in one move sends dozens of notifications.
PATIENCE = 600.0
# A phone usually shows its receipt before the store's notification comes. If it does not, that comes all the same.
_PHONE_FIRST = "PT30S"

# Shows a receipt to the service: the body for `POST /v1/receipts` without the user.
Show = Callable[[Mapping[str, Any]], Awaitable[object]]


class StoreAway(Refusal):
    """The store emulator does not answer."""


class EmulatorClient(Struct, frozen=True):
    _url: str
    _patience: float = PATIENCE

    async def ask(self, method: str, path: str = "", body: Any = None) -> Any:
        """What the control API answers. Its refusals are raised with their own message."""
        async with HttpClient(timeout=self._patience, https_only=False, use_proxy=False) as http:
            try:
                reply = await http.ask(method, self._url + path, json=body)
            except HttpError as error:
                raise StoreAway(f"The store emulator at {self._url} does not answer. Is it still running?") from error
        try:
            said = json.decode(reply.body)
        except (ValueError, RecursionError):
            said = {}
        if reply.status == 200:
            return said
        wrong = said.get("error") if isinstance(said, dict) else None
        words = str(wrong or f"The store emulator answered {reply.status}.")
        raise NotFound(words) if reply.status == 404 else Refusal(words)

    async def act(self, purchase: str, act: str, **options: Any) -> dict[str, Any]:
        shown: dict[str, Any] = await self.ask(
            "POST", f"/purchases/{quote(purchase, safe='')}/acts", {"act": act, **options}
        )
        return shown

    async def token_for(self, customer: str) -> str | None:
        """How this store is told of the customer with the sale; None if it cannot be. Stripe's metadata takes any id;
        an account token has to be a UUID."""
        token = account_token(customer)
        if token is None and (await self.ask("GET"))["store"] == "stripe":
            return customer
        return token

    async def sell_to(self, customer: str, sale: Mapping[str, Any], show: Show) -> dict[str, Any]:
        """Sell to a customer of Latchkey. A UUID travels as the account token, as apps do it, and the notification
        names the customer; at Stripe any id does. Where it cannot, the receipt is shown for the customer, as the phone
        does it, before the notification is sent."""
        asked = {"buyer": customer, **sale}
        if (token := await self.token_for(customer)) is not None:
            named: dict[str, Any] = await self.ask("POST", "/purchases", {"account_token": token, **asked})
            return named
        sold: dict[str, Any] = await self.ask("POST", "/purchases", {"notify_after": _PHONE_FIRST, **asked})
        await show(sold["receipt"])
        told = await self.ask("GET", f"/notifications?purchase={quote(sold['purchase'], safe='')}")
        for one in told["notifications"]:
            if one["state"] == "waiting":
                await self.ask("POST", f"/notifications/{quote(one['id'], safe='')}/send", {})
        return sold


def account_token(customer: str) -> str | None:
    """What an app tells the store about this customer; None if it has no name that every store takes."""
    try:
        return customer if str(uuid.UUID(customer)) == customer.lower() else None
    except ValueError:
        return None
