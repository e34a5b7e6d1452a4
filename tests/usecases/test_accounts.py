"""Accounts, passwords, links to choose one, and the limit on guesses, against a real database."""

from __future__ import annotations

import asyncio

import pytest
from argon2 import PasswordHasher

from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.domain.team.account import INVITATION_LASTS
from latchkey.domain.team.guessing import ACCOUNT, ADDRESS, DEVICE, PAIR
from latchkey.storage.database import Database
from latchkey.usecases.access import accounts, sessions
from latchkey.usecases.access.sessions import TooManyGuesses, WrongCredentials

NOW = 1_800_000_000_000
PASSWORD = "correct horse battery"


async def guess(
    database: Database,
    password: str = "wrong wrong wrong",
    *,
    email: str = "ann@example.com",
    address: str = "192.0.2.1",
    now: int = NOW,
    device: str | None = None,
) -> str:
    """Try to sign in; gives "in", or the name of the refusal."""
    try:
        await sessions.sign_in(database, email, password, address, now, lambda _: device)
    except (WrongCredentials, TooManyGuesses) as refusal:
        return type(refusal).__name__
    return "in"


async def test_one_address_has_one_account(database: Database) -> None:
    made = await accounts.create_account(database, "Ann@Example.com", NOW, name="Ann")
    assert (made.email, made.shown, made.has_password) == ("ann@example.com", "Ann", False)
    assert await accounts.find_account(database, "ANN@example.com") == made
    with pytest.raises(Conflict, match="already an account"):
        await accounts.create_account(database, "ann@example.COM", NOW)
    with pytest.raises(NotFound):
        await accounts.load_account(database, "acc_nobody")


async def test_only_a_hash_of_a_password_is_kept(
    database: Database, real_passwords: PasswordHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_hasher", real_passwords)
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    async with database.acquire() as connection:
        kept = await connection.fetchval("select password_hash from accounts")
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert PASSWORD not in kept
    assert await accounts.has_password(database, "ann@example.com", PASSWORD)
    assert not await accounts.has_password(database, "ann@example.com", PASSWORD + " ")
    assert not await accounts.has_password(database, "bob@example.com", PASSWORD)


async def test_who_has_no_password_does_not_get_in_with_an_empty_one(database: Database) -> None:
    await accounts.create_account(database, "ann@example.com", NOW)
    assert await guess(database, "") == "WrongCredentials"
    assert await guess(database, "p" * 1_000_000) == "WrongCredentials"


async def test_after_ten_wrong_guesses_from_one_address_each_next_one_waits_longer(database: Database) -> None:
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    for _ in range(PAIR.free):
        assert await guess(database) == "WrongCredentials"
    # The right password is refused too: otherwise the answer would reveal that it is right.
    with pytest.raises(TooManyGuesses, match=r"Too many wrong passwords\. Try again in 3 seconds\.") as refused:
        await sessions.sign_in(database, "ann@example.com", PASSWORD, "192.0.2.1", NOW + 1_000)
    assert refused.value.retry_after == PAIR.first - 1_000
    # Trying does not prolong the wait, and only this address has to wait.
    assert await guess(database, PASSWORD, now=NOW + PAIR.first - 1) == "TooManyGuesses"
    assert await guess(database, PASSWORD, address="192.0.2.2") == "in"
    assert await guess(database, now=NOW + PAIR.first) == "WrongCredentials"
    assert await guess(database, PASSWORD, now=NOW + 3 * PAIR.first - 1) == "TooManyGuesses"
    assert await guess(database, PASSWORD, now=NOW + 3 * PAIR.first) == "in"
    assert await guess(database, now=NOW + 3 * PAIR.first) == "WrongCredentials"


async def test_nobody_can_keep_the_owner_out_of_a_known_device(database: Database) -> None:
    """However many wrong guesses there are, even from the owner's own address."""
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    async with database.acquire() as connection:
        await connection.execute(
            "insert into failed_sign_ins (subject, at) select unnest($1::text[]), $2 from generate_series(1, 200)",
            ["account ann@example.com", "account ann@example.com from 192.0.2.1", "address 192.0.2.1"], NOW,
        )  # fmt: skip
    assert await guess(database, PASSWORD) == "TooManyGuesses"
    assert await guess(database, PASSWORD, device="laptop") == "in"
    # Its own wrong passwords slow down this device alone, for a minute at most.
    for _ in range(DEVICE.free):
        assert await guess(database, device="laptop") == "WrongCredentials"
    assert await guess(database, PASSWORD, device="laptop") == "TooManyGuesses"
    assert await guess(database, PASSWORD, device="phone") == "in"
    assert await guess(database, PASSWORD, device="laptop", now=NOW + DEVICE.longest) == "in"


async def test_who_has_many_addresses_is_slowed_down_by_the_account(database: Database) -> None:
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    for number in range(ACCOUNT.free):
        assert await guess(database, address=f"192.0.2.{number}") == "WrongCredentials"
    assert await guess(database, address="198.51.100.1") == "TooManyGuesses"
    # Nobody is locked out for longer than this.
    assert await guess(database, PASSWORD, now=NOW + ACCOUNT.longest) == "in"


async def test_getting_it_right_forgets_what_went_wrong(database: Database) -> None:
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    for _ in range(2):
        for _ in range(PAIR.free - 1):
            assert await guess(database) == "WrongCredentials"
        assert await guess(database, PASSWORD) == "in"


async def test_one_address_cannot_try_many_accounts(database: Database) -> None:
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    async with database.acquire() as connection:
        await connection.execute(
            "insert into failed_sign_ins (subject, at) select 'address 192.0.2.1', $1 from generate_series(1, $2)",
            NOW, ADDRESS.free - 1,
        )  # fmt: skip
    # Successful sign-ins are not counted: many people may share one address.
    assert await guess(database, PASSWORD) == "in"
    assert await guess(database, PASSWORD, email="bob@example.com") == "WrongCredentials"
    assert await guess(database, PASSWORD) == "TooManyGuesses"
    assert await guess(database, PASSWORD, address="192.0.2.2") == "in"
    assert await guess(database, PASSWORD, device="laptop") == "in"


@pytest.mark.parametrize(("device", "allowed"), [(None, PAIR.free), ("laptop", DEVICE.free)])
async def test_many_guesses_at_once_are_not_all_let_through(
    database: Database, device: str | None, allowed: int
) -> None:
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    outcomes = await asyncio.gather(*(guess(database, device=device) for _ in range(3 * allowed)))
    assert outcomes.count("WrongCredentials") == allowed


async def test_a_link_is_too_old_after_a_week_and_is_replaced_by_a_newer_one(database: Database) -> None:
    account = await accounts.create_account(database, "ann@example.com", NOW)
    first = await accounts.invite(database, account.id, NOW)
    assert await accounts.invited(database, first, NOW + INVITATION_LASTS - 1) is not None
    assert await accounts.invited(database, first, NOW + INVITATION_LASTS) is None
    with pytest.raises(Invalid, match="too old"):
        await accounts.accept_invitation(database, first, PASSWORD, NOW + INVITATION_LASTS)
    second = await accounts.invite(database, account.id, NOW)
    assert await accounts.invited(database, first, NOW) is None
    # Setting a password in another way invalidates the link too.
    await accounts.set_password(database, account.id, PASSWORD, NOW)
    assert await accounts.invited(database, second, NOW) is None


async def test_no_token_is_in_the_database(database: Database) -> None:
    account = await accounts.create_account(database, "ann@example.com", NOW)
    tokens = [
        await accounts.invite(database, account.id, NOW),
        await sessions.open_session(database, account.id, "192.0.2.1", "x\x00y" * 500, NOW),
    ]
    async with database.acquire() as connection:
        kept = await connection.fetch("select i::text from account_tokens i union all select s::text from sessions s")
    assert len(kept) == 2
    assert not any(token in row[0] or token.encode().hex() in row[0] for token in tokens for row in kept)
