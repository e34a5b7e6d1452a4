"""The second factor: codes work once, wrong ones are limited, secrets are not readable in the database."""

import asyncio
import base64
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.domain.refusal import Refusal
from latchkey.subjects.accounts import storage
from latchkey.subjects.accounts.rules import CODE, HALF_LASTS, RECOVERY_CODES, STEP, Account
from latchkey.subjects.accounts.usecases import accounts, sessions
from latchkey.subjects.accounts.usecases.second_factor import SecondFactors, WrongCode
from latchkey.subjects.accounts.usecases.sessions import TooManyGuesses
from latchkey.subjects.api_keys.usecases import hash_of

NOW = 1_800_000_000_000
HERE = "192.0.2.1"


@dataclass
class Phone:
    """An authenticator app."""

    factors: SecondFactors
    account: Account
    secret: str
    recovery: list[str]

    def code(self, at: int = NOW) -> str:
        secret = base64.b32decode(self.secret.replace(" ", ""))
        return TOTP(secret, 6, SHA1(), 30).generate(at // 1000).decode()

    async def check(self, code: str, now: int = NOW, address: str = HERE, device: str | None = None) -> None:
        await self.factors.check(self.account.id, code, address, device, now)

    async def passes(self, code: str, now: int = NOW, address: str = HERE) -> bool:
        try:
            await self.check(code, now, address)
        except WrongCode:
            return False
        return True

    @property
    def wrong(self) -> str:
        right = {self.code(NOW + steps * STEP) for steps in range(-3, 4)}
        return next(code for code in ("000000", "111111", "222222", "333333", "444444") if code not in right)


@pytest.fixture
async def phone(database: Database) -> Phone:
    """With a second factor that was set up an hour ago."""
    account = await accounts.create_account(database, "ada@example.com", NOW)
    factors = SecondFactors(database, Sealer(bytes(32)))
    then = NOW - 3_600_000
    made = await factors.begin(account, then)
    phone = Phone(factors, account, made.secret, [])
    phone.recovery = await factors.confirm(account, phone.code(then), HERE, None, then, keep=b"")
    return phone


async def test_codes_are_those_of_the_standard(database: Database) -> None:
    account = await accounts.create_account(database, "ada@example.com", NOW)
    sealer = Sealer(bytes(32))
    secret = base64.b32encode(b"12345678901234567890").decode()
    async with database.transaction() as connection:
        sealed = sealer.seal(secret, f"{account.id}/second_factor")
        await storage.begin_second_factor(connection, account.id, sealed, 0)
        await storage.confirm_second_factor(connection, account.id, 1, 0, sealed)
    factors = SecondFactors(database, sealer)
    # RFC 6238, appendix B: the last six of its eight digits.
    for seconds, code in ((59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")):
        await factors.check(account.id, code, HERE, None, seconds * 1000)


async def test_a_code_works_once_and_earlier_ones_do_not_work_after_it(phone: Phone) -> None:
    before, now, after = (phone.code(NOW + steps * STEP) for steps in (-1, 0, 1))
    assert await phone.passes(now)
    assert not await phone.passes(now)
    assert not await phone.passes(before)
    assert await phone.passes(after)
    assert not await phone.passes(now, NOW + STEP)


async def test_of_many_attempts_at_once_with_one_code_one_succeeds(phone: Phone) -> None:
    for code in (phone.code(), phone.recovery[0]):
        passed = await asyncio.gather(*(phone.passes(code) for _ in range(5)))
        assert sum(passed) == 1


async def test_recovery_codes_work_once_each_and_never_after_new_ones(phone: Phone) -> None:
    assert len(set(phone.recovery)) == RECOVERY_CODES
    first, second, *_ = phone.recovery
    assert await phone.passes(first.upper())
    assert not await phone.passes(first)
    assert await phone.factors.codes_left(phone.account.id) == RECOVERY_CODES - 1
    new = await phone.factors.new_codes(phone.account.id)
    assert not set(new) & set(phone.recovery)
    assert not await phone.passes(second)
    assert await phone.passes(new[0])


async def test_wrong_codes_have_to_wait_however_many_addresses_they_come_from(phone: Phone) -> None:
    for number in range(CODE.free):
        assert not await phone.passes(phone.wrong, address=f"198.51.100.{number}")
    with pytest.raises(TooManyGuesses) as refused:
        await phone.check(phone.code(), address="203.0.113.1")
    assert refused.value.retry_after == CODE.first
    assert "codes" in refused.value.message
    # A known device of the owner is not slowed down by others.
    await phone.check(phone.code(), device="d" * 32)
    # A right code does not clear the failures of somebody else.
    with pytest.raises(TooManyGuesses):
        await phone.check(phone.recovery[0], address="203.0.113.1")
    await phone.check(phone.recovery[0], NOW + CODE.first, address="203.0.113.1")


async def test_many_guesses_at_once_are_not_all_let_through(phone: Phone) -> None:
    results = await asyncio.gather(*(phone.check(phone.wrong) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(one, WrongCode) for one in results) == CODE.free
    assert sum(isinstance(one, TooManyGuesses) for one in results) == 20 - CODE.free


async def test_nothing_is_asked_for_before_the_first_code_was_right(database: Database) -> None:
    account = await accounts.create_account(database, "ada@example.com", NOW)
    factors = SecondFactors(database, Sealer(bytes(32)))
    phone = Phone(factors, account, (await factors.begin(account, NOW)).secret, [])
    assert not await phone.passes(phone.code())
    with pytest.raises(WrongCode):
        await factors.confirm(account, phone.wrong, HERE, None, NOW, keep=b"")
    assert not (await accounts.load_account(database, account.id)).has_second_factor
    # Beginning again makes another secret, and the first one does not count any more.
    again = Phone(factors, account, (await factors.begin(account, NOW)).secret, [])
    with pytest.raises(WrongCode):
        await factors.confirm(account, phone.code(), HERE, None, NOW, keep=b"")
    # It must be confirmed soon.
    with pytest.raises(Refusal, match="Start again"):
        await factors.confirm(account, again.code(NOW + HALF_LASTS), HERE, None, NOW + HALF_LASTS, keep=b"")
    await factors.confirm(account, again.code(), HERE, None, NOW, keep=b"")
    assert (await accounts.load_account(database, account.id)).has_second_factor
    assert not await again.passes(again.code()), "the code that confirmed it was used"
    with pytest.raises(Refusal, match="already"):
        await factors.begin(account, NOW)


async def test_confirming_ends_every_other_session(database: Database) -> None:
    account = await accounts.create_account(database, "ada@example.com", NOW)
    mine, other = [await sessions.open_session(database, account.id, HERE, "", NOW) for _ in range(2)]
    factors = SecondFactors(database, Sealer(bytes(32)))
    phone = Phone(factors, account, (await factors.begin(account, NOW)).secret, [])
    await factors.confirm(account, phone.code(), HERE, None, NOW, keep=hash_of(mine))
    assert await sessions.find_session(database, mine, None, NOW) is not None
    assert await sessions.find_session(database, other, None, NOW) is None


async def test_neither_secret_nor_codes_are_readable_in_the_database(database: Database, phone: Phone) -> None:
    rows = [
        *await database.pool.fetch("select * from second_factors"),
        *await database.pool.fetch("select unnest(recovery_codes) from second_factors"),
    ]
    assert len(rows) == 1 + RECOVERY_CODES
    secret = phone.secret.replace(" ", "")
    codes = [code.replace("-", "").encode() for code in phone.recovery]
    for plain in (secret.encode(), base64.b32decode(secret), *codes):
        assert not any(plain in value for row in rows for value in row.values() if isinstance(value, bytes))
    # A secret that is copied to another account is not decrypted there.
    other = await accounts.create_account(database, "eve@example.com", NOW)
    await database.pool.execute("update second_factors set account_id = $1", other.id)
    with pytest.raises(Exception, match="cannot be decrypted"):
        await phone.factors.check(other.id, phone.code(), HERE, None, NOW)


async def test_a_half_sign_in_is_used_up_once_and_ends_by_itself(database: Database, phone: Phone) -> None:
    token = await phone.factors.begin_half(phone.account.id, NOW)
    assert await sessions.find_session(database, token, None, NOW) is None
    found = await phone.factors.waiting(token, NOW)
    assert found is not None
    assert found.id == phone.account.id
    assert await phone.factors.waiting(token, NOW + HALF_LASTS) is None

    async def finish() -> bool:
        try:
            await phone.factors.finish_half(token, phone.account.id, NOW)
        except WrongCode:
            return False
        return True

    assert sum(await asyncio.gather(*(finish() for _ in range(5)))) == 1
    # A new password ends those under way.
    token = await phone.factors.begin_half(phone.account.id, NOW)
    await accounts.set_password(database, phone.account.id, "correct horse battery", NOW)
    assert await phone.factors.waiting(token, NOW) is None
