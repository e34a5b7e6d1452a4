"""`latchkey emulate`, as somebody at a terminal would use it."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from latchkey.cli.emulate.folder import EmulatorFolder
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Refusal
from tests.cli.running import Running, typed
from tests.patience import wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an App Store emulator that runs, in a process of its own."""
    path = tmp_path_factory.mktemp("apple")
    words = ("--folder", path, "--bundle-id", "com.example.notes", "--data", path / "none")
    with Running("emulate", "apple", *words) as running:
        wait_until(lambda: (path / "control.json").exists(), lambda: running.output)
        yield path
        assert running.ctrl_c() == 0, running.output
    assert "The App Store emulator is up" in running.output
    assert "latchkey emulate connect" in running.output
    assert not (path / "control.json").exists()


def say(folder: Path, *words: str) -> str:
    told = typed("emulate", *words, "--folder", folder, COLUMNS="200")
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_the_first_start_writes_credentials_that_only_the_owner_can_read(folder: Path) -> None:
    credentials = json.loads((folder / "credentials.json").read_text())
    assert credentials.keys() == {
        "bundle_id", "app_apple_id", "issuer_id", "key_id", "private_key", "connect_key_id", "connect_private_key",
        "root_certificates", "api_base_url",
    }  # fmt: skip
    assert credentials["bundle_id"] == "com.example.notes"
    assert credentials["api_base_url"].startswith("http://127.0.0.1:")
    assert (folder / "root.pem").read_text() == credentials["root_certificates"][0]
    for name in ("credentials.json", "keys.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_a_purchase_lives_from_the_shell(folder: Path) -> None:
    sold = say(folder, "sell", "pro_monthly", "--buyer", "ada", "trial=true")
    assert "trial" in sold
    id = sold.split("purchase ")[-1].strip()
    assert "no" in say(folder, "act", id, "cancel")
    before = say(folder, "clock")
    assert say(folder, "clock", "P8D") != before
    listed = say(folder, "purchases")
    assert "ada" in listed
    receipt = json.loads(say(folder, "receipt", id, "--app-user-id", "ada"))
    assert (receipt["app_user_id"], receipt["product_id"]) == ("ada", "pro_monthly")
    assert "EXPIRED/VOLUNTARY" in say(folder, "notifications")


def test_misbehaviour_is_set_shown_and_ended(folder: Path) -> None:
    assert json.loads(say(folder, "misbehave", "drop=0.5", 'lies=["bundle"]', "seed=7"))["drop"] == 0.5
    assert json.loads(say(folder, "misbehave"))["seed"] == 7
    assert json.loads(say(folder, "misbehave", "--end"))["drop"] == 0


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("sell", "nothing"), "sells no product 'nothing'"),
        (("act", "12", "cancel"), "knows no purchase '12'"),
        (("sell", "pro_monthly", "trial"), "not an option such as"),
        (("connect", "ftp://x"), "is not an address"),
        (("clock", "yesterday"), "ISO 8601"),
    ],
)
def test_a_mistake_is_one_clear_line(folder: Path, words: tuple[str, ...], wrong: str) -> None:
    told = typed("emulate", *words, "--folder", folder)
    assert told.returncode == 1
    assert wrong in told.stderr
    assert "Traceback" not in told.stderr


def test_without_a_running_store_it_says_how_to_start_one(tmp_path: Path) -> None:
    told = typed("emulate", "purchases", "--folder", tmp_path)
    assert told.returncode == 1
    assert "latchkey emulate apple" in told.stderr


async def test_a_store_keeps_its_keys_its_purchases_and_its_time(tmp_path: Path) -> None:
    folder = EmulatorFolder(tmp_path)
    folder.prepare()
    first = folder.google(package_name="com.example.notes", audience=None, production=None)
    token = first.sell(product_id="pro_monthly:monthly", buyer="ada", account_token="user-7")
    first.act(token, "acknowledge")
    moved_to = first.clock.now() + 40 * DAY
    await first.move(moved_to)
    again = EmulatorFolder(tmp_path).google(package_name=None, audience=None, production=None)
    assert again.books == first.books
    assert again.clock.now() >= moved_to
    assert again.credentials("http://127.0.0.1:1") == first.credentials("http://127.0.0.1:1")
    with pytest.raises(Refusal, match="Name another folder"):
        EmulatorFolder(tmp_path).apple(bundle_id=None, app_apple_id=None, production=None)


async def test_a_stripe_emulator_keeps_its_keys_and_its_books(tmp_path: Path) -> None:
    folder = EmulatorFolder(tmp_path)
    folder.prepare()
    first = folder.stripe(metadata_key="user")
    id = first.sell(product_id="pro_monthly", buyer="ada", account_token="user-7", trial=True)
    assert first.books.subscriptions[id].metadata == {"user": "user-7"}
    first.act(id, "extend_trial", days=3)
    await first.move(first.clock.now() + 40 * DAY)
    first.act(id, "refund", amount=2.0)
    again = EmulatorFolder(tmp_path).stripe()
    assert (again.books, again.keys, again.account) == (first.books, first.keys, first.account)
    assert again.credentials("http://127.0.0.1:1")["user_id_metadata_key"] == "user"
    rotated = EmulatorFolder(tmp_path).stripe(rotate_secret=True)
    assert rotated.credentials("x")["previous_webhook_secret"] == first.keys.webhook_secret
    assert rotated.keys.secret_key == first.keys.secret_key
    live = EmulatorFolder(tmp_path).stripe(production=True)
    assert live.keys.secret_key.startswith("sk_live_")
    assert live.books.live


async def test_an_apple_store_is_found_again_too(tmp_path: Path) -> None:
    folder = EmulatorFolder(tmp_path)
    folder.prepare()
    first = folder.apple(bundle_id=None, app_apple_id=7, production=True)
    id = first.sell(product_id="basic_monthly", buyer="ada", intro=True)
    first.act(id, "fail_billing", grace_days=3)
    again = EmulatorFolder(tmp_path).apple(bundle_id=None, app_apple_id=None, production=None)
    assert again.books == first.books
    assert (again.app, again.keys.chain.root_pem) == (first.app, first.keys.chain.root_pem)
