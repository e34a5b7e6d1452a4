"""Finds the store emulators that run here: in a folder that is named, in this folder, or in a `latchkey up`."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from latchkey.cli.command import Options, Printer, option
from latchkey.cli.data_folder import Connection, DataFolder, EmulatorConnection
from latchkey.cli.emulate.folder import EmulatorFolder
from latchkey.cli.output import JsonOption
from latchkey.cli.service_client import client_of_up
from latchkey.cli.target_database import DATA
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.subjects.test_store.usecases import EmulatorClient

FOLDERS = {name: Path(f".latchkey-{name}") for name in ("apple", "google", "stripe")}
TITLES = {"apple": "App Store", "google": "Google Play", "stripe": "Stripe"}
_WHICH = "say which with --store apple, --store google or --store stripe."


class RunningEmulator(msgspec.Struct, frozen=True):
    # "apple", "google" or "stripe"; "" where only its folder was named.
    name: str
    control_url: str
    # The app of the `latchkey up` that it belongs to, where it does.
    app: EmulatorConnection | None = None
    up: Connection | None = None

    async def ask(self, method: str, path: str = "", body: Any = None) -> Any:
        return await EmulatorClient(self.control_url).ask(method, path, body)

    async def purchases(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self.ask("GET", "/purchases"))["purchases"]
        return listed

    async def sell_to(self, customer: str, sale: Mapping[str, Any]) -> dict[str, Any]:
        store = EmulatorClient(self.control_url)
        if self.app is None and await store.token_for(customer) is None:
            raise Refusal(
                "Only the stores of a `latchkey up` can show a receipt for a customer. Give an id that is a UUID, "
                "or use `latchkey emulate receipt`."
            )

        async def show(receipt: Mapping[str, Any]) -> None:
            await self._show({"app_user_id": customer, **receipt})

        return await store.sell_to(customer, sale, show)

    async def _show(self, receipt: Mapping[str, Any]) -> None:
        """As the demo's app on a phone does it."""
        assert self.app is not None
        assert self.up is not None
        async with client_of_up(self.up) as service:
            await service.ask("POST", "/v1/receipts", receipt, key=self.app.public_api_key)


@dataclass(frozen=True, slots=True)
class EmulatorChoice(Options, Printer):
    """Which store emulators a command means."""

    as_json: JsonOption = False
    folder: Path | None = option("The folder of the store emulator, if it runs elsewhere.")
    store: Literal["apple", "google", "stripe"] | None = option("Which store, if several run here.")
    data: Path = option("The data folder of a `latchkey up` with store emulators.", default=DATA)

    def all(self) -> list[RunningEmulator]:
        """The one that was named, else all that run here, else those of the `latchkey up` here."""
        if self.folder is not None:
            return [RunningEmulator("", EmulatorFolder(self.folder).control_url())]
        here = [
            RunningEmulator(name, EmulatorFolder(one).control_url())
            for name, one in FOLDERS.items()
            if EmulatorFolder(one).control.exists()
        ]
        found = [one for one in here or self._of_up() if self.store in (None, one.name)]
        if not found:
            which = TITLES.get(self.store or "", "store")
            raise Refusal(
                f"No {which} emulator runs here. Start one with `latchkey emulate {self.store or 'apple'}` or "
                "`latchkey up`, or name its --folder or the --data of its `up`."
            )
        return found

    def one(self) -> RunningEmulator:
        found = self.all()
        if len(found) > 1:
            raise Refusal(f"More than one store emulator runs here; {_WHICH}")
        return found[0]

    async def that_sells(self, product_id: str) -> RunningEmulator:
        """The store that has this product: ids have another form at each store, for subscriptions at least."""
        found = self.all()
        if len(found) == 1:
            return found[0]
        selling = [
            one
            for one in found
            if any(product_id == (p.get("name") or p["id"]) for p in (await one.ask("GET", "/products"))["products"])
        ]
        if not selling:
            raise NotFound(f"No store emulator here sells {product_id!r}.")
        if len(selling) > 1:
            raise Refusal(f"More than one store emulator sells that; {_WHICH}")
        return selling[0]

    async def that_knows(self, purchase: str) -> tuple[RunningEmulator, str]:
        """The store with the purchase that begins so, and the whole id; the words as they are if only one runs."""
        found = self.all()
        every = [(one, bought["purchase"]) for one in found for bought in await one.purchases()]
        known = [(one, id) for one, id in every if id.startswith(purchase)]
        if len(known) == 1:
            return known[0]
        if len(found) == 1:
            return found[0], purchase
        exact = [one for one in known if one[1] == purchase]
        if not known:
            raise NotFound(f"No store emulator here knows a purchase {purchase!r}.")
        if len(exact) != 1:
            raise Refusal(f"More than one purchase begins with {purchase!r}.")
        return exact[0]

    def _of_up(self) -> list[RunningEmulator]:
        try:
            up = msgspec.json.decode(DataFolder(self.data).connection.read_bytes(), type=Connection)
        except (OSError, msgspec.MsgspecError):
            return []
        return [RunningEmulator(name, app.control_url, app, up) for name, app in up.stores.items()]


# How long what the stores sent may take to be processed.
PATIENCE = 60.0
_AGAIN = 0.2


async def follow(stores: Sequence[RunningEmulator], test_clock_id: str, to: Ms) -> Ms:
    """Where the test clock stands then. First everything that the stores sent is processed: a clock that runs ahead of
    a renewal would let the subscription end."""
    found = next((store for store in stores if store.up is not None), None)
    if found is None or (up := found.up) is None:
        raise Refusal(
            "--test-clock works with the stores of a `latchkey up`. For others, move the clock yourself: "
            f'POST /v2/projects/PROJECT/test_clocks/{test_clock_id}/advance with {{"to_ms": {to}}}.'
        )
    apps = [store.app.app_id for store in stores if store.app is not None]
    project = f"/v2/projects/{up.project_id}"
    async with client_of_up(up) as service:
        clock = f"{project}/test_clocks/{quote(test_clock_id, safe='')}"
        # A clock that stands later than the store stays where it is. A name that is wrong is told before waiting.
        to = max(to, (await service.ask("GET", clock))["now_ms"])
        for app_id in apps:
            until = time.monotonic() + PATIENCE
            waiting = f"{project}/store_notifications?status=waiting&limit=1&app_id={app_id}"
            while (await service.ask("GET", waiting))["items"]:
                if time.monotonic() > until:
                    raise Refusal(
                        "Latchkey has not processed everything that the store sent, so the test clock was not moved. "
                        "See `latchkey journal list --status waiting`."
                    )
                await asyncio.sleep(_AGAIN)
        now: Ms = (await service.ask("POST", f"{clock}/advance", {"to_ms": to}))["now_ms"]
    return now
