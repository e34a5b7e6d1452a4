"""The trust stores of a machine, and how a certificate authority is added and removed.

The system's store is for programs; browsers on Linux, and Firefox everywhere, have their own (NSS databases). Every
path and program is a parameter: tests use their own folders, never the machine's.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.x509.oid import NameOID

from latchkey.cli.data_folder import write_private
from latchkey.domain.refusal import Refusal
from latchkey.runtime.chromium import find_chromium
from latchkey.runtime.device_errors import ChromiumMissingError

# Prefix of the name of every authority of `latchkey up`; a few digits follow.
OURS = "Latchkey local authority"
CERTUTIL_FROM = (
    "Debian: `sudo apt-get install libnss3-tools`; Fedora: `sudo dnf install nss-tools`; macOS: `brew install nss`"
)


class CannotTrustError(Refusal):
    """A store could not be changed; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Authority:
    path: Path
    name: str


def read_authority(path: Path) -> tuple[Authority, x509.Certificate]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    [name] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Authority(path, str(name.value)), certificate


class TrustStore(Protocol):
    @property
    def title(self) -> str: ...

    def names(self) -> list[str]:
        """The authorities of Latchkey in this store."""

    def adding(self, name: str) -> str:
        """Describes what `add` does."""

    def removing(self, name: str) -> str: ...

    def add(self, authority: Authority) -> None: ...

    def remove(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SystemFolder:
    """A folder of certificates, and the command that makes the system read it, on Debian and Fedora."""

    title: str
    folder: Path
    refresh: tuple[str, ...]
    # Debian's program notices removed certificates only with this option.
    refresh_anew: tuple[str, ...] = ()

    def names(self) -> list[str]:
        found = self.folder.glob(f"{OURS.lower().replace(' ', '-')}-*.crt") if self.folder.is_dir() else ()
        return sorted(_named(path.stem) for path in found)

    def adding(self, name: str) -> str:
        return f"copy it to {self._path(name)} and run `{' '.join(self.refresh)}`"

    def removing(self, name: str) -> str:
        return f"delete {self._path(name)} and run `{' '.join(self.refresh + self.refresh_anew)}`"

    def add(self, authority: Authority) -> None:
        try:
            self._change(lambda: write_private(self._path(authority.name), authority.path.read_bytes(), mode=0o644))
        except CannotTrustError:
            # A partial change would look complete the next time.
            with contextlib.suppress(OSError):
                self._path(authority.name).unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        self._change(lambda: self._path(name).unlink(missing_ok=True), *self.refresh_anew)

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


@dataclass(frozen=True, slots=True)
class Keychain:
    """macOS. Safari and Chrome read it too."""

    title: str = "the system keychain"
    keychain: Path = Path("/Library/Keychains/System.keychain")
    security: str = "/usr/bin/security"

    def names(self) -> list[str]:
        listed = said(self.security, "find-certificate", "-a", "-c", OURS, str(self.keychain))
        return sorted(set(re.findall(rf'"alis"<blob>="({OURS} [0-9a-f]+)"', listed)))

    def adding(self, name: str) -> str:
        return f"add {name} to {self.keychain} with `security add-trusted-cert` (macOS asks for your password)"

    def removing(self, name: str) -> str:
        return f"delete {name} from {self.keychain} with `security delete-certificate`"

    def add(self, authority: Authority) -> None:
        run(self.security, "add-trusted-cert", "-d", "-r", "trustRoot", "-k", str(self.keychain), str(authority.path))

    def remove(self, name: str) -> None:
        run(self.security, "delete-certificate", "-c", name, "-t", str(self.keychain))


@dataclass(frozen=True, slots=True)
class NssDatabase:
    """A browser's own store."""

    title: str
    folder: Path
    certutil: str

    def names(self) -> list[str]:
        if not (self.folder / "cert9.db").exists():
            return []
        return re.findall(rf"^({OURS} [0-9a-f]+)\s", said(self.certutil, "-L", "-d", self._database), re.MULTILINE)

    def adding(self, name: str) -> str:
        made = "" if (self.folder / "cert9.db").exists() else "make it and "
        return f"{made}add {name} to {self.folder} with `certutil`, as an authority for websites"

    def removing(self, name: str) -> str:
        return f"delete {name} from {self.folder} with `certutil`"

    def add(self, authority: Authority) -> None:
        if not (self.folder / "cert9.db").exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            run(self.certutil, "-N", "-d", self._database, "--empty-password")
        # C: trusted for servers. Not for e-mail or code signing.
        run(self.certutil, "-A", "-d", self._database, "-t", "C,,", "-n", authority.name, "-i", str(authority.path))

    def remove(self, name: str) -> None:
        run(self.certutil, "-D", "-d", self._database, "-n", name)

    @property
    def _database(self) -> str:
        return f"sql:{self.folder}"


def run(*words: str) -> None:
    done = _ran(*words)
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise CannotTrustError(f"`{words[0]}` failed: {told[-1] if told else f'it ended with {done.returncode}'}")


def said(*words: str) -> str:
    """The output; empty if the command fails, because there is nothing to find then."""
    return _ran(*words).stdout


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


def browser_stores(home: Path, certutil: str, platform: str = sys.platform) -> list[TrustStore]:
    """The stores of the browsers that this user has used, and of an installed Chromium that was not used yet."""
    own, snap = home / ".pki/nssdb", home / "snap/chromium/current/.pki/nssdb"
    chromium = [folder for folder in (own, snap) if (folder / "cert9.db").exists()]
    if not chromium and _has_chromium():
        chromium = [own]
    if platform == "darwin":
        # On macOS it reads the keychain.
        chromium = []
    return [
        *(NssDatabase("Chromium and Chrome", folder, certutil) for folder in chromium),
        *(NssDatabase("Firefox", folder, certutil) for folder in firefox_profiles(home)),
    ]


def firefox_profiles(home: Path) -> list[Path]:
    roots = (".mozilla/firefox", "snap/firefox/common/.mozilla/firefox", "Library/Application Support/Firefox/Profiles")
    return sorted(path.parent for root in roots for path in (home / root).glob("*/cert9.db"))


def _has_chromium() -> bool:
    try:
        find_chromium()
    except ChromiumMissingError:
        return False
    return True


def _named(stem: str) -> str:
    return f"{OURS} {stem.rpartition('-')[2]}"
