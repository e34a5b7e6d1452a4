"""What `latchkey up` prints when everything has started: addresses, keys, and commands to copy."""

import shutil
import sys
from pathlib import Path

from rich.console import Console

from latchkey.cli.data_folder import Connection, DataFolder
from latchkey.cli.output import titled
from latchkey.cli.target_database import DATA
from latchkey.process.supervision.start import Timings
from latchkey.process.up.up_settings import UpSettings


def program() -> str:
    """What to type for `latchkey`: its path, if the shell would not find it, as in a virtual environment."""
    started, known = Path(sys.argv[0]), shutil.which("latchkey")
    if not started.is_file() or (known is not None and Path(known).resolve() == started.resolve()):
        return "latchkey"
    here = Path.cwd()
    return str(started.relative_to(here) if started.is_relative_to(here) else started)


def announce(
    console: Console, folder: DataFolder, timings: Timings, connection: Connection, chosen: UpSettings
) -> None:
    table = titled("Latchkey is up")
    table.add_row("Dashboard", connection.dashboard.url)
    known = (
        f"password {connection.dashboard.password}" if connection.dashboard.password else "with the password you chose"
    )
    table.add_row("  sign in as", f"{connection.dashboard.email}, {known}")
    table.add_row("Service", connection.base_url)
    table.add_row("API description", f"{connection.base_url}/openapi.json")
    table.add_row("Reference consumer", connection.consumer.base_url)
    table.add_row("Demo app", f"{connection.consumer.base_url}/")
    table.add_row("Push sandbox", connection.push.base_url)
    latchkey = program()
    where = "" if folder.path == DATA.absolute() else f" --data {folder.path}"
    if connection.stores:
        selling = f"{latchkey} emulate sell pro_monthly --customer ada{where}"
        others = "at Google pro_monthly:monthly, at Stripe pro_monthly:price_pro_monthly"
        table.add_row("Store emulators", f"{selling} buys at Apple; {others}")
        moving = f"{latchkey} emulate clock '1 month'{where}"
        table.add_row(
            "  their clocks", f"{moving} moves them a month ahead, but not Latchkey's clock (see --test-clock)"
        )
    table.add_row("Demo project", connection.project_id)
    table.add_row("Certificate authority", connection.ca_cert)
    table.add_row(
        "  for browsers", f"{latchkey} trust{where} makes browsers trust it; {latchkey} untrust{where} undoes that"
    )
    if not chosen.given.smtp_host:
        table.add_row(
            "E-mail", f"{chosen.given.mail_folder or folder.mail}  (each as a file; set LATCHKEY_SMTP_HOST to send)"
        )
    table.add_row("For scripts", f"{folder.connection}  (addresses and keys; only you can read it)")
    table.add_row("Database", connection.database_url)
    table.add_row("Logs", f"{folder.log}, {folder.path / 'postgres.log'}")
    table.add_row("Ready after", str(timings))
    if chosen.taken:
        table.add_row("Settings used", ", ".join(chosen.taken))
    for variable, why in chosen.ignored:
        table.add_row("Setting not used", f"{variable}: `up` ignores it, because {why}")
    if not console.is_terminal:
        # No address is broken in two.
        console.width = max(console.width, console.measure(table, options=console.options.update(width=400)).maximum)
    console.print()
    console.print(table, soft_wrap=True)
    v2 = f"{connection.base_url}/v2/projects/{connection.project_id}"
    curl = f"curl --cacert {connection.ca_cert} -H 'Authorization: Bearer {connection.api_key}'"
    mine, token = connection.consumer.base_url, connection.consumer.users[0].token
    alice = f"curl --cacert {connection.ca_cert} -H 'Authorization: Bearer {token}'"
    purchase = '{"action": "purchase", "app_user_id": "alice", "product_id": "pro_monthly"}'
    for title, command in (
        ("Buy something in the test store as alice:", f"{curl} --json '{purchase}' {v2}/test_store/actions"),
        ("Read her through the V1 API:", f"{curl} {connection.base_url}/v1/subscribers/alice"),
        ("Read her through the V2 API:", f"{curl} {v2}/customers/alice"),
        ("Read what your app's server knows about her (from webhooks):", f"{alice} {mine}/api/my-entitlements"),
        (
            "Open the demo app on a simulated phone with notifications:",
            f"{latchkey} device {mine}/ --window --data {folder.path}",
        ),
    ):
        console.print(f"\n[bold]{title}[/bold]")
        console.print(command, soft_wrap=True, markup=False)
    console.print("\nPress Ctrl-C to stop everything. The data is kept.", style="dim")
