"""`latchkey trust`, with the real programs, in folders of its own: never in this machine's stores."""

import asyncio
import io
import os
import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket

import pytest
from cryptography import x509
from playwright.async_api import Error, async_playwright
from rich.console import Console

from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates, signs_only_here
from latchkey.process.local_ca.trust import (
    Authority,
    CannotTrustError,
    Keychain,
    NssDatabase,
    SystemFolder,
    browser_stores,
    local_authority,
    put_in,
    run,
    system_stores,
    take_out,
)
from latchkey.runtime.chromium import FLAGS
from latchkey.server import Listener
from latchkey.settings import Settings
from tests.cli.running import typed
from tests.machine import needed
from tests.patience import PATIENCE
from tests.settings.test_safety import write_pair

NAMED = Authority(Path("x"), "x")


@pytest.fixture
def certificates(tmp_path: Path) -> LocalCertificates:
    (tmp_path / "data").mkdir()
    return ensure_certificates(tmp_path / "data" / "tls", [], real_now())


@pytest.fixture
def authority(certificates: LocalCertificates) -> Authority:
    return local_authority(certificates.authority)


@pytest.fixture(scope="module")
def certutil() -> str:
    return needed("certutil")


@pytest.fixture
def system(tmp_path: Path) -> SystemFolder:
    """A Debian trust store in a temporary folder, made by Debian's own program."""
    program = needed("update-ca-certificates")
    folders = {name: tmp_path / name for name in ("local", "certs", "etc", "hooks")}
    for folder in folders.values():
        folder.mkdir()
    (tmp_path / "conf").touch()
    # Another authority is there already, and must stay.
    foreign, _ = write_pair(tmp_path, "Somebody else")
    (folders["local"] / "somebody-else.crt").write_bytes(foreign.read_bytes())
    options = (
        "--localcertsdir", str(folders["local"]), "--certsdir", str(folders["certs"]),
        "--etccertsdir", str(folders["etc"]), "--hooksdir", str(folders["hooks"]),
        "--certsconf", str(tmp_path / "conf"),
    )  # fmt: skip
    return SystemFolder("the system's store", folders["local"], (program, *options), ("--fresh",))


def firefox_profile(home: Path, certutil: str) -> Path:
    profile = home / ".mozilla" / "firefox" / "x1y2.default-release"
    profile.mkdir(parents=True)
    run(certutil, "-N", "-d", f"sql:{profile}", "--empty-password")
    return profile


@contextmanager
def not_root() -> Iterator[None]:
    """Run the block without root's rights."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def paper() -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, width=400, highlight=False), written


def test_the_system_and_the_browsers_trust_it_and_cease_to(
    authority: Authority, certificates: LocalCertificates, system: SystemFolder, certutil: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    profile = firefox_profile(home, certutil)
    (home / ".pki" / "nssdb").mkdir(parents=True)
    run(certutil, "-N", "-d", f"sql:{home / '.pki' / 'nssdb'}", "--empty-password")
    stores = [system, *browser_stores(home, certutil)]
    assert [store.title for store in stores] == ["the system's store", "Chromium and Chrome", "Firefox"]
    console, written = paper()
    asked: list[str] = []

    def yes(words: str) -> bool:
        asked.append(words)
        return True

    assert put_in(console, authority, stores, yes) == 0
    assert asked == ["Do that?"]
    told = written.getvalue()
    for words in (str(system.folder), "update-ca-certificates", str(home / ".pki" / "nssdb"), str(profile), "undoes"):
        assert words in told
    assert told.count("✓") == 3
    assert all(store.names() == [authority.name] for store in stores)
    # The bundle that programs of this system would trust.
    bundle = tmp_path / "etc" / "ca-certificates.crt"
    assert certificates.authority.read_bytes().strip() in bundle.read_bytes()
    assert ssl.create_default_context(cafile=str(bundle)).get_ca_certs()
    console, written = paper()
    assert put_in(console, authority, stores, None) == 0
    assert "already trusted" in written.getvalue()
    console, written = paper()
    assert take_out(console, authority, stores, None) == 0
    assert written.getvalue().count("✓") == 3
    assert all(store.names() == [] for store in stores)
    assert certificates.authority.read_bytes().strip() not in bundle.read_bytes()
    assert (system.folder / "somebody-else.crt").read_bytes().strip() in bundle.read_bytes()
    assert len(list((tmp_path / "etc").glob("*.pem"))) == 1
    console, written = paper()
    assert take_out(console, authority, stores, None) == 0
    assert "No trust store on this machine contains it." in written.getvalue()


def test_who_says_no_has_changed_nothing(authority: Authority, system: SystemFolder) -> None:
    console, written = paper()
    assert put_in(console, authority, [system], lambda _: False) == 1
    assert "Nothing was changed." in written.getvalue()
    assert system.names() == []


def test_all_of_them_can_go_at_once_but_never_one_that_is_not_ours(
    authority: Authority, system: SystemFolder, certutil: str, tmp_path: Path
) -> None:
    database = NssDatabase("Firefox", firefox_profile(tmp_path, certutil), certutil)
    foreign = system.folder / "somebody-else.crt"
    run(certutil, "-A", "-d", f"sql:{database.folder}", "-t", "C,,", "-n", "Somebody else", "-i", str(foreign))
    other = local_authority(ensure_certificates(tmp_path / "other", [], real_now()).authority)
    for one in (authority, other):
        assert put_in(paper()[0], one, [system, database], None) == 0
    assert set(database.names()) == set(system.names()) == {authority.name, other.name}
    assert take_out(paper()[0], other, [system, database], None) == 0
    assert database.names() == system.names() == [authority.name]
    assert take_out(paper()[0], None, [system, database], None) == 0
    assert database.names() == system.names() == []
    assert [path.name for path in system.folder.iterdir()] == ["somebody-else.crt"]
    run(certutil, "-L", "-d", f"sql:{database.folder}", "-n", "Somebody else")


def test_who_may_not_change_the_system_is_told_how_and_the_browsers_are_done(
    authority: Authority, system: SystemFolder, certutil: str, tmp_path: Path
) -> None:
    console, written = paper()
    system.folder.chmod(0o555)
    database = NssDatabase("Firefox", firefox_profile(tmp_path, certutil), certutil)
    with pytest.raises(CannotTrustError, match="only an administrator"), not_root():
        SystemFolder("the system's store", system.folder, system.refresh)._change(lambda: (system.folder / "x").touch())
    gone = SystemFolder("the system's store", tmp_path / "nowhere", system.refresh)
    assert put_in(console, authority, [gone, database], None) == 1
    told = written.getvalue()
    assert "✗ the system's store" in told
    assert "No such file" in told
    assert "✓ Firefox" in told
    assert database.names() == [authority.name]


def test_what_fails_halfway_is_taken_back(authority: Authority, tmp_path: Path) -> None:
    for refresh, words in ((("/bin/false",), "ended with 1"), (("no-such-program",), "not on this machine")):
        store = SystemFolder("the system's store", tmp_path, refresh)
        with pytest.raises(CannotTrustError, match=words):
            store.adding(authority)[1]()
        assert store.names() == []


def test_an_authority_that_could_vouch_for_anybody_is_never_installed(
    certificates: LocalCertificates, tmp_path: Path
) -> None:
    assert signs_only_here(x509.load_pem_x509_certificate(certificates.authority.read_bytes()))
    open_to_all, _ = write_pair(tmp_path, "Latchkey local authority abc123")
    for bad in (open_to_all, certificates.cert):
        with pytest.raises(CannotTrustError, match=r"could sign for any site"):
            local_authority(bad)
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(CannotTrustError, match="cannot be read as a certificate"):
        local_authority(tmp_path / "junk.pem")
    with pytest.raises(CannotTrustError, match=r"`latchkey up` makes it"):
        local_authority(tmp_path / "missing.pem")


def test_each_system_has_its_own_way(tmp_path: Path) -> None:
    with pytest.raises(CannotTrustError, match="Windows is not supported"):
        system_stores("win32")
    [keychain] = system_stores("darwin")
    assert "System.keychain" in keychain.adding(NAMED)[0]
    assert "System.keychain" in Keychain().removing("x")[0]
    assert system_stores("linux", tmp_path) == []
    (tmp_path / "usr/local/share/ca-certificates").mkdir(parents=True)
    needed("update-ca-certificates")
    [debian] = system_stores("linux", tmp_path)
    assert str(tmp_path / "usr/local/share/ca-certificates") in debian.adding(NAMED)[0]
    shutil.rmtree(tmp_path / "usr")
    (tmp_path / "etc/pki/ca-trust/source/anchors").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "update-ca-trust"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{tmp_path / 'bin'}:{before}"
    try:
        [fedora] = system_stores("linux", tmp_path)
    finally:
        os.environ["PATH"] = before
    assert "update-ca-trust" in fedora.adding(NAMED)[0]


def test_the_command_asks_says_and_does_it_for_one_s_own_browsers(
    certificates: LocalCertificates, chromium: Path, certutil: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    data = tmp_path / "data"
    told = {"HOME": str(home), "LATCHKEY_CHROMIUM": str(chromium)}
    missing = typed("trust", "--data", tmp_path / "elsewhere", "--only", "browsers", "--yes", **told)
    assert missing.returncode == 1
    assert "`latchkey up` makes it" in missing.stderr
    done = typed("trust", "--data", data, "--only", "browsers", "--yes", **told)
    assert done.returncode == 0, done
    assert "make it and add Latchkey local authority" in done.stdout
    database = NssDatabase("", home / ".pki" / "nssdb", certutil)
    assert len(database.names()) == 1
    assert database.folder.stat().st_mode & 0o077 == 0
    gone = typed("untrust", "--data", data, "--only", "browsers", "--yes", **told)
    assert gone.returncode == 0, gone
    assert database.names() == []
    bare = typed("trust", "--data", data, "--only", "browsers", "--yes", **told, PATH=str(tmp_path))
    assert bare.returncode == 1
    assert "for them `certutil` is needed" in bare.stdout
    assert "libnss3-tools" in bare.stdout


async def test_chromium_opens_the_service_without_a_warning(
    authority: Authority, certificates: LocalCertificates, chromium: Path, certutil: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    store = NssDatabase("Chromium", home / ".pki" / "nssdb", certutil)

    async def opened(*urls: str) -> list[str]:
        """The text of each page in a new browser, or the browser's error."""
        found = []
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=chromium, args=FLAGS, env={**os.environ, "HOME": str(home)}
            )
            page = await browser.new_page()
            page.set_default_timeout(PATIENCE * 1000)
            for url in urls:
                try:
                    await page.goto(url)
                    found.append(await page.locator("body").inner_text())
                except Error as error:
                    found.append(error.message)
            await browser.close()
        return found

    async def app(scope: object, receive: object, send: object) -> None:
        assert callable(send)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<p>no warning</p>"})

    with socket(AF_INET, SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listener = Listener(app, listening, Settings(tls_cert=certificates.cert, tls_key=certificates.key))
        serving = asyncio.create_task(listener.serve())
        port = listening.getsockname()[1]
        try:
            [warned] = await opened(f"https://127.0.0.1:{port}/")
            assert "ERR_CERT_AUTHORITY_INVALID" in warned
            store.adding(authority)[1]()
            both = f"https://127.0.0.1:{port}/", f"https://localhost:{port}/"
            assert await opened(*both) == ["no warning", "no warning"]
        finally:
            listener.stop()
            await serving
