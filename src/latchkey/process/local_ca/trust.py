"""`latchkey trust` and `latchkey untrust`: add the local certificate authority to trust stores, and remove it."""

import shutil
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from latchkey.cli.data_folder import DataFolder
from latchkey.cli.target_database import DATA
from latchkey.process.local_ca.authority import signs_only_here
from latchkey.process.local_ca.trust_stores import (
    CERTUTIL_FROM,
    Authority,
    CannotTrustError,
    TrustStore,
    browser_stores,
    read_authority,
    system_stores,
)


class Only(StrEnum):
    SYSTEM = "system"
    BROWSERS = "browsers"


DataOption = Annotated[Path, typer.Option("--data", help="The data folder of `latchkey up`.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
OnlyOption = Annotated[Only | None, typer.Option(help="Only the system's trust store, or only those of your browsers.")]


def trust(data: DataOption = DATA, only: OnlyOption = None, yes: YesOption = False) -> None:
    """Make browsers and programs on this machine trust the certificate of `latchkey up`. Asks first."""
    console = Console(highlight=False)
    authority = local_authority(DataFolder(data).tls / "authority.pem")
    raise typer.Exit(put_in(console, authority, gathered(console, only), ask=None if yes else typer.confirm))


def untrust(
    data: DataOption = DATA,
    only: OnlyOption = None,
    yes: YesOption = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Remove the authorities of all `latchkey up`, also of deleted folders.")
    ] = False,
) -> None:
    """Undo what `latchkey trust` did. Asks first."""
    console = Console(highlight=False)
    authority = None if everything else local_authority(DataFolder(data).tls / "authority.pem")
    raise typer.Exit(take_out(console, authority, gathered(console, only), ask=None if yes else typer.confirm))


Ask = Callable[[str], bool] | None


def local_authority(path: Path) -> Authority:
    """The authority in this file, if it is limited to this machine and private networks."""
    try:
        authority, certificate = read_authority(path)
    except FileNotFoundError:
        raise CannotTrustError(
            f"There is no {path}. `latchkey up` makes it; name its folder with --data, or use `untrust --all`."
        ) from None
    except (OSError, ValueError) as error:
        raise CannotTrustError(f"{path} cannot be read as a certificate: {error}.") from None
    if not signs_only_here(certificate):
        raise CannotTrustError(
            f"{path} was not made by Latchkey: it could sign for any site, not only for this machine and private "
            "networks. It is not touched."
        )
    return authority


def gathered(console: Console, only: Only | None, home: Path | None = None) -> list[TrustStore]:
    """The trust stores of this machine; prints what is missing to reach some of them."""
    found: list[TrustStore] = [] if only is Only.BROWSERS else system_stores()
    if not found and only is not Only.BROWSERS:
        console.print("No system trust store was found (neither Debian's nor Fedora's), so it is skipped.")
    if only is not Only.SYSTEM:
        certutil = shutil.which("certutil")
        if certutil is None:
            console.print(
                f"Your browsers are skipped: for them `certutil` is needed ({CERTUTIL_FROM}).", soft_wrap=True
            )
        else:
            found += browser_stores(home or Path.home(), certutil)
    return found


def put_in(console: Console, authority: Authority, stores: list[TrustStore], ask: Ask) -> int:
    missing = [store for store in stores if authority.name not in store.names()]
    if not missing:
        console.print(f"{authority.name} is already trusted." if stores else "There is no trust store to add it to.")
        return 0 if stores else 1
    console.print(f"[bold]{authority.name}[/bold] ({authority.path})", soft_wrap=True)
    console.print("It can sign certificates for this machine and private networks only. To trust it, Latchkey will:")
    return _carry_out(
        console,
        [(store, store.adding(authority.name), lambda store=store: store.add(authority)) for store in missing],  # type: ignore[misc]  # mypy cannot infer a lambda's default
        ask,
        "Open browsers notice when they are started again. `latchkey untrust` undoes it.",
    )


def take_out(console: Console, authority: Authority | None, stores: list[TrustStore], ask: Ask) -> int:
    held = [(store, name) for store in stores for name in store.names() if authority is None or name == authority.name]
    if not held:
        console.print("No trust store on this machine contains it.")
        return 0
    console.print("To remove it, Latchkey will:")
    return _carry_out(
        console,
        [(store, store.removing(name), lambda store=store, name=name: store.remove(name)) for store, name in held],  # type: ignore[misc]  # mypy cannot infer a lambda's default
        ask,
        "Open browsers notice when they are started again.",
    )


Step = tuple[TrustStore, str, Callable[[], None]]


def _carry_out(console: Console, steps: list[Step], ask: Ask, afterwards: str) -> int:
    """Prints the steps and asks; then runs them, and prints the result of each."""
    for store, words, _ in steps:
        console.print(f"  {store.title}: {words}", soft_wrap=True, markup=False)
    if ask is not None and not ask("Do that?"):
        console.print("Nothing was changed.")
        return 1
    failed = 0
    for store, words, step in steps:
        try:
            step()
        except CannotTrustError as error:
            failed += 1
            console.print(f"[red]✗[/red] {store.title}: ", end="")
            console.print(str(error), soft_wrap=True, markup=False)
        else:
            console.print(f"[green]✓[/green] {store.title}: ", end="")
            console.print(words, soft_wrap=True, markup=False)
    if failed < len(steps):
        console.print(afterwards)
    return 1 if failed else 0
