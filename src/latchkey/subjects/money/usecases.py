"""A project's programs and percentages for tax and commission."""

import asyncio
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from operator import attrgetter
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from msgspec.structs import replace

from latchkey.database.pool import Database, Executor
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.money.exchange_rates import Given, date_of, read_rates
from latchkey.domain.money.fees import Enrolment, Fees, Percentages
from latchkey.domain.naming import COUNTRIES
from latchkey.domain.outgoing_address import Network, NotAllowed
from latchkey.domain.refusal import Conflict, Invalid, Refusal, found
from latchkey.domain.stores.store import STORES
from latchkey.engine.storage.catalog import rates
from latchkey.http_client import HttpClient, HttpError
from latchkey.subjects.webhooks.delivery.sending.resolver import (
    Lookup,
    NameNotFound,
    Resolver,
    in_words,
    of_status,
    parsed,
    system_lookup,
)

MOST = 500
# The stores, with their names for people.
TITLES = {name: store.title for name, store in STORES.items()}
# Those in which real money is paid.
SELLING = {name: store.title for name, store in STORES.items() if store.sells}
# Stores with terms for small businesses.
PROGRAM_STORES = tuple(name for name, store in STORES.items() if store.terms.small_business is not None)
# Whoever pays to be bought from does not need this service.
_HIGHEST = 1.0


async def load_fees(connection: Executor, project_id: str) -> Fees:
    return found(await rates.load(connection, project_id), f"There is no project {project_id}.", "project_id")


async def change_fees(
    database: Database,
    project_id: str,
    *,
    programs: Sequence[Enrolment] | None = None,
    percentages: Sequence[Percentages] | None = None,
) -> Fees:
    """Replaces each list that is given. Payments that were seen already keep their terms."""
    for place, program in enumerate(programs or ()):
        _check_program(place, program)
    for place, percentage in enumerate(percentages or ()):
        _check_percentages(place, percentage)
    if max(len(programs or ()), len(percentages or ())) > MOST:
        raise Invalid(f"A project has at most {MOST} programs and {MOST} percentages.")
    _once("programs", [(one.store, one.program, one.starts) for one in programs or ()])
    _once("percentages", [(one.store, one.country, one.starts) for one in percentages or ()])
    async with database.transaction() as connection:
        known = changed = await load_fees(connection, project_id)
        if programs is not None:
            changed = replace(changed, enrolments=tuple(sorted(programs, key=attrgetter("store", "starts"))))
        if percentages is not None:
            ordered = sorted(percentages, key=lambda one: (one.store or "", one.country or "", one.starts))
            changed = replace(changed, percentages=tuple(ordered))
        if changed != known:
            await rates.save(connection, project_id, changed)
    return changed


def _check_program(place: int, one: Enrolment) -> None:
    param = f"programs[{place}]"
    if one.store not in PROGRAM_STORES:
        raise Invalid(f"{one.program} is a program of {', '.join(PROGRAM_STORES)}.", param=f"{param}.store")
    if one.ends is not None and one.ends < one.starts:
        raise Invalid("A program does not end before it begins.", param=f"{param}.until")


def _check_percentages(place: int, one: Percentages) -> None:
    param = f"percentages[{place}]"
    if one.commission_rate is None and one.tax_rate is None:
        raise Invalid("Give commission_rate, tax_rate, or both.", param=param)
    for name, rate in (("commission_rate", one.commission_rate), ("tax_rate", one.tax_rate)):
        if rate is not None and not 0 <= rate <= _HIGHEST:
            raise Invalid(f"{name} is from 0 to 1: 0.15 for 15 %.", param=f"{param}.{name}")
    if one.country is not None and one.country not in COUNTRIES:
        raise Invalid("country is a code such as DE, with two letters.", param=f"{param}.country")
    if one.store is not None and (not one.store or len(one.store) > 100):
        raise Invalid(f"store is one of {', '.join(STORES)}, or the name of a store of your own.", param=param)


def _once(param: str, places: Sequence[object]) -> None:
    if len(set(places)) != len(places):
        raise Invalid("Two entries begin on the same day for the same store and country.", param=param)


# The European Central Bank's whole history since 1999 has 1.3 MB.
LARGEST = 16 * 1024 * 1024
TIMEOUT = 30.0
_ZIP = b"PK\x03\x04"


class SourceUnreadable(Refusal):
    """The file or address cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSource:
    """Where rates are read from."""

    allowed: Sequence[Network] = ()
    # PEM, trusted in addition to the public authorities.
    extra_ca: Path | None = None
    lookup: Lookup = system_lookup
    timeout: float = TIMEOUT

    async def read(self, source: str) -> str:
        """The text of a file, also where it is the only CSV file of a zip file."""
        return text_of(await (self._fetch(source) if is_address(source) else asyncio.to_thread(_read_file, source)))

    async def _fetch(self, url: str) -> bytes:
        resolver = Resolver(self.allowed, self.lookup)
        try:
            async with asyncio.timeout(self.timeout):
                where, _ = parsed(url)
                address = (await resolver.addresses(where))[0]
                client = HttpClient(
                    timeout=self.timeout,
                    connect_timeout=self.timeout,
                    extra_ca=self.extra_ca.read_bytes() if self.extra_ca is not None else None,
                    address=(where.host, str(address), where.port) if where.literal is None else None,
                    use_proxy=False,
                    user_agent="latchkey",
                    # A small answer cannot unpack into a huge one.
                    decompress=False,
                )
                async with client:
                    response = await client.ask("GET", url, most_bytes=LARGEST)
        except (NotAllowed, NameNotFound) as error:
            raise SourceUnreadable(f"{shown(url)}: {str(error).replace(url, 'it')}") from None
        except (HttpError, TimeoutError, OSError) as error:
            words = in_words(error, 0, round(self.timeout * 1000))
            raise SourceUnreadable(f"{shown(url)}: {words}.") from None
        finally:
            resolver.close()
        if response.status != 200:
            words = of_status(response.status, response.header("location"))
            raise SourceUnreadable(f"{shown(url)}: {words}.")
        if len(response.body) > LARGEST:
            raise SourceUnreadable(f"{shown(url)} has more than {LARGEST // 1024**2} MB.")
        return response.body


def is_address(source: str) -> bool:
    return "://" in source


def shown(source: str) -> str:
    """Without the query, which often holds a key."""
    if not is_address(source):
        return source
    try:
        parts = urlsplit(source)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "(an address that is not a URL)"


def text_of(body: bytes) -> str:
    if body.startswith(_ZIP):
        body = _unpacked(body)
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceUnreadable("The file of exchange rates is not UTF-8 text.") from None


def _unpacked(body: bytes) -> bytes:
    try:
        with zipfile.ZipFile(BytesIO(body)) as packed:
            names = [info.filename for info in packed.infolist() if info.filename.lower().endswith(".csv")]
            if len(names) != 1:
                raise SourceUnreadable(f"The zip file has {len(names)} CSV files; one is expected.")
            with packed.open(names[0]) as file:
                text = file.read(LARGEST + 1)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, OSError):
        raise SourceUnreadable("The zip file of exchange rates cannot be unpacked.") from None
    if len(text) > LARGEST:
        raise SourceUnreadable(f"The file of exchange rates has more than {LARGEST // 1024**2} MB.")
    return text


def _read_file(source: str) -> bytes:
    path = Path(source)
    try:
        path = path.expanduser()
        with path.open("rb") as file:
            body = file.read(LARGEST + 1)
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceUnreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(body) > LARGEST:
        raise SourceUnreadable(f"{path} has more than {LARGEST // 1024**2} MB.")
    return body


MOST_LISTED = 10_000
_SHOWN = 10


class RatesDiffer(Conflict):
    """The file gives another rate for a day that is known already. Nothing was taken."""


@dataclass(frozen=True, slots=True)
class RatesFileResult:
    source: str
    new: int
    replaced: int
    # Rates that are known with the same value.
    unchanged: int
    # Rates that are known with another value, which was kept.
    kept: int
    first_kept: str | None = None


@dataclass(frozen=True, slots=True)
class RatesState:
    currencies: tuple[rates.Coverage, ...]
    reading: rates.RatesReading


async def take(
    database: Database, text: str, source: str, now: Ms, *, replace: bool = False, keep_known: bool = False
) -> RatesFileResult:
    """Stores the rates of a file, all or none. A known rate never changes unasked: without `replace` a file with
    another value for it is refused, or with `keep_known` the rest of the file is taken.

    Payments that were seen already keep their rate in any case."""
    given = read_rates(text, now // DAY)
    async with database.transaction(statement_timeout_ms=120_000) as connection:
        version = await rates.lock(connection)
        known = await rates.known(connection, [one.rate for one in given])
        new = [one for one in given if (one.rate.currency, one.rate.day) not in known]
        differing = [one for one in given if known.get((one.rate.currency, one.rate.day), one.rate.usd) != one.rate.usd]
        if differing and not replace and not keep_known:
            raise RatesDiffer(_difference(differing, known))
        taken = [*new, *(differing if replace else ())]
        await rates.put(connection, [one.rate for one in taken], source, now, version)
    return RatesFileResult(
        source,
        len(new),
        len(differing) if replace else 0,
        len(given) - len(new) - len(differing),
        0 if replace else len(differing),
        None if replace or not differing else _in_words(differing[0], known),
    )


async def listed(database: Database, currency: str | None, until: Ms, limit: int = 100) -> list[rates.StoredRate]:
    """Newest day first."""
    return await rates.list_rates(database, currency, until // DAY + 1, min(limit, MOST_LISTED))


async def standing(database: Database) -> RatesState:
    async with database.acquire() as connection:
        return RatesState(tuple(await rates.coverage(connection)), await rates.reading(connection))


def _difference(differing: Sequence[Given], known: dict[tuple[str, int], str]) -> str:
    said = [_in_words(one, known) for one in differing[:_SHOWN]]
    if len(differing) > _SHOWN:
        said.append(f"and {len(differing) - _SHOWN:,} more")
    return f"No rate was taken: some are known with another value. {'; '.join(said)}. --replace takes the new values."


def _in_words(one: Given, known: dict[tuple[str, int], str]) -> str:
    currency, day, usd = one.rate
    return f"line {one.line}: {currency} on {date_of(day)} is {usd}, known is {known[currency, day]}"


EVERY: Ms = 6 * HOUR
# After a failure: a bank's server may be down for a moment, or the file half written.
AGAIN: Ms = 10 * MINUTE

log = structlog.get_logger()


async def run_rates(
    database: Database, source: RateSource, setting: str, now: Callable[[], Ms], stop: asyncio.Event
) -> None:
    """Runs until `stop` is set. Several may run at once: what another has taken changes nothing."""
    while not stop.is_set() and setting:
        wait = AGAIN
        try:
            if await read(database, source, setting, now()):
                wait = EVERY
        except Exception:
            # The database may be unreachable. Payments then have the rates that are known.
            log.exception("exchange rates failed")
        try:
            await asyncio.wait_for(stop.wait(), wait / 1000)
        except TimeoutError:
            continue


async def read(database: Database, source: RateSource, setting: str, now: Ms) -> bool:
    """Takes the rates of the setting once, and notes how it went. New days are taken also where the file gives another
    value for a known day: that value is not taken, and is reported."""
    name, taken, problem = shown(setting), None, None
    try:
        taken = await take(database, await source.read(setting), name, now, keep_known=True)
    except Refusal as refusal:
        problem = refusal.message
    if taken is not None and taken.kept:
        problem = (
            f"{taken.kept:,} rates differ from the known ones, which were kept ({taken.first_kept}). "
            "`latchkey rates import --replace` takes the new values."
        )
    await rates.save_reading(database, now, name, problem)
    if problem is not None:
        log.warning("exchange rates not taken", source=name, problem=problem)
    elif taken is not None and taken.new:
        log.info("exchange rates taken", source=name, new=taken.new)
    return taken is not None
