"""The rules of the second factor."""

from __future__ import annotations

import pytest

from latchkey.domain.team.guessing import CODE, CODE_ON_DEVICE, code_limits
from latchkey.domain.team.second_factor import (
    STEP,
    app_address,
    as_code,
    as_recovery_code,
    shown_recovery_code,
    steps_at,
)


def test_the_codes_of_three_steps_count() -> None:
    assert steps_at(10 * STEP) == steps_at(11 * STEP - 1) == (9, 10, 11)
    assert steps_at(0) == (0, 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("123456", "123456"),
        (" 123 456 ", "123456"),
        ("123-456", "123456"),
        ("12345", None),
        ("1234567", None),
        ("12345a", None),
        # Digits of other scripts are no code.
        ("١٢٣٤٥٦", None),
        ("", None),
        ("1" * 10_000, None),
    ],
)
def test_a_code_is_six_digits_however_it_is_typed(text: str, code: str | None) -> None:
    assert as_code(text) == code


def test_a_recovery_code_is_read_as_it_is_shown() -> None:
    code = "abcdefghijkmnpq2"
    shown = shown_recovery_code(code)
    assert shown == "abcd-efgh-ijkm-npq2"
    for typed in (shown, shown.upper(), code, f" {shown} "):
        assert as_recovery_code(typed) == code
    for wrong in (shown[:-1], shown + "a", shown.replace("a", "0"), "123456", ""):
        assert as_recovery_code(wrong) is None


def test_an_app_gets_the_account_and_who_asks() -> None:
    address = app_address("ABC", "ada+x@example.com")
    assert address == "otpauth://totp/Latchkey%3Aada%2Bx%40example.com?secret=ABC&issuer=Latchkey"


def test_codes_are_limited_by_account_and_a_known_device_for_itself() -> None:
    first, second = code_limits("acc_1", "192.0.2.1", None), code_limits("acc_1", "192.0.2.2", None)
    assert first[0] == second[0]
    assert (first[0].pace, first[0].cleared) == (CODE, False)
    [own] = code_limits("acc_1", "192.0.2.1", "device")
    assert (own.pace, own.cleared) == (CODE_ON_DEVICE, True)
    assert own.subject not in {limit.subject for limit in first}
