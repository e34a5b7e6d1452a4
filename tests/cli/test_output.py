"""Tables of commands in narrow terminals and in pipes."""

import pytest

from latchkey.cli import output


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_a_table_breaks_no_word_and_cuts_nothing(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    row = ("evt_0123456789abcdef", "INITIAL_PURCHASE", "ada", "pro_monthly", "2026-11-16 14:50:00 UTC", "PRODUCTION")
    output.show_list([row], ("event", "type", "customer", "product", "at", "environment"), "None.")
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["event", "type", "customer", "product", "at", "environment"]
    assert line.split() == " ".join(row).split()
