"""Runs a store emulator until it is stopped, and prints the next steps."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from latchkey.cli.command import Options, flag, option
from latchkey.cli.data_folder import DataFolder, read_json, write_json
from latchkey.cli.emulate.folder import EmulatorFolder
from latchkey.cli.emulate.store_state import FOLDERS, TITLES
from latchkey.cli.output import shown, titled
from latchkey.cli.target_database import DATA
from latchkey.domain.stores.store import APP_STORE, PLAY_STORE, STRIPE
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.emulator_server import ServedEmulator, checked_url, keep_time, running
from latchkey.emulators.notification_outbox import OutgoingNotification, SendAttempt
from latchkey.first_of import first_of
from latchkey.now import real_now
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.process.supervision.listeners import bind, bind_wished
from latchkey.process.supervision.stop_signal import StopSignal
from latchkey.settings import Settings

# The names of these stores in Latchkey.
_KINDS = {"apple": APP_STORE, "google": PLAY_STORE, "stripe": STRIPE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes(Options):
    """How it was asked to run."""

    service_url: str = option(
        "Where Latchkey is. Only used in the instructions that are printed.",
        default="https://localhost:8443",
    )
    notification_url: str | None = option("The notification_url of your app in Latchkey, if you know it.")
    production: bool | None = option(
        "Sign purchases for production (Stripe: live mode) or for the sandbox. Default at the first start: sandbox.",
        "--production/--sandbox",
    )
    port: int = option("The port of the store's API; 0 keeps the last one.", default=0, min=0)
    control_port: int = option("The port of the control API; 0 chooses a free one.", default=0, min=0)
    tls: bool = flag("Serve HTTPS, with a certificate authority in the folder.", "--tls")
    ca: Path | None = option(
        "The certificate authority of Latchkey, if it is not that of a `latchkey up` in --data.",
        exists=True,
        dir_okay=False,
    )
    data: Path = option("The data folder of a `latchkey up`, for its authority.", default=DATA)

    def authority(self) -> bytes | None:
        """The certificate authority of the service: the one that was named, or that of a `latchkey up` beside us."""
        if self.ca is not None:
            return self.ca.read_bytes()
        found = read_json(DataFolder(self.data).connection).get("ca_cert")
        with contextlib.suppress(OSError):
            return Path(found).read_bytes() if isinstance(found, str) else None
        return None


async def run(store: Emulator[Any, Any], folder: EmulatorFolder, wishes: Wishes) -> None:
    signal, console = StopSignal(), Console(highlight=False)
    store.outbox.authority = wishes.authority
    if wishes.notification_url is not None:
        store.outbox.url = checked_url(wishes.notification_url)
    tls = None
    if wishes.tls:
        made = ensure_certificates(folder.path / "tls", [], real_now())
        tls = Settings(tls_cert=made.cert, tls_key=made.key)
    # With the same port as before, the credentials in Latchkey stay right.
    listening = bind_wished("127.0.0.1", [wishes.port, folder.last_port()])
    (control,) = bind("127.0.0.1", wishes.control_port, 1)
    folder.remember_port(listening.getsockname()[1])
    async with running(store, listening=listening, control=control, tls=tls) as served:
        write_json(folder.credentials, store.credentials(served.base_url))
        store.outbox.attempted = lambda message, attempt: _show(console, message, attempt)
        _introduce(console, store, folder, wishes, served)
        write_json(folder.control, {"store": store.name, "control_url": served.control_url})
        try:
            await first_of(keep_time(store), signal.asked.wait())
        finally:
            folder.control.unlink(missing_ok=True)


def _introduce(
    console: Console, store: Emulator[Any, Any], folder: EmulatorFolder, wishes: Wishes, served: ServedEmulator
) -> None:
    title = TITLES[store.name]
    table = titled(f"The {title} emulator is up")
    table.add_row(f"{title} API", served.base_url)
    table.add_row("Control API", served.control_url)
    table.add_row("Its clock", shown(store.clock.now()))
    table.add_row("Notifications to", store.outbox.url or "nowhere yet (step 3)")
    table.add_row("Credentials", f"{folder.credentials}  (with private keys, mode 600)")
    if wishes.tls:
        table.add_row("Certificate to trust", str(folder.path / "tls" / "authority.pem"))
    console.print(table, soft_wrap=True)
    usual = folder.path == FOLDERS[store.name].absolute()
    where = f" --store {store.name}" if usual else f" --folder {escape(str(folder.path))}"
    # Commands are not framed and not wrapped, so that they can be copied.
    steps = f"""
[bold]What to do next[/bold]

[bold cyan]1[/] Let Latchkey talk to it. Set this for the service, and for the command of step 2:
  export LATCHKEY_STORE_ALLOW_HOSTS=127.0.0.1

[bold cyan]2[/] Connect your app. `latchkey app list` shows its id; `latchkey app create Notes --store {_KINDS[store.name]}` creates one:
  latchkey app credentials set APP --file {escape(str(folder.credentials))}
  or over the API, with a secret key of the project:
  curl -X PUT --cacert CA.pem -H "Authorization: Bearer $LK_API_KEY" -H 'Content-Type: application/json' --data @{escape(str(folder.credentials))} {escape(wishes.service_url.rstrip("/"))}/v2/projects/PROJECT/apps/APP/credentials

[bold cyan]3[/] Send notifications to the notification URL that step 2 showed:
  latchkey emulate connect NOTIFICATION_URL{where}

[bold cyan]4[/] Sell something, and let time pass:
  latchkey emulate sell {_first_product(store)} --buyer ada{where}
  latchkey emulate clock '1 month'{where}

Acts, misbehaviour and the control API: docs/emulators.md
"""  # noqa: E501 - a command to copy is one line
    console.print(steps, soft_wrap=True)
    console.print("Notifications are shown as they are sent. Press Ctrl-C to stop.", style="dim")


def _first_product(store: Emulator[Any, Any]) -> str:
    names = [str(product.get("name") or product["id"]) for product in store.products()]
    return next((name for name in names if name.startswith("pro_")), names[0])


def _show(console: Console, message: OutgoingNotification, attempt: SendAttempt) -> None:
    """One line for each attempt. What the service answered is plain text from outside."""
    answered = str(attempt.status) if attempt.status is not None else attempt.answer or "not sent"
    good = message.state == "delivered"
    mark = "✓" if good else "✗"
    console.print(
        f"{mark} {shown(attempt.at)}  {message.kind:<45} {attempt.did:<10} {answered}",
        style="green" if good else "red",
        markup=False,
        soft_wrap=True,
    )
