"""A store emulator, asked from the service's side, and sample events."""

import socket

import pytest

from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY
from latchkey.settings import control_urls
from latchkey.subjects.test_store.usecases import EmulatorClient, StoreAway, account_token
from latchkey.subjects.webhooks.usecases.samples import sample

ID = "6fa459ea-ee8a-3ca4-894e-db77e160355e"


@pytest.mark.parametrize(
    ("customer", "token"),
    [(ID, ID), (ID.upper(), ID.upper()), ("ada", None), (ID.replace("-", ""), None), (f"{{{ID}}}", None), ("", None)],
)
def test_only_a_uuid_as_apps_write_it_is_an_account_token(customer: str, token: str | None) -> None:
    assert account_token(customer) == token


async def test_a_store_that_does_not_run_is_said_to_be_away() -> None:
    # Bound and not listening: nobody else can have the port meanwhile.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(StoreAway, match="Is it still running"):
            await EmulatorClient(f"http://127.0.0.1:{taken.getsockname()[1]}/control").ask("GET", "/clock")


def test_the_setting_names_an_app_and_a_control_address_on_this_machine() -> None:
    said = ("proj_a/app_b=http://127.0.0.1:9001/control", "proj_a/app_c=http://localhost:9002/control/")
    assert control_urls(said) == {
        ("proj_a", "app_b"): "http://127.0.0.1:9001/control",
        ("proj_a", "app_c"): "http://localhost:9002/control",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "http://127.0.0.1:9001/control",
        "proj_a=http://127.0.0.1:9001/control",
        "proj_a/app_b=https://127.0.0.1:9001/control",
        "proj_a/app_b=http://10.0.0.1:9001/control",
        "proj_a/app_b=http://127.0.0.1.example.com/control",
        "proj_a/app_b=http://127.0.0.1@example.com/control",
        "proj_a/app_b=http://127.0.0.1:x/control",
    ],
)
def test_another_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        control_urls((wrong,))


NOW = 1_800_000_000_123


@pytest.mark.parametrize("type", EventType)
def test_a_sample_happened_just_now_whatever_the_day(type: EventType) -> None:
    for day in range(366):
        # From summer 2027 on, so that the 29th of February is among them.
        now = NOW + (150 + day) * DAY
        assert now - 4 * DAY <= sample(type, now).event_timestamp_ms <= now
