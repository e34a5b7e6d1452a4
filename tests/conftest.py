"""One embedded PostgreSQL and one real Chromium for each test process, and a migrated, empty database for each test
that asks for one."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
from argon2 import PasswordHasher
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from playwright.async_api import Browser, BrowserContext, async_playwright, expect

from latchkey import logs
from latchkey.database.embedded.postgres import DATABASE, EmbeddedServer
from latchkey.database.pool import Database
from latchkey.runtime.chromium import FLAGS, find_chromium
from latchkey.runtime.chromium import VARIABLE as CHOSEN_BROWSER
from latchkey.stores.google import credentials as google_credentials
from latchkey.subjects.accounts.usecases import accounts
from latchkey.subjects.demo.usecases.project import Demo, ensure_demo
from tests import distributed, machine, order
from tests.cli.running import Up
from tests.connections import migrated
from tests.databases import DemoShelf, Shelf, copy, drop
from tests.distributed import DistributedShelf
from tests.http.client import NOW
from tests.patience import PATIENCE

# Fixtures that tests of several folders use.
pytest_plugins = [
    "tests.engine.fixtures",
    "tests.http.fixtures",
    "tests.dashboard.fixtures",
    "tests.emulators.fixtures",
    "tests.subjects.webhooks.delivery.certificates",
]

# Containers often forbid bytecode files. Tests start some hundred Python processes; without these files each of them
# spends 3 s of CPU on compiling what it imports, with them 1.2 s on loading it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the tests in the background makes them ignore Ctrl-C, and the programs they start inherit that.
# Tests stop some of these programs with Ctrl-C, as a person at a terminal does.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The default shows a traceback with all local variables, which takes seconds where an application is among them.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

# Collecting the tests makes millions of objects that stay. Until it is done (`pytest_collection_finish`), Python need
# not look for garbage among them.
gc.disable()

# Nothing here survives the run, so nothing needs to reach the disk. Tests about crashes start a server of their own.
UNSAFE_BUT_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "io_method": "sync",
    "autovacuum": "off",
}

# What Hypothesis tries: the same examples on every run, or many new ones with LATCHKEY_HYPOTHESIS=thorough.
# A slow machine is not a wrong rule: no deadline, and no complaint that lives take long to draw.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("ci", max_examples=100, derandomize=True, database=None, **_PATIENT)  # type: ignore[arg-type]
# For `make quick`: a fifth of the examples.
settings.register_profile("quick", max_examples=20, derandomize=True, database=None, **_PATIENT)  # type: ignore[arg-type]
# For `make chaos WHAT=rules`: as many as in CI, each time others.
settings.register_profile("fresh", max_examples=100, database=None, print_blob=True, **_PATIENT)  # type: ignore[arg-type]
settings.register_profile("thorough", max_examples=5_000, **_PATIENT)  # type: ignore[arg-type]
_profile = os.environ.get("LATCHKEY_HYPOTHESIS", "ci")
settings.load_profile(_profile)
if _profile != "thorough":
    # Hypothesis also tries the constants of all modules that this process has loaded. So the examples of a file would
    # depend on which other files are tested with it; and each test process would read all source files first.
    providers._get_local_constants = Constants

_numbers = itertools.count(1)
expect.set_options(timeout=PATIENCE * 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {file: place for place, file in enumerate(order.ordered(dict.fromkeys(item.path for item in items)))}
    items.sort(key=lambda item: places[item.path])
    if distributed.is_asked_for():
        for item in items:
            if (mark := item.get_closest_marker("one_server")) is not None:
                item.add_marker(pytest.mark.skip(reason=f"Not for a distributed database: {mark.args[0]}"))


def pytest_collection_finish() -> None:
    gc.freeze()
    # Less often than by default, which takes 5 % of the CPU of a test process.
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says loudly what was not tested. Here and not in a folder below: the process that collects the results of the
    others loads only this file."""
    reports = terminalreporter.stats.get("skipped", [])
    for line in machine.summary([report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)]):
        terminalreporter.write_line(line, yellow=True, bold=True)


@pytest.fixture(scope="session", autouse=True)
def real_passwords() -> Iterator[PasswordHasher]:
    """Passwords are hashed cheaply: at the real cost each takes 32 ms of one core, and one test guesses for a day.
    The value is the real hasher, for the test of its cost."""
    real = accounts._hasher
    accounts._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    yield real
    accounts._hasher = real


@pytest.fixture(scope="session", autouse=True)
def service_accounts_checked_once() -> Iterator[None]:
    """OpenSSL checks an RSA key whenever one is read, which takes 40 to 80 ms. All tests of Google Play read the same
    few."""
    read = google_credentials._signer
    read_once = cache(read)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(google_credentials, "_signer", lambda pem: read_once(pem) if isinstance(pem, str) else read(pem))
        yield


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Whoever configures the log does it for one test: the next one must hear what it says, whatever came before."""
    before, chosen = structlog.get_config(), (logs._writes_info, logs._json_stream)
    yield
    structlog.configure(**before)
    logs._writes_info, logs._json_stream = chosen


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder near the root: pytest closes its own to other users with every new run, and their paths are long."""
    folder = Path(tempfile.mkdtemp(prefix="latchkey-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(short_folder: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(short_folder / "server", settings=UNSAFE_BUT_FAST)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
async def template(postgres: EmbeddedServer) -> str:
    """The name of a migrated database that new ones are copied from, instead of replaying the migrations."""
    await migrated(postgres.url())
    return DATABASE


@pytest.fixture(scope="session")
async def administration(postgres: EmbeddedServer) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(postgres.url("postgres"))
    yield connection
    await connection.close()


@pytest.fixture
async def database_url(
    postgres: EmbeddedServer, template: str, administration: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[str]:
    """The address of a fresh, migrated, empty database, for tests that change more of it than rows."""
    name = f"test_{next(_numbers)}"
    await copy(administration, name, template)
    yield postgres.url(name)
    await drop(administration, name)


@pytest.fixture
async def empty_database_url(
    postgres: EmbeddedServer, administration: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[str]:
    """The address of a database with no tables at all."""
    name = f"test_{next(_numbers)}"
    await copy(administration, name, "template1")
    yield postgres.url(name)
    await drop(administration, name)


@pytest.fixture(scope="session")
async def shelf(
    short_folder: Path,
    postgres: EmbeddedServer,
    template: str,
    administration: asyncpg.Connection[asyncpg.Record],
) -> AsyncIterator[Shelf | DistributedShelf]:
    if distributed.is_asked_for():
        async with DistributedShelf.opened(short_folder / "spread") as spread:
            yield spread
        return
    shelf = Shelf(postgres, administration, template)
    yield shelf
    await shelf.close()


@pytest.fixture(scope="session")
async def demo_shelf(
    short_folder: Path,
    postgres: EmbeddedServer,
    template: str,
    administration: asyncpg.Connection[asyncpg.Record],
) -> AsyncIterator[DemoShelf]:
    if distributed.is_asked_for():
        demos: list[Demo] = []

        async def fill(url: str) -> None:
            async with Database(url) as database:
                demos.append(await ensure_demo(database, NOW, secret_key=None, public_key=None))

        async with DistributedShelf.opened(short_folder / "spread_demo", fill) as spread:
            yield DemoShelf(spread, demos[0])
        return
    await copy(administration, "demo_template", template)
    async with Database(postgres.url("demo_template")) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
    shelf = Shelf(postgres, administration, "demo_template")
    yield DemoShelf(shelf, demo)
    await shelf.close()


@pytest.fixture
async def database(shelf: Shelf | DistributedShelf) -> AsyncIterator[Database]:
    """A migrated, empty database, open."""
    async with shelf.lend() as database:
        yield database


@pytest.fixture(scope="session")
def up(short_folder: Path) -> Iterator[Up]:
    """One `latchkey up` for all files that ask for it. Each keeps to users and webhooks of its own."""
    with Up(short_folder / "shared-up", "--port", "0", "--no-stores") as up:
        up.wait_until_ready()
        yield up
        assert up.terminate() == 0


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Tests in a browser never skip: where there is none, they say so and fail."""
    return find_chromium()


@pytest.fixture(scope="session")
def page_browser(request: pytest.FixtureRequest) -> Path:
    """Chromium's engine without the windows and the menus: a page costs a fifth of the CPU (0.03 s instead of 0.16 s
    for a small one). Where it cannot be had, Chromium itself."""
    shell = None if os.environ.get(CHOSEN_BROWSER) else shutil.which("chromium-headless-shell")
    chromium: Path = Path(shell) if shell else request.getfixturevalue("chromium")
    return chromium


@pytest.fixture(scope="session")
async def browser(page_browser: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=page_browser, args=FLAGS, timeout=PATIENCE * 1000)
        new_context = browser.new_context

        async def patient(**options: Any) -> BrowserContext:
            context = await new_context(**options)
            context.set_default_timeout(PATIENCE * 1000)
            return context

        browser.new_context = patient  # type: ignore[method-assign]  # Playwright has no default for a browser
        yield browser
        await browser.close()
