"""`latchkey doctor`: checks this machine and its settings, and says what to do about each problem.

It reports everything for which `latchkey serve` would refuse to start, in the words that `serve` would use.
"""

import asyncio
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from asyncpg import InvalidCatalogNameError
from cryptography import x509
from rich.console import Console

from latchkey.cli import output, secret_key
from latchkey.cli.data_folder import DataFolder, read_json
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.target_database import DATA, ConfigOption, DataOption
from latchkey.database import database_identity, migrate
from latchkey.database.errors import StorageError
from latchkey.database.pool import connect
from latchkey.database_address import without_password
from latchkey.domain.access.api_key import WARNED_BEFORE
from latchkey.domain.instants import DAY
from latchkey.domain.money.exchange_rates import date_of
from latchkey.domain.restore import Origin
from latchkey.engine.missing_rates import SHOWN_DAYS
from latchkey.engine.storage import keys
from latchkey.engine.storage.catalog import rates as storage_rates
from latchkey.now import real_now
from latchkey.process.doctor_deployment import deployment, hosts
from latchkey.process.safety import problems_of, require_sessions, room_for_connections
from latchkey.process.supervision.listeners import CannotListenError, bind
from latchkey.settings import Problem, Settings, gather
from latchkey.stores.adapters import adapters
from latchkey.subjects.deployment.rules import Finding
from latchkey.subjects.mail.usecases import NotSentError, way_of
from latchkey.subjects.purchase_intake.storage.connection_rows import count_troubles

OLDEST_POSTGRESQL = 15
LEAST_DISK = 2 * 1024**3
LARGEST_SKEW_MS = 1_000
RENEW_DAYS = 21
SHOWN_KEYS = 5


def doctor(config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Check this machine and the settings, including everything that `latchkey serve` would refuse."""
    findings = asyncio.run(examine(config, DataFolder(data)))
    if as_json:
        output.write_list(findings)
    else:
        show(findings)
    if any(finding.mark == "bad" for finding in findings):
        raise typer.Exit(output.FAILED)


def show(findings: list[Finding]) -> None:
    console = Console(highlight=False)
    marks = {"good": "[green]✓[/green]", "bad": "[red]✗[/red]", "unknown": "[yellow]·[/yellow]"}
    for finding in findings:
        console.print(f"{marks[finding.mark]} [bold]{finding.about}[/bold]  {finding.words}", soft_wrap=True)
        if finding.remedy:
            console.print(f"    → {finding.remedy}", soft_wrap=True)


async def examine(config: Path | None, folder: DataFolder) -> list[Finding]:
    settings, problems = gather(os.environ, config)
    # Those that `latchkey up` would set itself.
    own = (settings.database_url, settings.secret_key, settings.tls_cert, settings.tls_key, settings.behind_proxy)
    for_serve = config is not None or any(own)
    running = read_json(folder.connection) if not for_serve else {}
    configured = for_serve or bool(problems) or settings != Settings()
    findings = [python(), disk(folder.path)]
    if running:
        findings += [bad(problem) for problem in problems]
    elif configured:
        findings += [bad(problem) for problem in problems_of(settings, real_now(), problems)]
    else:
        words = "nothing is configured, and no `latchkey up` has run in this folder"
        remedy = (
            "Start one with `latchkey up`. For `latchkey serve`, set LATCHKEY_DATABASE_URL, LATCHKEY_SECRET_KEY, "
            "LATCHKEY_TLS_CERT and LATCHKEY_TLS_KEY, then run this again."
        )
        findings.append(Finding("unknown", "settings", words, remedy))
    url = settings.database_url or str(running.get("database_url", ""))
    if url:
        # `up` gives its PostgreSQL as many connections as it needs.
        findings += await database(url, settings.secret_key, None if running else settings)
    if finding := await mail(settings):
        findings.append(finding)
    cert = settings.tls_cert or (folder.tls / "server.pem" if running else None)
    if cert is not None and not any(finding.about == "tls" for finding in findings):
        findings.append(certificate(cert, real_now()))
    # If nothing is configured, the port is unknown too: `latchkey up` reports it if its own port is taken.
    if running or (configured and "api" in settings.roles):
        findings.append(port(settings, running))
    return findings


def bad(problem: Problem) -> Finding:
    about = {"database_url": "database", "secret_key": "secret key"}.get(problem.about, "setting")
    if "tls_" in problem.about:
        about = "tls"
    return Finding("bad", about, f"{problem.setting} {problem.wrong}", problem.remedy)


def judged(about: str, words: str, remedy: str) -> Finding:
    """Good if there is nothing to do about it."""
    return Finding("bad" if remedy else "good", about, words, remedy)


def python() -> Finding:
    # Versions before 3.11 cannot install Latchkey.
    return Finding("good", "python", f"{sys.version.split()[0]} at {sys.executable}")


def disk(path: Path) -> Finding:
    existing = next(one for one in (path, *path.parents) if one.exists())
    free = shutil.disk_usage(existing).free
    remedy = "Free some space: PostgreSQL stops when the disk is full." if free < LEAST_DISK else ""
    return judged("disk", f"{free / 1024**3:.1f} GiB free at {existing}", remedy)


async def database(url: str, key: bytes, settings: Settings | None) -> list[Finding]:
    try:
        connection = await connect(url, application_name="latchkey doctor", connect_timeout=5)
        try:
            await require_sessions(url, connection)
        except StorageError:
            await connection.close()
            raise
    except StorageError as error:
        reason = str(error).partition(" Check LATCHKEY_DATABASE_URL")[0]
        remedy = "Create the database" if isinstance(error.__cause__, InvalidCatalogNameError) else "Start it"
        return [Finding("bad", "database", reason, f"{remedy}, or correct LATCHKEY_DATABASE_URL.")]
    try:
        major = connection.get_server_version().major
        remedy = f"Latchkey needs PostgreSQL {OLDEST_POSTGRESQL} or newer." if major < OLDEST_POSTGRESQL else ""
        found = [judged("database", f"PostgreSQL {major} at {without_password(url)}", remedy), await hosts(url)]
        found += [fitting := await schema(connection), await skew(connection)]
        if settings is not None:
            found.append(await connections(settings, connection))
        if fitting.mark != "bad":
            found.append(await restored(connection))
        if fitting.mark == "good":
            found += [await stores(connection), *await rates(connection, real_now())]
            found.append(await expiring_keys(connection, real_now()))
        if fitting.mark != "bad":
            found += await deployment(url, real_now())
            found += [await sealing(connection, key)] if key else []
        return [finding for finding in found if finding is not None]
    finally:
        await connection.close()


async def restored(connection: Any) -> Finding | None:
    """Whether the database was set back to a backup, or a failover may have lost commits. Nothing is noted: a doctor
    only looks."""
    found, server = await database_identity.look(connection)
    if found is Origin.RESTORED:
        words = "it was restored from a backup; `latchkey serve` does not start on it"
        return Finding("bad", "restore", words, "Run `latchkey admin after-restore` (docs/backup.md).")
    if await database_identity.lossy_failovers(connection):
        words = "a standby took over that may lack the last commits; new events skipped to sequences never used before"
        remedy = (
            "Stop the service and run `latchkey admin after-restore`: it reads purchases from their stores again "
            "(docs/failover.md). If nothing was lost, run `latchkey admin after-restore --nothing-lost`."
        )
        return Finding("bad", "failover", words, remedy)
    if found is Origin.UNCLEAR and server is not None:
        words = f"its timeline is {server.timeline} now: a standby took over, or it was restored from a backup"
        remedy = (
            "If it was restored, stop the service and run `latchkey admin after-restore`. If not, run "
            "`latchkey admin after-restore --nothing-lost`, and this line disappears."
        )
        return Finding("unknown", "restore", words, remedy)
    return None


async def schema(connection: Any) -> Finding:
    try:
        await migrate.require_current(connection)
        await migrate.require_unchanged(connection)
    except StorageError as error:
        return Finding("bad", "schema", str(error))
    version = await migrate.applied(connection)
    if version > migrate.migrations()[-1].version:
        words = f"version {version}, of a newer Latchkey; this one works with it until that upgrade is finished"
        return Finding(
            "unknown", "schema", words, "Go on with the upgrade: restart every process with the newer version."
        )
    if waiting := await migrate.pending_after(connection):
        pending = ", ".join(migration.label for migration in waiting)
        words = f"version {version}, as this Latchkey expects; pending: {pending}"
        remedy = "When no process of an older version is running any more, run `latchkey migrate --after`."
        return Finding("unknown", "schema", words, remedy)
    return Finding("good", "schema", f"version {version}, as this Latchkey expects")


async def connections(settings: Settings, connection: Any) -> Finding:
    if doubt := await room_for_connections(settings, connection):
        return Finding("unknown", "connections", f"{doubt.setting} {doubt.wrong}", doubt.remedy)
    words = f"{settings.processes} processes may open {settings.database_connections} each, and PostgreSQL accepts that"
    return Finding("good", "connections", words)


async def skew(connection: Any) -> Finding:
    before = real_now()
    theirs = await connection.fetchval("select (extract(epoch from clock_timestamp()) * 1000)::bigint")
    # Compared with the middle of the round trip.
    off = abs(theirs - (before + real_now()) // 2)
    remedy = "Synchronize both machines with NTP: subscriptions end by the clock." if off > LARGEST_SKEW_MS else ""
    return judged("clock", f"the database's clock and ours differ by {off} ms", remedy)


async def stores(connection: Any) -> Finding | None:
    """`serve` starts all the same, but purchases of these apps are not taken."""
    found = await count_troubles(connection, tuple(adapters()))
    counts = {"without credentials": found.missing, "whose credentials the store refuses": found.refused}
    said = [f"{count:,} {words}" for words, count in counts.items() if count]
    if said:
        remedy = "See `latchkey app list`, then `latchkey app credentials set`. Their receipts are answered with 503."
        return Finding("unknown", "stores", f"apps of real stores: {', '.join(said)}", remedy)
    if found.failed:
        remedy = "See `latchkey journal list --status failed`; after a fix, `latchkey journal reprocess --since 3d`."
        return Finding("unknown", "stores", f"{found.failed:,} journal entries failed", remedy)
    return None


async def rates(connection: Any, now_ms: int) -> list[Finding]:
    """`serve` starts all the same, but amounts in USD of payments without a rate are estimates."""
    found: list[Finding] = []
    reading = await storage_rates.reading(connection)
    if reading.problem:
        remedy = "Correct the file, then `latchkey rates import` it, or wait: it is read again."
        found.append(Finding("unknown", "exchange rates", f"{reading.source}: {reading.problem}", remedy))
    missing = await storage_rates.list_missing(connection, None, now_ms // DAY - SHOWN_DAYS)
    if missing:
        said = ", ".join(f"{missing_rates.currency} (last {date_of(missing_rates.last)})" for missing_rates in missing)
        remedy = (
            "Set LATCHKEY_EXCHANGE_RATES, or run `latchkey rates import`. Payments seen until then stay as they are."
        )
        found.append(Finding("unknown", "exchange rates", f"amounts in USD are estimates: {said}", remedy))
    return found


async def expiring_keys(connection: Any, now_ms: int) -> Finding | None:
    """Servers that use such a key are refused from that time on."""
    found = await keys.about_to_expire(connection, now_ms, now_ms + WARNED_BEFORE, SHOWN_KEYS + 1)
    if not found:
        return None
    said = [f"{key.name} ({key.hint}, {key.project_id}) on {shown(key.expires_at)}" for key in found[:SHOWN_KEYS]]
    more = " and more" if len(found) > SHOWN_KEYS else ""
    remedy = "Replace each with `latchkey key rotate`, or give it more time with `latchkey key edit --expires`."
    return Finding("unknown", "API keys", f"secret keys expire soon: {'; '.join(said)}{more}", remedy)


async def mail(settings: Settings) -> Finding | None:
    """Everything but sending: the connection, its certificate, the user and the password."""
    way = way_of(settings)
    if way is None:
        return None
    try:
        return Finding("good", "mail", await asyncio.to_thread(way.check))
    except NotSentError as error:
        remedy = "Check the LATCHKEY_SMTP_ settings. Mails wait until it works; nothing else depends on them."
        return Finding("bad", "mail", f"{settings.smtp_host or settings.mail_folder}: {error}", remedy)


async def sealing(connection: Any, key: bytes) -> Finding:
    wrong = await secret_key.problem_with(connection, key)
    if wrong is not None:
        return Finding("bad", "secret key", f"{wrong.setting} {wrong.wrong}", wrong.remedy)
    return Finding("good", "secret key", "LATCHKEY_SECRET_KEY decrypts the webhook secrets in this database")


def certificate(cert: Path, now_ms: int) -> Finding:
    try:
        ends = x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        return Finding("bad", "tls", f"{cert} cannot be read: {error}", "Give a PEM certificate.")
    days = (ends - datetime.fromtimestamp(now_ms / 1000, UTC)).days
    words = f"{cert} is good for {days} more days" if days >= 0 else f"{cert} has expired"
    return judged("tls", words, "Renew it; `latchkey up` renews its own when it starts." if days < RENEW_DAYS else "")


def port(settings: Settings, running: dict[str, Any]) -> Finding:
    if url := running.get("base_url"):
        return Finding("good", "port", f"`latchkey up` was last seen at {url}")
    if settings.port == 0:
        return Finding("good", "port", "a free port is chosen at start-up")
    try:
        for socket in bind(settings.host, settings.port, 1, patience=0):
            socket.close()
    except CannotListenError as error:
        return Finding("bad", "port", str(error), "Nothing to do if that program is Latchkey itself.")
    return Finding("good", "port", f"{settings.host}:{settings.port} is free")
