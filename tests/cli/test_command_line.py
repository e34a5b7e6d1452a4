"""Rules for every command: --json, a line of help, tables, and shell completion."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from latchkey.cli.main import COMMANDS, command_line, main
from latchkey.cli.output import is_json, show_list
from latchkey.domain.formats import duration, instant, iso_duration, money
from tests.cli.running import LATCHKEY, clean_environment, typed
from tests.patience import PATIENCE

# They print no data: the first run until they are stopped, the others change this machine after asking.
WITHOUT_JSON = {
    "up",
    "serve",
    "device",
    "receiver",
    "mcp",
    "push sandbox",
    "emulate apple",
    "emulate google",
    "emulate stripe",
    "trust",
    "untrust",
    # It prints nothing but JSON.
    "config schema",
}


def commands(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if not below:
        yield " ".join(name), command
        return
    for word, one in below.items():
        yield from commands(one, (*name, word))


EVERY = dict(commands(get_command(command_line([], whole=True))))


def test_every_command_that_prints_data_has_json() -> None:
    with_json = {name for name, one in EVERY.items() if any("--json" in option.opts for option in one.params)}
    assert EVERY.keys() - with_json == WITHOUT_JSON
    assert len(EVERY) > 70


def test_every_command_and_every_option_says_what_it_is_for() -> None:
    for name, command in EVERY.items():
        assert command.help, name
        for one in command.params:
            assert getattr(one, "help", None), (name, one.name)


def test_a_line_in_a_list_of_commands_is_one_line() -> None:
    """The list shows the first paragraph with its line breaks."""
    for name, command in EVERY.items():
        if " " in name:
            assert "\n" not in command.help.split("\n\n")[0].strip(), name


def test_the_help_of_up_names_its_defaults() -> None:
    shown = " ".join(typed("up", "--help", COLUMNS="200").stdout.split())
    for default in ("8443", "127.0.0.1", "one for two cores, at least two", "only in a new data folder"):
        assert f"[default: ({default})]" in shown or f"[default: {default}]" in shown, default


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    whole = get_command(command_line([], whole=True)).commands  # type: ignore[attr-defined]
    listed = get_command(command_line(["--help"])).commands  # type: ignore[attr-defined]
    assert list(listed) == list(whole)
    for name, (_, summary) in COMMANDS.items():
        assert " ".join(whole[name].help.split()).startswith(summary.rstrip(".")), name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_a_sub_command(shell: str) -> None:
    asked = {
        "bash": {"COMP_WORDS": "latchkey webhook del", "COMP_CWORD": "2"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "latchkey webhook del"},
        "fish": {"_TYPER_COMPLETE_ARGS": "latchkey webhook del", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = subprocess.run(
        [LATCHKEY],
        capture_output=True,
        text=True,
        env=clean_environment(_LATCHKEY_COMPLETE=f"complete_{shell}", **asked),
        timeout=PATIENCE,
    )
    assert set(re.findall(r"\b(?:delete|deliveries|create)\b", done.stdout)) == {"delete", "deliveries"}, done.stderr


def test_the_completion_script_is_printed_for_each_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("bash", "zsh", "fish"):
        done = typed("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
        assert "_LATCHKEY_COMPLETE" in done.stdout, done.stderr


def test_the_version_is_an_option_too() -> None:
    assert re.match(r"latchkey \d+\.\d+\.\d+ \(Python 3\.", typed("--version").stdout)
    assert set(json.loads(typed("version", "--json").stdout)) == {"latchkey", "python"}


def test_errors_in_json_keep_their_exit_codes(tmp_path: Path) -> None:
    wrong = typed("key", "list", "--data", tmp_path, "--json")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    error = json.loads(wrong.stderr)["error"]
    assert (error["type"], error["problems"][0]["setting"]) == ("settings", "LATCHKEY_DATABASE_URL")
    unknown = typed("key", "nonsense", "--json")
    assert (unknown.returncode, json.loads(unknown.stderr)["error"]["type"]) == (2, "usage")
    (tmp_path / "connection.json").write_text('{"database_url": "postgresql://postgres@/latchkey?host=/nowhere"}')
    stopped = typed("key", "list", "--data", tmp_path, "--json")
    assert (stopped.returncode, json.loads(stopped.stderr)["error"]["type"]) == (1, "refused")
    away = typed("project", "list", "--json", LATCHKEY_DATABASE_URL="postgresql://postgres@127.0.0.1:1/none")
    assert (away.returncode, json.loads(away.stderr)["error"]["type"]) == (1, "database")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["version"], "Error: The output could not be written: No space left on device.\n"),
        (["version", "--json"], '{"error":{"type":"output","message":"The output could not be written: No space left'),
    ],
)
def test_a_full_disk_is_one_sentence(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["latchkey", *words])
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(told)


def test_json_is_only_an_option_before_the_dashes() -> None:
    assert is_json(["key", "list", "--json"])
    assert not is_json(["customer", "show", "--", "--json"])


def test_everything_else_prints_json_too(database_url: str, tmp_path: Path) -> None:
    environment = {"LATCHKEY_DATABASE_URL": database_url}

    def ask(*words: str | Path, code: int = 0) -> Any:
        done = typed(*words, "--json", **environment)
        assert (done.returncode, done.stderr) == (code, ""), done
        return json.loads(done.stdout)

    assert ask("migrate") == {
        "dry_run": False,
        "before": ask("migrate", "--dry-run")["version"],
        "version": ask("migrate", "--dry-run")["version"],
        "run": [],
        "pending_after": [],
    }
    project = ask("project", "create", "Shop")
    assert ask("project", "set", project["id"], "--name", "Store")["name"] == "Store"
    assert [one["id"] for one in ask("project", "list")["items"]] == [project["id"]]
    key = ask("key", "create", "--name", "server")
    assert key["key"].startswith("sk_")
    assert [(one["id"], "key" in one) for one in ask("key", "list")["items"]] == [(key["id"], False)]
    assert ask("key", "edit", key["id"], "--rate-limit", "7")["rate_limit"] == 7
    rotated = ask("key", "rotate", key["id"])
    assert rotated["old"]["id"] == key["id"]
    assert ask("key", "revoke", rotated["new"]["id"])["revoked_at"] is not None
    assert "/dashboard/invitations/" in ask("user", "create", "ada@example.com")["link"]
    assert [one["email"] for one in ask("user", "list")["items"]] == ["ada@example.com"]
    assert ask("user", "invite", "ada@example.com")["email"] == "ada@example.com"
    assert ask("user", "operator", "ada@example.com")["operators"] == ["ada@example.com"]
    rates = tmp_path / "rates.csv"
    rates.write_text("date,currency,usd\n2026-01-05,EUR,1.0834\n")
    assert ask("rates", "import", rates)["new"] == 1
    assert ask("rates", "list")["items"][0]["currency"] == "EUR"
    assert ask("rates", "list", "--currency", "eur")["items"][0]["usd"] == "1.0834"
    assert ask("journal", "list")["items"] == []
    assert ask("journal", "reprocess", "--since", "1d") == {"reprocessed": 0}
    assert ask("export", "--to", tmp_path / "out")["kind"] == "whole"
    people = tmp_path / "customers.csv"
    people.write_text("app_user_id\nada\n")
    assert ask("import", people, "--dry-run")["dry_run"] is True
    found = typed("doctor", "--data", tmp_path, "--json", **environment)
    assert {"python", "database"} <= {one["about"] for one in json.loads(found.stdout)["items"]}
    assert ask("admin", "after-restore", "--nothing-lost")["counts"] == {}


# The formats that commands and pages share.


def test_durations_are_words() -> None:
    texts = {"P1M": "1 month", "P1Y": "1 year", "P18M": "1 year 6 months", "P7D": "1 week", "P3D": "3 days"}
    texts |= {"P1M15D": "1 month 15 days", "PT12H": "12 hours", "PT90S": "1 minute 30 seconds", "odd": "odd"}
    assert {text: duration(text) for text in texts} == texts
    assert duration(None, "for ever") == "for ever"
    typed_in = {"1 month": "P1M", "7 days": "P7D", "2Weeks": "P2W", "p1y": "P1Y", " PT12H ": "PT12H"}
    typed_in |= {"1 hour": "PT1H", "90 minutes": "PT90M"}
    assert {text: iso_duration(text) for text in typed_in} == typed_in
    for wrong in ("a while", "0 days", "", "P"):
        with pytest.raises(ValueError, match="duration"):
            iso_duration(wrong)


def test_money_is_written_as_its_currency_is() -> None:
    assert money(10_500_000_000, "JPY") == "¥10,500"
    assert money(9_990_000, "EUR") == "€9.99"
    assert money(-9_990_000, "USD") == "−$9.99"
    assert money(-1_000, "USD") == "$0.00"
    assert money(9_990_000, "CHF") == "9.99 CHF"
    assert money(1_234_567, "KWD") == "1.235 KWD"
    assert (money(None, "USD"), money(0, "XXX")) == ("–", "–")


def test_dates_have_their_zone() -> None:
    assert instant(1_800_000_000_123) == "2027-01-15 08:00 UTC"
    assert instant(1_800_000_000_123, seconds=True) == "2027-01-15 08:00:00 UTC"


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_a_table_breaks_no_word_and_cuts_nothing(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    row = ("evt_0123456789abcdef", "INITIAL_PURCHASE", "ada", "pro_monthly", "2026-11-16 14:50:00 UTC", "PRODUCTION")
    show_list([row], ("event", "type", "customer", "product", "at", "environment"), "None.")
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["event", "type", "customer", "product", "at", "environment"]
    assert line.split() == " ".join(row).split()
