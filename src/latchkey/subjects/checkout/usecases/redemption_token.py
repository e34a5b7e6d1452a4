"""The token with which a purchase is taken over: sealed, so that nobody can make one or read it. It names a checkout
and when it expires. One that has expired still says which purchase it is about, so that a new one can be sent."""

from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.instants import HOUR, Ms

# As long as the vendor's.
REDEEMABLE_FOR: Ms = 1 * HOUR
LONGEST_TOKEN = 500
_WHAT = "redemption of a purchase"


def new_token(sealer: Sealer, id_hash: bytes, now: Ms) -> str:
    return sealer.token((id_hash, now + REDEEMABLE_FOR), _WHAT)


def opened(sealer: Sealer, token: str) -> tuple[bytes, Ms] | None:
    """The hash of the checkout's id, and when the token expires. None: it is none of ours."""
    try:
        return sealer.opened(token, tuple[bytes, Ms], _WHAT)
    except UnsealableError:
        return None
