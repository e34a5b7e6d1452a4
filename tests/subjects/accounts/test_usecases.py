"""Accounts, passwords, the limit on guesses, known devices and members of a project, against a real database."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from argon2 import PasswordHasher

from latchkey.database.pool import Database
from latchkey.domain.refusal import Conflict, Invalid, NotFound, Refusal
from latchkey.subjects.accounts.rules import ACCOUNT, ADDRESS, DEVICE, INVITATION_LASTS, PAIR, Role
from latchkey.subjects.accounts.usecases import accounts, sessions, team
from latchkey.subjects.accounts.usecases.accounts import KNOWN_FOR, MOST_ACCOUNTS, Devices
from latchkey.subjects.accounts.usecases.sessions import TooManyGuesses, WrongCredentials
from latchkey.subjects.api_keys.usecases import hash_of
from latchkey.subjects.projects import usecases as projects
from tests.patience import until

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
    kept = await database.pool.fetchval("select password_hash from accounts")
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert PASSWORD not in kept
    assert await accounts.has_password(database, "ann@example.com", PASSWORD)
    assert not await accounts.has_password(database, "ann@example.com", PASSWORD + " ")
    assert not await accounts.has_password(database, "bob@example.com", PASSWORD)


async def test_who_has_no_password_does_not_get_in_with_an_empty_one(database: Database) -> None:
    await accounts.create_account(database, "ann@example.com", NOW)
    assert await guess(database, "") == "WrongCredentials"
    assert await guess(database, "p" * 1_000_000) == "WrongCredentials"


async def test_nobody_can_keep_the_owner_out_of_a_known_device(database: Database) -> None:
    """However many wrong guesses there are, even from the owner's own address."""
    await accounts.create_account(database, "ann@example.com", NOW, password=PASSWORD)
    await database.pool.execute(
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
    await database.pool.execute(
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
    kept = await database.pool.fetch("select i::text from account_tokens i union all select s::text from sessions s")
    assert len(kept) == 2
    assert not any(token in row[0] or token.encode().hex() in row[0] for token in tokens for row in kept)


@pytest.fixture
async def project(database: Database) -> str:
    return (await projects.create_project(database, "Mine", NOW)).id


async def join(database: Database, project_id: str, name: str, role: Role = Role.OWNER) -> str:
    account, _ = await team.add_member(database, project_id, f"{name}@example.com", role, NOW)
    return account.id


async def roles(database: Database, project_id: str) -> dict[str, Role]:
    return {member.account.email.partition("@")[0]: member.role for member in await team.members(database, project_id)}


async def test_two_owners_who_leave_at_once_do_not_leave_nobody(database: Database, project: str) -> None:
    for turn in range(5):
        ann, bob = await join(database, project, f"ann{turn}"), await join(database, project, f"bob{turn}")
        for member in await team.members(database, project):
            if member.account.id not in (ann, bob):
                await team.remove_member(database, project, member.account.id)
        left = await asyncio.gather(
            team.remove_member(database, project, ann),
            team.set_role(database, project, bob, Role.VIEWER, NOW),
            return_exceptions=True,
        )
        assert [type(one) for one in left if one is not None] == [Refusal]
        assert list((await roles(database, project)).values()).count(Role.OWNER) == 1


async def test_who_is_not_there_cannot_be_changed(database: Database, project: str) -> None:
    await join(database, project, "ann")
    other = (await projects.create_project(database, "Other", NOW)).id
    bob = await join(database, other, "bob")
    with pytest.raises(NotFound):
        await team.remove_member(database, project, bob)
    with pytest.raises(NotFound):
        await team.set_role(database, project, bob, Role.OWNER, NOW)
    assert await roles(database, project) == {"ann": Role.OWNER}
    assert await roles(database, other) == {"bob": Role.OWNER}


async def test_a_new_link_is_no_way_into_a_project_of_others(database: Database, project: str) -> None:
    other = (await projects.create_project(database, "Other", NOW)).id
    ann, bob = await join(database, project, "ann"), await join(database, project, "bob", Role.VIEWER)
    account, token = await team.new_link(database, project, bob, ann, NOW)
    assert account.email == "bob@example.com"
    assert await accounts.invited(database, token, NOW) == account
    # Bob joins another project: Ann's link would open that one, too.
    await join(database, other, "bob", Role.OWNER)
    with pytest.raises(Refusal, match="that you do not own"):
        await team.new_link(database, project, bob, ann, NOW)
    await team.add_member(database, other, "ann@example.com", Role.DEVELOPER, NOW)
    with pytest.raises(Refusal, match="that you do not own"):
        await team.new_link(database, project, bob, ann, NOW)
    await team.set_role(database, other, ann, Role.OWNER, NOW)
    await team.new_link(database, project, bob, ann, NOW)
    carl = await join(database, other, "carl", Role.VIEWER)
    with pytest.raises(NotFound):
        await team.new_link(database, project, carl, ann, NOW)


@pytest.mark.parametrize("role", [None, Role.VIEWER], ids=["removed", "no owner any more"])
async def test_a_link_is_of_no_use_to_somebody_who_was_an_owner(
    database: Database, project: str, role: Role | None
) -> None:
    ann, bob = await join(database, project, "ann"), await join(database, project, "bob", Role.VIEWER)
    await join(database, project, "carl")
    _, token = await team.new_link(database, project, bob, ann, NOW)
    if role is None:
        await team.remove_member(database, project, ann)
    else:
        await team.set_role(database, project, ann, role, NOW)
    assert await accounts.invited(database, token, NOW) is None


async def chosen_by_ann(database: Database, project: str) -> tuple[str, str, str]:
    """Ann and Bob, whose password was chosen by a link that Ann was shown, and a session."""
    ann, bob = await join(database, project, "ann"), await join(database, project, "bob", Role.VIEWER)
    _, token = await team.new_link(database, project, bob, ann, NOW)
    await accounts.accept_invitation(database, token, PASSWORD, NOW)
    return ann, bob, await sessions.open_session(database, bob, "192.0.2.1", "", NOW)


Attempt = Callable[[Database, str, str, str, str], Coroutine[Any, Any, Any]]
ATTEMPTS: dict[str, Attempt] = {
    "a link": lambda database, project, ann, bob, _: team.new_link(database, project, bob, ann, NOW),
    "another password": lambda database, _, __, bob, session: accounts.set_password(
        database, bob, PASSWORD, NOW, keep=hash_of(session)
    ),
    "a sign-in": lambda database, _, __, bob, ___: sessions.open_session(
        database, bob, "192.0.2.1", "", NOW, by_password=True
    ),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("becomes", ["a member", "an operator"])
async def test_what_is_under_way_while_somebody_joins_others_is_no_way_in(
    database: Database, project: str, monkeypatch: pytest.MonkeyPatch, attempt: str, becomes: str
) -> None:
    ann, bob, session = await chosen_by_ann(database, project)
    other, account = (
        (await projects.create_project(database, "Other", NOW)).id,
        await accounts.load_account(database, bob),
    )
    begun: list[asyncio.Task[Any]] = []
    shut_out = team._shut_out_others

    async def begin_before_the_end(*arguments: Any) -> None:
        await shut_out(*arguments)
        begun.append(asyncio.create_task(ATTEMPTS[attempt](database, project, ann, bob, session)))
        await until(is_done_or_waits)

    async def is_done_or_waits() -> bool:
        waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        return begun[0].done() or await database.pool.fetchval(waits)

    monkeypatch.setattr(team, "_shut_out_others", begin_before_the_end)
    if becomes == "a member":
        await team.add_member(database, other, account.email, Role.OWNER, NOW)
    else:
        await team.set_operator(database, account, NOW)
    await asyncio.gather(*begun, return_exceptions=True)
    assert not (await accounts.load_account(database, bob)).has_password
    assert await database.pool.fetchval("select count(*) from account_tokens") == 0
    assert await sessions.stays(database, bob) == []


async def test_an_earlier_link_that_is_used_while_somebody_joins_others_is_no_way_in(
    database: Database, project: str
) -> None:
    for turn in range(5):
        ann, bob = await join(database, project, f"ann{turn}"), await join(database, project, f"bob{turn}", Role.VIEWER)
        other = (await projects.create_project(database, "Other", NOW)).id
        _, token = await team.new_link(database, project, bob, ann, NOW)
        used, joined = await asyncio.gather(
            accounts.accept_invitation(database, token, PASSWORD, NOW),
            team.add_member(database, other, f"bob{turn}@example.com", Role.OWNER, NOW),
            return_exceptions=True,
        )
        assert not isinstance(joined, BaseException)
        assert isinstance(used, Invalid) or not isinstance(used, BaseException)
        assert not (await accounts.load_account(database, bob)).has_password


DEVICES = Devices(b"k" * 32)


def test_a_device_is_known_to_whom_signed_in_with_it_and_to_nobody_else() -> None:
    cookie = DEVICES.remember("", "acc_ann", NOW)
    device = DEVICES.known(cookie, "acc_ann", NOW + 1)
    assert device
    assert device == DEVICES.known(DEVICES.remember(cookie, "acc_bob", NOW), "acc_bob", NOW)
    assert DEVICES.known(cookie, "acc_bob", NOW + 1) is None


def test_it_is_forgotten_after_half_a_year_and_renewed_by_signing_in() -> None:
    cookie = DEVICES.remember("", "acc_ann", NOW)
    assert DEVICES.known(cookie, "acc_ann", NOW + KNOWN_FOR - 1)
    assert DEVICES.known(cookie, "acc_ann", NOW + KNOWN_FOR) is None
    renewed = DEVICES.remember(cookie, "acc_ann", NOW + KNOWN_FOR)
    assert DEVICES.known(renewed, "acc_ann", NOW + KNOWN_FOR) == DEVICES.known(cookie, "acc_ann", NOW)
    assert len(renewed) == len(cookie)


def test_several_people_may_share_a_browser_and_the_newest_stay_known() -> None:
    cookie = ""
    for number in range(MOST_ACCOUNTS + 1):
        cookie = DEVICES.remember(cookie, f"acc_{number}", NOW + number)
    known = [DEVICES.known(cookie, f"acc_{number}", NOW + 100) is not None for number in range(MOST_ACCOUNTS + 1)]
    assert known == [False] + [True] * MOST_ACCOUNTS


def test_two_browsers_are_two_devices() -> None:
    assert DEVICES.remember("", "acc_ann", NOW) != DEVICES.remember("", "acc_ann", NOW)


@pytest.mark.parametrize(
    "broken",
    [
        "", ".", "x", "a" * 32, "a" * 32 + ".1-" + "0" * 64, "a" * 100_000, "é" * 32, "٣" * 32,
        "a" * 32 + (".1-" + "0" * 64) * 100,
    ],
)  # fmt: skip
def test_what_we_did_not_sign_proves_nothing_and_does_no_harm(broken: str) -> None:
    assert DEVICES.known(broken, "acc_ann", NOW) is None
    assert DEVICES.known(DEVICES.remember(broken, "acc_ann", NOW), "acc_ann", NOW)


def test_every_part_of_the_cookie_is_signed() -> None:
    cookie = DEVICES.remember("", "acc_ann", NOW)
    for place, letter in enumerate(cookie):
        changed = cookie[:place] + ("1" if letter != "1" else "2") + cookie[place + 1 :]
        assert DEVICES.known(changed, "acc_ann", NOW + KNOWN_FOR // 2) is None
    assert Devices(b"x" * 32).known(cookie, "acc_ann", NOW) is None
