"""Operators: accounts that may see what concerns the whole deployment. Members of a project: there is always an owner.

Only the command line makes somebody an operator: whoever can run it has the database's password already. An owner of a
project cannot, because other projects are not theirs.
"""

from latchkey.database.pool import Connection, Database, Executor
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal, found
from latchkey.engine.storage.catalog.app_rows import Project
from latchkey.subjects.accounts import storage
from latchkey.subjects.accounts.rules import Account, Role
from latchkey.subjects.accounts.usecases import second_factor
from latchkey.subjects.accounts.usecases.accounts import add_invitation, create_account, find_account, load_account
from latchkey.subjects.projects.usecases import create_project, load_project

NO_MEMBER = "There is no such member in this project."


async def set_operator(database: Database, account: Account, since: Ms | None) -> Account:
    """None: it is no operator any more. When it becomes one, an owner of a project loses what ways into it they had."""
    async with database.transaction() as connection:
        await storage.set_operator(connection, account.id, since)
        if since is not None:
            await _shut_out_others(connection, account.id, None, since)
    return await load_account(database, account.id)


async def is_operator(database: Executor, account_id: str) -> bool:
    account = await storage.find_account(database, id=account_id)
    return account is not None and account.is_operator


# What needs no more than one statement.
addresses, members, places = storage.operator_addresses, storage.members, storage.places


async def create_beside(database: Database, project_id: str, name: str, now: Ms) -> Project:
    """A new project with the owners of an existing one."""
    made = await create_project(database, name, now)
    async with database.transaction() as connection:
        for member in await storage.members(connection, project_id):
            if member.role is Role.OWNER:
                await storage.put_member(connection, member.account.id, made.id, Role.OWNER, now)
    return made


async def add_member(
    database: Database, project_id: str, email: str, role: Role, now: Ms, *, name: str = "", by: str | None = None
) -> tuple[Account, bool]:
    """Adds a member for the owner `by`, or for the command line. Creates the account if there is none; the result says
    whether it did. An owner of another project loses what ways into the account they had."""
    await load_project(database, project_id)
    account = await find_account(database, email)
    made = account is None
    if account is None:
        account = await create_account(database, email, now, name=name)
    async with database.transaction() as connection:
        await storage.lock_account(connection, account.id, None)
        if await storage.role_of(connection, account.id, project_id) is not None:
            raise Refusal(f"{account.email} belongs to this project already.", param="email")
        await storage.put_member(connection, account.id, project_id, role, now)
        await _shut_out_others(connection, account.id, by, now)
    return await load_account(database, account.id), made


async def _shut_out_others(connection: Connection, account_id: str, by: str | None, now: Ms) -> None:
    """Links do not work any more, nor what somebody else than `by` may have chosen by a link that they were shown."""
    if await storage.forget_shown_password(connection, account_id, by):
        await storage.remove_second_factor(connection, account_id)
        await storage.end_sessions_of(connection, account_id)
    await storage.forget_tokens(connection, account_id, now)


async def set_role(database: Database, project_id: str, account_id: str, role: Role, now: Ms) -> None:
    async with database.transaction() as connection:
        await _require_other_owner(connection, project_id, account_id, unless=role is Role.OWNER)
        found(await storage.role_of(connection, account_id, project_id), NO_MEMBER, "account_id")
        await storage.put_member(connection, account_id, project_id, role, now)
        if role is not Role.OWNER:
            await storage.forget_shown_links(connection, account_id, project_id)


async def remove_member(database: Database, project_id: str, account_id: str) -> None:
    async with database.transaction() as connection:
        await _require_other_owner(connection, project_id, account_id)
        found(await storage.remove_member(connection, account_id, project_id), NO_MEMBER, "account_id")
        await storage.forget_shown_links(connection, account_id, project_id)


async def new_link(database: Database, project_id: str, account_id: str, by: str, now: Ms) -> tuple[Account, str]:
    """A link with which a member chooses a new password, for the owner `by`."""
    async with database.transaction() as connection:
        await _require_owner_everywhere(connection, project_id, account_id, by, "a link", "make one", "user invite")
        return await load_account(connection, account_id), await add_invitation(connection, account_id, now, by)


async def reset_second_factor(database: Database, project_id: str, account_id: str, by: str) -> None:
    """No code is asked of the member any more; the owner `by` wants it."""
    does = "their password alone", "do it", "user reset-second-factor"
    async with database.transaction() as connection:
        await _require_owner_everywhere(connection, project_id, account_id, by, *does)
        await second_factor.remove(connection, account_id)


async def _require_owner_everywhere(
    connection: Connection, project_id: str, account_id: str, by: str, opens: str, does: str, command: str
) -> None:
    """What weakens the way into an account gives access to all of its projects. So `by` must own every project the
    member belongs to, and be an operator if the member is one: otherwise owning one project would give access to the
    others. Locks the account: nobody adds it to another project meanwhile."""
    await storage.lock_account(connection, account_id, None)
    going = await places(connection, account_id)
    found(any(place.project_id == project_id for place in going), NO_MEMBER, "account_id")
    owned = {place.project_id for place in await places(connection, by) if place.role is Role.OWNER}
    if await is_operator(connection, account_id) and not await is_operator(connection, by):
        raise Refusal(
            f"They are an operator of the whole deployment, and with {opens} you could be one too. Whoever runs "
            f"Latchkey can {does} with `latchkey {command}`."
        )
    if not all(place.project_id in owned for place in going):
        raise Refusal(
            f"They belong to a project that you do not own, and {opens} would open that one too. Whoever runs Latchkey "
            f"can {does} with `latchkey {command}`."
        )


async def _require_other_owner(
    connection: Connection, project_id: str, account_id: str, *, unless: bool = False
) -> None:
    owners = await storage.lock_owners(connection, project_id)
    if not unless and owners == [account_id]:
        raise Refusal("A project needs an owner. Make another member an owner first.")
