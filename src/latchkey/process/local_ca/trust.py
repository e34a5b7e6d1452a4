"""`latchkey trust` and `latchkey untrust`: add the local certificate authority to trust stores, and remove it."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct
from rich.console import Console

from latchkey.cli.command import flag
from latchkey.cli.data_folder import DataFolder, write_private
from latchkey.cli.output import YesOption
from latchkey.cli.target_database import DATA
from latchkey.domain.refusal import Refusal
from latchkey.process.local_ca.authority import signs_only_here
from latchkey.runtime.chromium import find_chromium
from latchkey.runtime.device_errors import ChromiumMissingError

# Prefix of the name of every authority of `latchkey up`; a few digits follow.
OURS = "Latchkey local authority"
CERTUTIL_FROM = (
    "Debian: `sudo apt-get install libnss3-tools`; Fedora: `sudo dnf install nss-tools`; macOS: `brew install nss`"
)


class CannotTrustError(Refusal):
    """A store could not be changed; the message says which and what to do."""


class Authority(Struct, frozen=True):
    path: Path
    name: str


# What is done in words, and the function that does it.
Change = tuple[str, Callable[[], None]]


class SystemFolder(Struct, frozen=True):
    """A folder of certificates, and the command that makes the system read it, on Debian and Fedora."""

    title: str
    folder: Path
    refresh: tuple[str, ...]
    # Debian's program notices removed certificates only with this option.
    refresh_anew: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """The authorities of Latchkey in this store."""
        found = self.folder.glob(f"{OURS.lower().replace(' ', '-')}-*.crt") if self.folder.is_dir() else ()
        return sorted(f"{OURS} {path.stem.rpartition('-')[2]}" for path in found)

    def adding(self, authority: Authority) -> Change:
        path = self._path(authority.name)

        def add() -> None:
            try:
                self._change(lambda: write_private(path, authority.path.read_bytes(), mode=0o644))
            except CannotTrustError:
                # A partial change would look complete the next time.
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                raise

        return f"copy it to {path} and run `{' '.join(self.refresh)}`", add

    def removing(self, name: str) -> Change:
        path = self._path(name)
        words = f"delete {path} and run `{' '.join(self.refresh + self.refresh_anew)}`"
        return words, lambda: self._change(lambda: path.unlink(missing_ok=True), *self.refresh_anew)

    def _path(self, name: str) -> Path:
        return self.folder / (name.lower().replace(" ", "-") + ".crt")

    def _change(self, change: Callable[[], None], *how: str) -> None:
        try:
            change()
        except PermissionError:
            again = shlex.join(["sudo", *sys.argv, "--only", "system"])
            raise CannotTrustError(f"only an administrator may change {self.folder}. Try `{again}`.") from None
        except OSError as error:
            raise CannotTrustError(f"{self.folder} cannot be changed: {error.strerror}.") from None
        run(*self.refresh, *how)


class Keychain(Struct, frozen=True):
    """macOS. Safari and Chrome read it too."""

    title: str = "the system keychain"
    keychain: Path = Path("/Library/Keychains/System.keychain")
    security: str = "/usr/bin/security"

    def names(self) -> list[str]:
        listed = _ran(self.security, "find-certificate", "-a", "-c", OURS, str(self.keychain)).stdout
        return sorted(set(re.findall(rf'"alis"<blob>="({OURS} [0-9a-f]+)"', listed)))

    def adding(self, authority: Authority) -> Change:
        command = ("add-trusted-cert", "-d", "-r", "trustRoot", "-k", str(self.keychain), str(authority.path))
        words = (
            f"add {authority.name} to {self.keychain} with `security add-trusted-cert` (macOS asks for your password)"
        )
        return words, lambda: run(self.security, *command)

    def removing(self, name: str) -> Change:
        words = f"delete {name} from {self.keychain} with `security delete-certificate`"
        return words, lambda: run(self.security, "delete-certificate", "-c", name, "-t", str(self.keychain))


class NssDatabase(Struct, frozen=True):
    """A browser's own store."""

    title: str
    folder: Path
    certutil: str

    def names(self) -> list[str]:
        if not (self.folder / "cert9.db").exists():
            return []
        return re.findall(
            rf"^({OURS} [0-9a-f]+)\s", _ran(self.certutil, "-L", "-d", self._database).stdout, re.MULTILINE
        )

    def adding(self, authority: Authority) -> Change:
        name, exists = authority.name, (self.folder / "cert9.db").exists()

        def add() -> None:
            if not exists:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                run(self.certutil, "-N", "-d", self._database, "--empty-password")
            # C: trusted for servers. Not for e-mail or code signing.
            run(self.certutil, "-A", "-d", self._database, "-t", "C,,", "-n", name, "-i", str(authority.path))

        made = "" if exists else "make it and "
        return f"{made}add {name} to {self.folder} with `certutil`, as an authority for websites", add

    def removing(self, name: str) -> Change:
        words = f"delete {name} from {self.folder} with `certutil`"
        return words, lambda: run(self.certutil, "-D", "-d", self._database, "-n", name)

    @property
    def _database(self) -> str:
        return f"sql:{self.folder}"


TrustStore = SystemFolder | Keychain | NssDatabase


def run(*words: str) -> None:
    done = _ran(*words)
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise CannotTrustError(f"`{words[0]}` failed: {told[-1] if told else f'it ended with {done.returncode}'}")


def _ran(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=120)  # noqa: S603 - our own words
    except FileNotFoundError:
        raise CannotTrustError(f"`{words[0]}` is not on this machine.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotTrustError(f"`{words[0]}` could not be run: {error}.") from None


def system_stores(platform: str = sys.platform, root: Path = Path("/")) -> list[TrustStore]:
    if platform == "win32":
        raise CannotTrustError("Windows is not supported. In WSL it is, for the browsers that run there.")
    if platform == "darwin":
        return [Keychain()]
    for folder, program, anew in (
        (root / "usr/local/share/ca-certificates", "update-ca-certificates", ("--fresh",)),
        (root / "etc/pki/ca-trust/source/anchors", "update-ca-trust", ()),
    ):
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        if folder.is_dir() and (found := shutil.which(program, path=path)):
            return [SystemFolder("the system's store", folder, (found,), anew)]
    return []


def browser_stores(home: Path, certutil: str) -> list[TrustStore]:
    """The stores of the browsers that this user has used, and of an installed Chromium that was not used yet."""
    own, snap = home / ".pki/nssdb", home / "snap/chromium/current/.pki/nssdb"
    chromium = [folder for folder in (own, snap) if (folder / "cert9.db").exists()]
    if not chromium:
        with contextlib.suppress(ChromiumMissingError):
            find_chromium()
            chromium = [own]
    if sys.platform == "darwin":
        # On macOS it reads the keychain.
        chromium = []
    roots = (".mozilla/firefox", "snap/firefox/common/.mozilla/firefox", "Library/Application Support/Firefox/Profiles")
    firefox = sorted(path.parent for root in roots for path in (home / root).glob("*/cert9.db"))
    return [
        *(NssDatabase("Chromium and Chrome", folder, certutil) for folder in chromium),
        *(NssDatabase("Firefox", folder, certutil) for folder in firefox),
    ]


Only = Literal["system", "browsers"]
DataOption = Annotated[Path, typer.Option("--data", help="The data folder of `latchkey up`.")]
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
    everything: bool = flag("Remove the authorities of all `latchkey up`, also of deleted folders.", "--all"),
) -> None:
    """Undo what `latchkey trust` did. Asks first."""
    console = Console(highlight=False)
    authority = None if everything else local_authority(DataFolder(data).tls / "authority.pem")
    raise typer.Exit(take_out(console, authority, gathered(console, only), ask=None if yes else typer.confirm))


Ask = Callable[[str], bool] | None


def local_authority(path: Path) -> Authority:
    """The authority in this file, if it is limited to this machine and private networks."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        [name] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
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
    return Authority(path, str(name.value))


def gathered(console: Console, only: Only | None) -> list[TrustStore]:
    """The trust stores of this machine; prints what is missing to reach some of them."""
    found: list[TrustStore] = [] if only == "browsers" else system_stores()
    if not found and only != "browsers":
        console.print("No system trust store was found (neither Debian's nor Fedora's), so it is skipped.")
    if only != "system":
        certutil = shutil.which("certutil")
        if certutil is None:
            console.print(
                f"Your browsers are skipped: for them `certutil` is needed ({CERTUTIL_FROM}).", soft_wrap=True
            )
        else:
            found += browser_stores(Path.home(), certutil)
    return found


def put_in(console: Console, authority: Authority, stores: list[TrustStore], ask: Ask) -> int:
    missing = [store for store in stores if authority.name not in store.names()]
    if not missing:
        console.print(f"{authority.name} is already trusted." if stores else "There is no trust store to add it to.")
        return 0 if stores else 1
    console.print(f"[bold]{authority.name}[/bold] ({authority.path})", soft_wrap=True)
    console.print("It can sign certificates for this machine and private networks only. To trust it, Latchkey will:")
    steps = [(store, *store.adding(authority)) for store in missing]
    afterwards = "Open browsers notice when they are started again. `latchkey untrust` undoes it."
    return _carry_out(console, steps, ask, afterwards)


def take_out(console: Console, authority: Authority | None, stores: list[TrustStore], ask: Ask) -> int:
    held = [(store, name) for store in stores for name in store.names() if authority is None or name == authority.name]
    if not held:
        console.print("No trust store on this machine contains it.")
        return 0
    console.print("To remove it, Latchkey will:")
    steps = [(store, *store.removing(name)) for store, name in held]
    return _carry_out(console, steps, ask, "Open browsers notice when they are started again.")


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
