"""The cookie of a known device: what it proves, for whom, for how long, and that it cannot be forged."""

from __future__ import annotations

import pytest

from latchkey.usecases.access.devices import KNOWN_FOR, MOST_ACCOUNTS, Devices

NOW = 1_800_000_000_000
DEVICES = Devices(b"k" * 32)


def test_a_device_is_known_to_whom_signed_in_with_it_and_to_nobody_else() -> None:
    cookie = DEVICES.remember("", "acc_ann", NOW)
    device = DEVICES.known(cookie, "acc_ann", NOW + 1)
    assert device == cookie.partition(".")[0]
    assert DEVICES.known(cookie, "acc_bob", NOW + 1) is None


def test_it_is_forgotten_after_half_a_year_and_renewed_by_signing_in() -> None:
    cookie = DEVICES.remember("", "acc_ann", NOW)
    assert DEVICES.known(cookie, "acc_ann", NOW + KNOWN_FOR - 1)
    assert DEVICES.known(cookie, "acc_ann", NOW + KNOWN_FOR) is None
    renewed = DEVICES.remember(cookie, "acc_ann", NOW + KNOWN_FOR)
    assert DEVICES.known(renewed, "acc_ann", NOW + KNOWN_FOR) == cookie.partition(".")[0]
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
