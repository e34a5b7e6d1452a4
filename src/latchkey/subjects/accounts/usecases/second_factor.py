"""The second factor of an account: codes of an authenticator app (TOTP), and recovery codes.

The app's secret is encrypted in the database; of recovery codes only hashes are stored. Every code works once. Wrong
ones are limited by account, however many sessions and addresses they come from.
"""

import base64
import hmac
import os
import secrets
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.hotp import HOTP

from latchkey.database.pool import Connection, Database, Executor
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal
from latchkey.subjects.accounts import rules, storage
from latchkey.subjects.accounts.usecases.sessions import guess
from latchkey.subjects.api_keys.usecases import hash_of

WRONG = "That code is not right, or was used already. Wait for the next one."


class WrongCode(Refusal):
    """A code that is wrong, was used already, or is too old. The message does not say which."""


@dataclass(frozen=True, slots=True)
class SetUp:
    """What somebody needs to set up their app. Shown only while it is not confirmed."""

    # In groups of four.
    secret: str = field(repr=False)
    # For the QR code.
    address: str = field(repr=False)


class SecondFactors:
    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer

    async def begin(self, account: rules.Account, now: Ms) -> SetUp:
        """A new secret. It is asked for only after `confirm`."""
        secret = base64.b32encode(os.urandom(rules.SECRET_BYTES)).decode()
        sealed = self._sealer.seal(secret, _name(account.id))
        if not await storage.begin_second_factor(self._database, account.id, sealed, now):
            raise Refusal("This account has a second factor already. Remove it first.")
        return _set_up(secret, account)

    async def under_way(self, account: rules.Account, now: Ms) -> SetUp | None:
        """The set-up that was begun a short time ago and not confirmed."""
        found = await storage.load_second_factor(self._database, account.id)
        if found is None or found.confirmed_at is not None or found.created_at + rules.HALF_LASTS <= now:
            return None
        return _set_up(self._sealer.unseal(found.secret_sealed, _name(account.id)), account)

    async def confirm(
        self, account: rules.Account, text: str, address: str, device: str | None, now: Ms, *, keep: bytes
    ) -> list[str]:
        """Asks for codes from now on, if this is one. Ends all other sessions, which were opened without. Returns the
        recovery codes, which cannot be shown again."""
        codes, hashes = _new_codes()
        limits = rules.code_limits(account.id, address, device)
        async with guess(self._database, limits, now, "codes"), self._database.transaction() as connection:
            found = await storage.load_second_factor(connection, account.id)
            if found is None or found.confirmed_at is not None or found.created_at + rules.HALF_LASTS <= now:
                raise Refusal("There is no set-up under way. Start again.")
            step = self._step(found.secret_sealed, account.id, text, now)
            if step is None:
                raise WrongCode(WRONG)
            if not await storage.confirm_second_factor(connection, account.id, now, step, found.secret_sealed):
                raise Refusal("There is no set-up under way. Start again.")
            await storage.replace_codes(connection, account.id, hashes)
            await storage.forget_tokens(connection, account.id, now, "second_factor")
            await storage.end_sessions_of(connection, account.id, keep=keep)
        return codes

    async def check(self, account_id: str, text: str, address: str, device: str | None, now: Ms) -> None:
        """Uses up a code of the app, or a recovery code."""
        limits = rules.code_limits(account_id, address, device)
        async with guess(self._database, limits, now, "codes"), self._database.transaction() as connection:
            if not await self._use(connection, account_id, text, now):
                raise WrongCode(WRONG)

    async def new_codes(self, account_id: str) -> list[str]:
        """New recovery codes. All earlier ones stop working."""
        codes, hashes = _new_codes()
        async with self._database.transaction() as connection:
            found = await storage.load_second_factor(connection, account_id)
            if found is None or found.confirmed_at is None:
                raise Refusal("This account has no second factor.")
            await storage.replace_codes(connection, account_id, hashes)
        return codes

    async def codes_left(self, account_id: str) -> int:
        found = await storage.load_second_factor(self._database, account_id)
        return 0 if found is None else found.codes_left

    # Sign-ins that wait for a code.

    async def begin_half(self, account_id: str, now: Ms) -> str:
        """A token for the cookie of somebody whose password was right. It opens nothing."""
        token = secrets.token_urlsafe(32)
        await storage.add_token(
            self._database, hash_of(token), account_id, "second_factor", now, now + rules.HALF_LASTS
        )
        return token

    async def waiting(self, token: str, now: Ms) -> rules.Account | None:
        """Whose code is to come."""
        return await storage.account_of_token(self._database, hash_of(token), "second_factor", now)

    async def finish_half(self, token: str, account_id: str, now: Ms) -> None:
        """After the code was right. A token works once."""
        used = await storage.take_token(self._database, hash_of(token), "second_factor", now)
        if used is None or used.account_id != account_id:
            raise WrongCode("That took too long, or was done already. Sign in again.")

    async def _use(self, connection: Connection, account_id: str, text: str, now: Ms) -> bool:
        if (recovery := rules.as_recovery_code(text)) is not None:
            return await storage.use_code(connection, account_id, hash_of(recovery))
        found = await storage.load_second_factor(connection, account_id)
        if found is None or found.confirmed_at is None:
            return False
        step = self._step(found.secret_sealed, account_id, text, now)
        return step is not None and await storage.use_step(connection, account_id, step)

    def _step(self, sealed: bytes, account_id: str, text: str, now: Ms) -> int | None:
        """The time step of this code. All of them are compared, whichever is right."""
        code = rules.as_code(text)
        if code is None:
            return None
        secret = base64.b32decode(self._sealer.unseal(sealed, _name(account_id)))
        generator = HOTP(secret, rules.DIGITS, SHA1())  # noqa: S303 - what authenticator apps can do; HMAC-SHA1 is not broken
        right = [step for step in rules.steps_at(now) if hmac.compare_digest(generator.generate(step), code.encode())]
        return right[-1] if right else None


async def remove(database: Executor, account_id: str) -> None:
    """No code is asked for any more."""
    if await storage.remove_second_factor(database, account_id) is None:
        raise Refusal("This account has no second factor.")


def looks_like_code(text: str) -> bool:
    """Whether this is a code and not a password. No password has so few characters as a code of the app."""
    return rules.as_code(text) is not None or rules.as_recovery_code(text) is not None


def _new_codes() -> tuple[list[str], list[bytes]]:
    codes = [
        "".join(secrets.choice(rules.RECOVERY_LETTERS) for _ in range(rules.RECOVERY_LENGTH))
        for _ in range(rules.RECOVERY_CODES)
    ]
    return [rules.shown_recovery_code(code) for code in codes], [hash_of(code) for code in codes]


def _set_up(secret: str, account: rules.Account) -> SetUp:
    return SetUp(rules.shown_secret(secret), rules.app_address(secret, account.email))


def _name(account_id: str) -> str:
    return f"{account_id}/second_factor"
