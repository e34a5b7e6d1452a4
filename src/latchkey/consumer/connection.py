"""Checks the connection to the service. Problems name the setting to check and contain no secret."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.client import ApiError, BadAnswer, Client, ClientError, NotFound, RateLimited, Unreachable, Untrusted
from latchkey.consumer.settings import variable

# No customer has this id. The service says so only after accepting key and project.
NOBODY = "latchkey-connection-check"


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a connection check."""

    problem: str | None = None
    # True if the settings are wrong, so that waiting does not help. False if the service may only be unreachable.
    certain: bool = False


async def check(client: Client, deadline: float) -> Checked:
    """Whether the service can be reached, has a trusted certificate, and accepts our key for the project."""
    try:
        await client.customer(NOBODY, deadline=deadline)
    except NotFound:
        return Checked()
    except ClientError as error:
        certain = isinstance(error, Untrusted) or error.status in (401, 403)
        return Checked(in_words(error), certain)
    return Checked()


def in_words(error: ClientError) -> str:
    """Why the service could not be asked, and which setting to check."""
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
