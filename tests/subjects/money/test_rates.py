"""Exchange rates in the database: taken whole or not at all, never changed unasked, and loaded by version."""

import io
import zipfile
from pathlib import Path

import pytest

from latchkey.database.pool import Database
from latchkey.domain.money.exchange_rates import RatesRefused, date_of
from latchkey.engine.storage.catalog import rates as stored
from latchkey.subjects.money.usecases import (
    LARGEST,
    RatesDiffer,
    RatesFileResult,
    RateSource,
    SourceUnreadable,
    listed,
    read,
    shown,
    standing,
    take,
)

NOW = 1_794_700_000_000  # 2026-11-14
FIRST = "date,currency,usd\n2026-11-12,EUR,1.08\n2026-11-13,EUR,1.0834\n2026-11-13,JPY,0.00647\n"


async def known(database: Database) -> dict[tuple[str, str], str]:
    found = await listed(database, None, NOW, 1000)
    return {(one.rate.currency, date_of(one.rate.day)): one.rate.usd for one in found}


async def test_a_file_is_taken_and_taken_again_without_a_change(database: Database) -> None:
    assert await take(database, FIRST, "rates.csv", NOW) == RatesFileResult("rates.csv", 3, 0, 0, 0)
    assert await take(database, FIRST, "other.csv", NOW) == RatesFileResult("other.csv", 0, 0, 3, 0)
    assert await known(database) == {
        ("EUR", "2026-11-12"): "1.08",
        ("EUR", "2026-11-13"): "1.0834",
        ("JPY", "2026-11-13"): "0.00647",
    }
    eur, jpy = (await standing(database)).currencies
    assert (eur.currency, eur.rates, date_of(eur.last)) == ("EUR", 2, "2026-11-13")
    assert jpy.rates == 1


async def test_a_bad_line_takes_nothing(database: Database) -> None:
    with pytest.raises(RatesRefused, match="line 5"):
        await take(database, FIRST + "2026-11-13,GBP,none\n", "rates.csv", NOW)
    assert await known(database) == {}


async def test_another_value_for_a_known_day_is_refused_unless_it_shall_be_replaced(database: Database) -> None:
    await take(database, FIRST, "rates.csv", NOW)
    other = "date,currency,usd\n2026-11-13,EUR,1.09\n2026-11-14,EUR,1.1\n"
    with pytest.raises(RatesDiffer, match=r"line 2: EUR on 2026-11-13 is 1.09, known is 1.0834.*--replace"):
        await take(database, other, "rates.csv", NOW)
    assert ("EUR", "2026-11-14") not in await known(database)
    assert await take(database, other, "rates.csv", NOW, replace=True) == RatesFileResult("rates.csv", 1, 1, 0, 0)
    assert (await known(database))["EUR", "2026-11-13"] == "1.09"


async def test_the_setting_is_read_with_its_outcome_and_known_days_are_kept(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    source = RateSource()
    assert not await read(database, source, str(file), NOW)
    assert "cannot be read" in ((await standing(database)).reading.problem or "")
    file.write_text(FIRST)
    assert await read(database, source, str(file), NOW)
    assert (await standing(database)).reading == stored.RatesReading(NOW, str(file), None)
    file.write_text("date,currency,usd\n2026-11-13,EUR,1.09\n2026-11-14,EUR,1.1\n")
    assert await read(database, source, str(file), NOW + 1)
    assert "known is 1.0834" in ((await standing(database)).reading.problem or "")
    assert (await known(database))["EUR", "2026-11-13"] == "1.0834"
    assert (await known(database))["EUR", "2026-11-14"] == "1.1"


async def test_a_zip_file_of_one_csv_file_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "rates.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("eurofxref.csv", FIRST)
    assert await RateSource().read(str(file)) == FIRST
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("huge.csv", b"0" * (LARGEST + 1))
    with pytest.raises(SourceUnreadable, match="more than 16 MB"):
        await RateSource().read(str(file))
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("a.csv", "")
        packed.writestr("b.csv", "")
    with pytest.raises(SourceUnreadable, match="2 CSV files"):
        await RateSource().read(str(file))
    file.write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(SourceUnreadable, match="cannot be unpacked"):
        await RateSource().read(str(file))
    assert io.BytesIO(file.read_bytes()).read(2) == b"PK"


async def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_bytes(b"x" * (LARGEST + 1))
    with pytest.raises(SourceUnreadable, match="more than 16 MB"):
        await RateSource().read(str(file))
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceUnreadable, match="not UTF-8"):
        await RateSource().read(str(file))


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert (
        shown("https://me:secret@rates.example.com:8443/latest?app_id=secret")
        == "https://rates.example.com:8443/latest"
    )
