"""Who belongs to a project, and as what. There is always an owner."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.account import Role
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.storage.database import Connection, Database
from latchkey.storage.sql import query
from latchkey.usecases.accounts import Account, create_account, find_account, invite, load_account
from latchkey.usecases.projects import load_project

PUT_MEMBER = query("put_member")
REMOVE_MEMBER = query("remove_member")
LOCK_OWNERS = query("lock_owners")
ROLE_OF = query("role_of")
PROJECTS_OF_ACCOUNT = query("projects_of_account")
MEMBERS_OF_PROJECT = query("members_of_project")


@dataclass(frozen=True, slots=True)
class Member:
    account: Account
    role: Role
    since: Ms
    last_seen_at: Ms | None


@dataclass(frozen=True, slots=True)
class Place:
    """A project an account may go to."""

    project_id: str
    name: str
    role: Role


async def members(database: Database, project_id: str) -> list[Member]:
    async with database.acquire() as connection:
        rows = await connection.fetch(MEMBERS_OF_PROJECT, project_id)
    return [Member(Account(*account), Role(role), since, seen) for *account, role, since, seen in rows]


async def places(database: Database, account_id: str) -> list[Place]:
    async with database.acquire() as connection:
        rows = await connection.fetch(PROJECTS_OF_ACCOUNT, account_id)
    return [Place(project_id, name, Role(role)) for project_id, name, role in rows]


async def add_member(
    database: Database, project_id: str, email: str, role: Role, now: Ms, *, name: str = ""
) -> tuple[Account, bool]:
    """Somebody joins the project; their account is made if they have none, and whether it was is said."""
    await load_project(database, project_id)
    account = await find_account(database, email)
    made = account is None
    if account is None:
        account = await create_account(database, email, now, name=name)
    async with database.transaction() as connection:
        if await connection.fetchval(ROLE_OF, account.id, project_id) is not None:
            raise Refusal(f"{account.email} belongs to this project already.", param="email")
        await connection.execute(PUT_MEMBER, account.id, project_id, role, now)
    return account, made


async def set_role(database: Database, project_id: str, account_id: str, role: Role, now: Ms) -> None:
    async with database.transaction() as connection:
        await _require_other_owner(connection, project_id, account_id, unless=role is Role.OWNER)
        if await connection.fetchval(ROLE_OF, account_id, project_id) is None:
            raise NotFound("There is no such member in this project.", param="account_id")
        await connection.execute(PUT_MEMBER, account_id, project_id, role, now)


async def remove_member(database: Database, project_id: str, account_id: str) -> None:
    async with database.transaction() as connection:
        await _require_other_owner(connection, project_id, account_id)
        if await connection.execute(REMOVE_MEMBER, account_id, project_id) == "DELETE 0":
            raise NotFound("There is no such member in this project.", param="account_id")


async def new_link(database: Database, project_id: str, account_id: str, by: str, now: Ms) -> tuple[Account, str]:
    """A link with which a member chooses a new password, for the owner `by`.

    Whoever holds it gets wherever the member gets, so `by` must own every project the member belongs to: owning one
    must not be a way into the others."""
    going = await places(database, account_id)
    if not any(place.project_id == project_id for place in going):
        raise NotFound("There is no such member in this project.", param="account_id")
    owned = {place.project_id for place in await places(database, by) if place.role is Role.OWNER}
    if not all(place.project_id in owned for place in going):
        raise Refusal(
            "They belong to a project that you do not own, and a link would open that one too. Whoever runs Latchkey "
            "can make one with `latchkey user invite`."
        )
    return await load_account(database, account_id), await invite(database, account_id, now)


async def _require_other_owner(
    connection: Connection, project_id: str, account_id: str, *, unless: bool = False
) -> None:
    owners = [row[0] for row in await connection.fetch(LOCK_OWNERS, project_id)]
    if not unless and owners == [account_id]:
        raise Refusal("A project needs an owner. Make somebody else an owner first.")
