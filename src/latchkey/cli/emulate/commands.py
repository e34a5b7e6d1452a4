"""The options of `latchkey emulate`."""

from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from latchkey.cli import output
from latchkey.cli.command import argument, command, flag, option
from latchkey.cli.emulate.emulator_start import Wishes, run
from latchkey.cli.emulate.folder import EmulatorFolder
from latchkey.cli.emulate.store_state import FOLDERS, EmulatorChoice, follow
from latchkey.cli.output import shown
from latchkey.domain.formats import iso_duration
from latchkey.domain.instants import to_iso
from latchkey.domain.refusal import Refusal

app = typer.Typer(no_args_is_help=True)


_TITLES = {"apple": "the App Store", "google": "Google Play", "stripe": "Stripe"}


@command(app, "apple", Wishes)
async def apple(
    at: Wishes,
    folder: Path = option("Where its keys and purchases are kept.", default=FOLDERS["apple"]),
    bundle_id: str | None = option("Your app's bundle id."),
    app_apple_id: int | None = option("Your app's Apple id, a number.", min=1),
) -> None:
    """Run an App Store emulator."""
    kept = EmulatorFolder(folder).prepare()
    store = kept.apple(bundle_id=bundle_id, app_apple_id=app_apple_id, production=at.production)
    await run(store, kept, at)


@command(app, "google", Wishes)
async def google(
    at: Wishes,
    folder: Path = option("Where its keys and purchases are kept.", default=FOLDERS["google"]),
    package_name: str | None = option("Your app's package name."),
    audience: str | None = option("The audience of the push tokens."),
) -> None:
    """Run a Google Play emulator."""
    kept = EmulatorFolder(folder).prepare()
    store = kept.google(package_name=package_name, audience=audience, production=at.production)
    await run(store, kept, at)


@command(app, "stripe", Wishes)
async def stripe(
    at: Wishes,
    folder: Path = option("Where its keys and purchases are kept.", default=FOLDERS["stripe"]),
    metadata_key: str | None = option("The metadata field that has your app's user id."),
    rotate_secret: bool = flag("Make a new webhook secret; the old one still signs too.", "--rotate-secret"),
) -> None:
    """Run a Stripe emulator."""
    kept = EmulatorFolder(folder).prepare()
    store = kept.stripe(metadata_key=metadata_key, production=at.production, rotate_secret=rotate_secret)
    await run(store, kept, at)


@command(app, "connect", EmulatorChoice)
async def connect(
    at: EmulatorChoice,
    notification_url: str = argument("The notification_url of your app in Latchkey."),
) -> None:
    """Set where a running store emulator sends notifications. Queued notifications are sent at once."""
    said = await at.one().ask("PUT", "/notification_url", {"url": notification_url})
    at.say(said, escape(f"Notifications go to {said['notification_url']}"))


@command(app, "sell", EmulatorChoice)
async def sell(
    at: EmulatorChoice,
    product_id: str = argument("What is bought: product, at Google product:plan, at Stripe product:price."),
    buyer: str = option("A name for the customer of the store.", default="somebody"),
    customer: str | None = option(
        "The customer in Latchkey. Sent to the store if it has a field for it; otherwise a receipt is sent."
    ),
    more: list[str] | None = argument(
        "Options such as trial=true account_token=... (docs/emulators.md).", default=None
    ),
) -> None:
    """Sell something, and show the purchase."""
    chosen, sale = await at.that_sells(product_id), {"product_id": product_id, **options(more or [])}
    if customer is None:
        _show(at, await chosen.ask("POST", "/purchases", {"buyer": buyer, **sale}))
    else:
        _show(at, await chosen.sell_to(customer, sale))


@command(app, "act", EmulatorChoice)
async def act(
    at: EmulatorChoice,
    purchase: str = argument("The purchase, or the beginning of its id."),
    name: str = argument("cancel, refund, fail_billing, ... (docs/emulators.md).", metavar="ACT"),
    more: list[str] | None = argument("Options such as grace_days=16.", default=None),
) -> None:
    """Change a purchase: cancel, refund, fail the payment, ..."""
    chosen, id = await at.that_knows(purchase)
    _show(at, await chosen.ask("POST", f"/purchases/{id}/acts", {"act": name, **options(more or [])}))


@command(app, "clock", EmulatorChoice)
async def clock(
    at: EmulatorChoice,
    to: str | None = argument("How far ('1 month', '7 days', '1 hour', P1M), or to when (2027-01-31).", default=None),
    test_clock: str | None = option(
        "A test clock of Latchkey (its id) that moves along. Only with the stores of `latchkey up`."
    ),
) -> None:
    """Show the clocks of the stores, or move them forward.

    Renewals and expirations on the way happen, and their notifications are sent. Latchkey's own clock does not move.
    With --test-clock, a test clock moves along."""
    found, now = at.all(), 0
    clocks: list[dict[str, Any]] = []
    for one in found:
        if to is None:
            said = await one.ask("GET", "/clock")
        else:
            if not at.as_json:
                _warn_of_unacknowledged(await one.purchases())
            said = await one.ask("PUT", "/clock", _moved(to))
        now = max(now, said["now_ms"])
        clocks.append({"store": one.name, "now": said["now"], "now_ms": said["now_ms"]})
        if not at.as_json:
            output.console(markup=False).print(
                f"The clock of {_TITLES.get(one.name, 'the store')}: {shown(said['now_ms'])}"
            )
    followed = await follow(found, test_clock, now) if test_clock is not None else None
    if at.as_json:
        test = {"id": test_clock, "now": to_iso(followed)} if followed is not None else None
        output.write({"stores": clocks, "test_clock": test})
    elif followed is not None:
        output.console(markup=False).print(f"The test clock {test_clock}: {shown(followed)}")


@command(app, "purchases", EmulatorChoice)
async def purchases(at: EmulatorChoice) -> None:
    """List all purchases as the stores have them."""
    found = [bought for one in at.all() for bought in await one.purchases()]
    _show_purchases(at, found)


@command(app, "notifications", EmulatorChoice)
async def notifications(
    at: EmulatorChoice,
    limit: int = option("How many to show of each store at most.", default=20, min=1, max=1000),
) -> None:
    """List notifications with what the service answered, newest first."""
    asked = [await one.ask("GET", f"/notifications?limit={limit}") for one in at.all()]
    found = [sent for said in asked for sent in said["notifications"]]
    at.show_list(
        found,
        dict,
        ("at", "notification", "purchase", "state", "attempts", "last answer"),
        lambda one: (
            *(shown(one["at_ms"]), one["kind"], _short(one["purchase"] or ""), one["state"]),
            *(str(len(one["attempts"])), _answer(one["attempts"])),
        ),
    )


@command(app, "receipt", EmulatorChoice)
async def receipt(
    at: EmulatorChoice,
    purchase: str = argument("The purchase, or the beginning of its id."),
    app_user_id: str = option("The user of your app.", default="somebody"),
) -> None:
    """Print the body for `POST /v1/receipts` of a purchase, always as JSON."""
    chosen, id = await at.that_knows(purchase)
    found = await chosen.ask("GET", f"/purchases/{id}")
    output.write({"app_user_id": app_user_id, **found["receipt"]})


@command(app, "misbehave", EmulatorChoice)
async def misbehave(
    at: EmulatorChoice,
    more: list[str] | None = argument(
        "What goes wrong, such as drop=0.2 late=0.5 seed=7 (docs/emulators.md).", default=None
    ),
    end: bool = flag("Stop misbehaving, and send what was held back.", "--end"),
) -> None:
    """Show how the stores misbehave, change it, or end it. Prints JSON; with --json as one document."""
    told: list[dict[str, Any]] = []
    method = "DELETE" if end else "PUT" if more else "GET"
    for one in at.all():
        said = await one.ask(method, "/misbehaviour", options(more) if more and not end else None)
        told.append({"store": one.name, **said})
        if not at.as_json:
            output.write(said)
    if at.as_json:
        output.write_list(told)


def _moved(to: str) -> dict[str, str]:
    try:
        return {"by": iso_duration(to)}
    except ValueError:
        return {"to": to}


def _warn_of_unacknowledged(purchases: list[dict[str, Any]]) -> None:
    if any(purchase["active"] and not purchase["acknowledged"] for purchase in purchases):
        words = (
            "A purchase is not acknowledged yet. Google takes it back after 3 days. Latchkey acknowledges it a few "
            "seconds after it was told of it; `latchkey emulate purchases` shows when."
        )
        Console(stderr=True, highlight=False, markup=False).print(words, style="yellow", soft_wrap=True)


def _show(at: EmulatorChoice, purchase: dict[str, Any]) -> None:
    if at.as_json:
        output.write(purchase)
        return
    _show_purchases(at, [purchase])
    output.console(markup=False).print(f"purchase {purchase['purchase']}", soft_wrap=True)


def options(words: list[str]) -> dict[str, Any]:
    """`grace_days=16 trial=true reason=voluntary` as JSON values."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Refusal(f"{word!r} is not an option such as grace_days=16.")
        try:
            found[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[name] = value
    return found


def _show_purchases(at: EmulatorChoice, purchases: list[dict[str, Any]]) -> None:
    at.show_list(
        purchases,
        dict,
        ("purchase", "buyer", "product", "access", "until", "renews", "more"),
        lambda one: (
            *(_short(one["purchase"]), one["buyer"], one["product_id"], "yes" if one["active"] else "no"),
            *(shown(one["access_ends_at"]) or "no end", "yes" if one["auto_renew"] else "no", _more(one)),
        ),
    )


def _answer(attempts: list[dict[str, Any]]) -> str:
    """The last one."""
    last = attempts[-1] if attempts else {}
    return str(last.get("status") or last.get("answer") or last.get("did", ""))


def _more(one: dict[str, Any]) -> str:
    said = {
        "in_trial": "trial",
        "billing_problem": "payment failed",
        "grace_ends_at": "grace",
        "refunded_at": "refunded",
        "next_product_id": f"then {one['next_product_id']}",
        "resumes_at": "pause",
        "replaced": "replaced",
    }
    notes = [words for field, words in said.items() if one[field]]
    return ", ".join(notes if one["acknowledged"] else [*notes, "not acknowledged"])


def _short(id: str) -> str:
    """A purchase token of Google has 150 characters. Its beginning is enough to name it."""
    return id if len(id) <= 24 else id[:24]
