"""The options of `latchkey emulate`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from latchkey.cli import output
from latchkey.cli.emulate.acting import options, show_notifications, show_purchases
from latchkey.cli.emulate.finding import FOLDERS, Wanted
from latchkey.cli.emulate.folder import Folder
from latchkey.cli.emulate.following import follow
from latchkey.cli.emulate.starting import Wishes, authority_of_up, run
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.reach import DATA
from latchkey.domain.formats import iso_duration
from latchkey.domain.instants import to_iso

app = typer.Typer(
    no_args_is_help=True,
    help="Run a pretend App Store, Google Play or Stripe, and buy, renew and refund in it.",
)

FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="The folder of the pretend store, if it runs elsewhere.")
]
StoreOption = Annotated[
    Literal["apple", "google", "stripe"] | None,
    typer.Option("--store", help="Which store, if several run here."),
]
UpOption = Annotated[Path, typer.Option("--data", help="The data folder of a `latchkey up` with pretend stores.")]
ServiceOption = Annotated[
    str, typer.Option("--service-url", help="Where Latchkey is. Only used in the instructions that are printed.")
]
NotificationOption = Annotated[
    str | None, typer.Option("--notification-url", help="The notification_url of your app in Latchkey, if you know it.")
]
PortOption = Annotated[int, typer.Option("--port", help="The port of the store's API; 0 keeps the last one.", min=0)]
ControlPortOption = Annotated[
    int, typer.Option("--control-port", help="The port of the control API; 0 chooses a free one.", min=0)
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Serve HTTPS, with a certificate authority in the folder.")]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        exists=True,
        dir_okay=False,
        help="The certificate authority of Latchkey, if it is not that of a `latchkey up` in --data.",
    ),
]
DataOption = Annotated[Path, typer.Option("--data", help="The data folder of a `latchkey up`, for its authority.")]
ProductionOption = Annotated[
    bool | None,
    typer.Option(
        "--production/--sandbox",
        help="Sign purchases for production or for the sandbox. Default at the first start: sandbox.",
    ),
]


@app.command()
def apple(
    folder: Annotated[Path, typer.Option(help="Where its keys and purchases are kept.")] = FOLDERS["apple"],
    service_url: ServiceOption = "https://localhost:8443",
    notification_url: NotificationOption = None,
    bundle_id: Annotated[str | None, typer.Option(help="Your app's bundle id.")] = None,
    app_apple_id: Annotated[int | None, typer.Option(help="Your app's Apple id, a number.", min=1)] = None,
    production: ProductionOption = None,
    port: PortOption = 0,
    control_port: ControlPortOption = 0,
    tls: TlsOption = False,
    ca: CaOption = None,
    data: DataOption = DATA,
) -> None:
    """Run a pretend App Store."""
    kept = Folder(folder)
    kept.prepare()
    store = kept.apple(
        bundle_id=bundle_id,
        app_apple_id=app_apple_id,
        production=production,
        extra_ca=lambda: authority_of_up(data, ca),
    )
    _run(store, kept, service_url, notification_url, port, control_port, tls)


@app.command()
def google(
    folder: Annotated[Path, typer.Option(help="Where its keys and purchases are kept.")] = FOLDERS["google"],
    service_url: ServiceOption = "https://localhost:8443",
    notification_url: NotificationOption = None,
    package_name: Annotated[str | None, typer.Option(help="Your app's package name.")] = None,
    audience: Annotated[str | None, typer.Option(help="The audience of the push tokens.")] = None,
    production: ProductionOption = None,
    port: PortOption = 0,
    control_port: ControlPortOption = 0,
    tls: TlsOption = False,
    ca: CaOption = None,
    data: DataOption = DATA,
) -> None:
    """Run a pretend Google Play."""
    kept = Folder(folder)
    kept.prepare()
    store = kept.google(
        package_name=package_name, audience=audience, production=production, extra_ca=lambda: authority_of_up(data, ca)
    )
    _run(store, kept, service_url, notification_url, port, control_port, tls)


@app.command()
def stripe(
    folder: Annotated[Path, typer.Option(help="Where its keys and purchases are kept.")] = FOLDERS["stripe"],
    service_url: ServiceOption = "https://localhost:8443",
    notification_url: NotificationOption = None,
    metadata_key: Annotated[str | None, typer.Option(help="The metadata field that has your app's user id.")] = None,
    production: Annotated[
        bool | None,
        typer.Option("--production/--sandbox", help="Live mode or test mode. Default at the first start: test mode."),
    ] = None,
    rotate_secret: Annotated[
        bool, typer.Option("--rotate-secret", help="Make a new webhook secret; the old one still signs too.")
    ] = False,
    port: PortOption = 0,
    control_port: ControlPortOption = 0,
    tls: TlsOption = False,
    ca: CaOption = None,
    data: DataOption = DATA,
) -> None:
    """Run a pretend Stripe."""
    kept = Folder(folder)
    kept.prepare()
    store = kept.stripe(
        metadata_key=metadata_key,
        production=production,
        rotate_secret=rotate_secret,
        extra_ca=lambda: authority_of_up(data, ca),
    )
    _run(store, kept, service_url, notification_url, port, control_port, tls)


def _run(
    store: Any, folder: Folder, service_url: str, notification_url: str | None, port: int, control_port: int, tls: bool
) -> None:
    wishes = Wishes(
        folder=folder,
        service_url=service_url.rstrip("/"),
        notification_url=notification_url,
        port=port,
        control_port=control_port,
        tls=tls,
    )
    asyncio.run(run(store, wishes, Console(highlight=False)))


@app.command()
def connect(
    notification_url: Annotated[str, typer.Argument(help="The notification_url of your app in Latchkey.")],
    folder: FolderOption = None,
    store: StoreOption = None,
    data: UpOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Tell a running pretend store where to send notifications. Queued ones are sent at once."""
    said = Wanted(folder, store, data).one().ask("PUT", "/notification_url", {"url": notification_url})
    if as_json:
        output.write(said)
        return
    _console().print(f"Notifications go to {said['notification_url']}")


@app.command()
def sell(
    product_id: Annotated[
        str, typer.Argument(help="What is bought: product, at Google product:plan, at Stripe product:price.")
    ],
    buyer: Annotated[str, typer.Option(help="A name for the customer of the store.")] = "somebody",
    customer: Annotated[
        str | None,
        typer.Option(
            help="The customer in Latchkey. The store is told if it has a field for it; otherwise a receipt is sent."
        ),
    ] = None,
    more: Annotated[
        list[str] | None, typer.Argument(help="Options such as trial=true account_token=... (docs/emulators.md).")
    ] = None,
    folder: FolderOption = None,
    store: StoreOption = None,
    data: UpOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Sell something, and show the purchase."""
    chosen, sale = Wanted(folder, store, data).that_sells(product_id), {"product_id": product_id}
    if customer is None:
        _show(chosen.ask("POST", "/purchases", {"buyer": buyer, **sale, **options(more or [])}), as_json)
    else:
        _show(chosen.sell_to(customer, {**sale, **options(more or [])}), as_json)


@app.command()
def act(
    purchase: Annotated[str, typer.Argument(help="The purchase, or the beginning of its id.")],
    name: Annotated[str, typer.Argument(metavar="ACT", help="cancel, refund, fail_billing, ... (docs/emulators.md).")],
    more: Annotated[list[str] | None, typer.Argument(help="Options such as grace_days=16.")] = None,
    folder: FolderOption = None,
    store: StoreOption = None,
    data: UpOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Change a purchase: cancel, refund, fail the payment, ..."""
    chosen, id = Wanted(folder, store, data).that_knows(purchase)
    _show(chosen.ask("POST", f"/purchases/{id}/acts", {"act": name, **options(more or [])}), as_json)


@app.command()
def clock(
    to: Annotated[
        str | None, typer.Argument(help="How far ('1 month', '7 days', '1 hour', P1M), or to when (2027-01-31).")
    ] = None,
    test_clock: Annotated[
        str | None,
        typer.Option(
            "--test-clock",
            help="A test clock of Latchkey (its id) that moves along. Only with the stores of `latchkey up`.",
        ),
    ] = None,
    folder: FolderOption = None,
    store: StoreOption = None,
    data: UpOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Show the clocks of the stores, or move them forward.

    Renewals and expirations on the way happen, and their notifications are sent. Latchkey's own clock does not move.
    With --test-clock, a test clock moves along."""
    stores, now = Wanted(folder, store, data).all(), 0
    clocks: list[dict[str, Any]] = []
    for one in stores:
        if to is None:
            said = one.ask("GET", "/clock")
        else:
            if not as_json:
                _warn_of_unacknowledged(one.purchases())
            said = one.ask("PUT", "/clock", _moved(to))
        now = max(now, said["now_ms"])
        clocks.append({"store": one.name, "now": said["now"], "now_ms": said["now_ms"]})
        if not as_json:
            _console().print(f"The clock of {_title(one.name)}: {shown(said['now_ms'])}")
    followed = follow(stores, test_clock, now) if test_clock is not None else None
    if as_json:
        test = {"id": test_clock, "now": to_iso(followed)} if followed is not None else None
        output.write({"stores": clocks, "test_clock": test})
    elif followed is not None:
        _console().print(f"The test clock {test_clock}: {shown(followed)}")


@app.command()
def purchases(
    folder: FolderOption = None, store: StoreOption = None, data: UpOption = DATA, as_json: JsonOption = False
) -> None:
    """List all purchases as the stores have them."""
    found = [bought for one in Wanted(folder, store, data).all() for bought in one.purchases()]
    if as_json:
        output.write_list(found)
        return
    show_purchases(_console(), found)


@app.command()
def notifications(
    limit: Annotated[int, typer.Option(help="How many to show of each store at most.", min=1, max=1000)] = 20,
    folder: FolderOption = None,
    store: StoreOption = None,
    data: UpOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """List notifications with what the service answered, newest first."""
    asked = [one.ask("GET", f"/notifications?limit={limit}") for one in Wanted(folder, store, data).all()]
    found = [sent for said in asked for sent in said["notifications"]]
    if as_json:
        output.write_list(found)
        return
    show_notifications(_console(), found)


@app.command()
def receipt(
    purchase: Annotated[str, typer.Argument(help="The purchase, or the beginning of its id.")],
    app_user_id: Annotated[str, typer.Option(help="The user of your app.")] = "somebody",
    folder: FolderOption = None,
    store: StoreOption = None,
    data: UpOption = DATA,
    as_json: JsonOption = False,  # noqa: ARG001 - it prints JSON anyway; the option is on every command
) -> None:
    """Print the body for `POST /v1/receipts` of a purchase, always as JSON."""
    chosen, id = Wanted(folder, store, data).that_knows(purchase)
    found = chosen.ask("GET", f"/purchases/{id}")
    output.write({"app_user_id": app_user_id, **found["receipt"]})


@app.command()
def misbehave(
    more: Annotated[
        list[str] | None, typer.Argument(help="What goes wrong, such as drop=0.2 late=0.5 seed=7 (docs/emulators.md).")
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="Stop misbehaving, and send what was held back.")] = False,
    folder: FolderOption = None,
    store: StoreOption = None,
    data: UpOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Show how the stores misbehave, change it, or end it. Prints JSON; with --json as one document."""
    told: list[dict[str, Any]] = []
    for one in Wanted(folder, store, data).all():
        if end:
            said = one.ask("DELETE", "/misbehaviour")
        elif more:
            said = one.ask("PUT", "/misbehaviour", options(more))
        else:
            said = one.ask("GET", "/misbehaviour")
        told.append({"store": one.name, **said})
        if not as_json:
            output.write(said)
    if as_json:
        output.write_list(told)


def _moved(to: str) -> dict[str, str]:
    try:
        return {"by": iso_duration(to)}
    except ValueError:
        return {"to": to}


def _warn_of_unacknowledged(purchases: list[dict[str, Any]]) -> None:
    if any(one["active"] and not one["acknowledged"] for one in purchases):
        words = (
            "A purchase is not acknowledged yet. Google takes it back after 3 days. Latchkey acknowledges it a few "
            "seconds after it was told of it; `latchkey emulate purchases` shows when."
        )
        Console(stderr=True, highlight=False, markup=False).print(words, style="yellow", soft_wrap=True)


def _title(store: str) -> str:
    return {"apple": "the App Store", "google": "Google Play", "stripe": "Stripe"}.get(store, "the store")


def _show(purchase: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.write(purchase)
        return
    console = _console()
    show_purchases(console, [purchase])
    console.print(f"purchase {purchase['purchase']}", soft_wrap=True)


def _console() -> Console:
    return Console(highlight=False, markup=False)
