"""The way to the service: what is wrong with it, in words that name the setting and show no secret."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.client import ApiError, BadAnswer, Client, ClientError, NotFound, RateLimited, Unreachable, Untrusted
from latchkey.consumer.settings import variable

# No customer has this id, and the service knows that only once it has accepted key and project.
NOBODY = "latchkey-connection-check"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look at the service found."""

    problem: str | None = None
    # The settings are wrong, so that waiting does not help. False when the service may only be away.
    certain: bool = False


async def check(client: Client, deadline: float) -> Checked:
    """Whether the service can be reached, is who it should be, and accepts our key for the project."""
    try:
        await client.customer(NOBODY, deadline=deadline)
    except NotFound:
        return Checked()
    except ClientError as error:
        certain = isinstance(error, Untrusted) or error.status in (401, 403)
        return Checked(in_words(error), certain)
    return Checked()


def in_words(error: ClientError) -> str:
    """Why the service could not be asked, and which setting to look at."""
    match error:
        case Untrusted():
            return f"The billing service's certificate is not trusted. Check {variable('service_ca')}."
        case Unreachable():
            return f"The billing service cannot be reached. Check {variable('service_url')} and the network."
        case RateLimited():
            return "The billing service is asked too often with this key. It will be asked again later."
        case ApiError(status=401):
            return f"The billing service refused the API key (401). Check {variable('api_key')}."
        case ApiError(status=403):
            names = f"{variable('api_key')} and {variable('project_id')}"
            return f"The API key may not read this project (403). Check {names}."
        case ApiError():
            return f"The billing service answered {error.status}."
        case BadAnswer():
            return f"What answers at {variable('service_url')} is not the billing service."
        case _:
            return "The billing service could not be read."
