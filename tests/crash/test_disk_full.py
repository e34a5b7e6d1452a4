"""A full disk: every reply keeps its documented form, readiness reports it, and the service recovers by itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.cli.running import Up
from tests.crash.full_disk import children_of, use_up_the_log
from tests.crash.shoppers import Shop, Shopper, is_documented
from tests.crash.small_disk import SmallDisk, needs_namespace, run_again_in_namespace, small_disk
from tests.patience import wait_until

if needs_namespace():

    def test_everything_here_passes_where_mounting_is_allowed() -> None:
        run_again_in_namespace(Path(__file__))

else:

    @pytest.fixture(scope="module")
    def disk(short_folder: Path) -> Iterator[SmallDisk]:
        with small_disk(short_folder / "disk") as disk:
            yield disk

    @pytest.fixture(scope="module")
    def up(disk: SmallDisk) -> Iterator[Up]:
        with Up(disk.path / "up", "--port", "0", "--no-stores") as up:
            up.wait_until_ready()
            yield up
            disk.make_room()
            assert up.terminate() == 0

    @pytest.fixture
    async def shop(up: Up, disk: SmallDisk) -> AsyncIterator[Shop]:
        yield await Shop.open(up)
        disk.make_room()

    async def test_a_full_disk_is_told_in_the_documented_words_and_nothing_answered_is_lost(
        up: Up, shop: Shop, disk: SmallDisk
    ) -> None:
        processes = children_of(up)

        def story() -> Shopper:
            shopper = Shopper(shop, "ann")
            shopper.start()
            wait_until(lambda: len(shopper.bought) >= 10, "nobody can buy")
            disk.fill()
            wait_until(lambda: not shop.is_ready(), "the service still says that it is ready")
            wait_until(lambda: shopper.replies[-1].status >= 500, "purchases succeed although the disk is full")
            said = json.loads(shop.ask("GET", "/readyz").body)
            assert said == {
                "status": "not_ready",
                "reason": "The database takes no changes: its disk is full, or it is read-only.",
            }
            # Each failure writes to the log. Wait for many, so that no buffer can hide a failed write.
            failed = len(shopper.replies) + 50
            wait_until(lambda: len(shopper.replies) >= failed)
            for method, path in (("GET", "/v1/subscribers/ann-1"), ("GET", "/v2/projects/x"), ("GET", "/nowhere")):
                assert is_documented(shop.ask(method, path))
            assert shop.ask("GET", "/healthz").status == 200
            disk.make_room()
            wait_until(shop.is_ready, "there is space again, but the service does not become ready")
            enough = len(shopper.bought) + 10
            wait_until(lambda: len(shopper.bought) >= enough, "there is space again, but nobody can buy")
            shopper.stop()
            return shopper

        shopper = await asyncio.to_thread(story)
        assert {reply.status for reply in shopper.replies} == {200, 503}
        assert all(is_documented(reply) for reply in shopper.replies)
        assert all(reply.headers["retry-after"] == "1" for reply in shopper.replies if reply.status == 503)
        assert children_of(up) == processes, "a process ended because of the full disk"
        await shop.has_lost_nothing(shopper.bought)

    async def test_a_database_that_a_full_disk_has_stopped_comes_back_when_there_is_room(
        up: Up, shop: Shop, disk: SmallDisk
    ) -> None:
        processes = children_of(up)

        def fill() -> Shopper:
            shopper = Shopper(shop, "bob")
            shopper.start()
            wait_until(lambda: len(shopper.bought) >= 10, "nobody can buy")
            disk.fill()
            return shopper

        # Connected before the disk is full: PostgreSQL may have to write a file for a new connection.
        connection = await asyncpg.connect(shop.connection["database_url"])
        shopper = await asyncio.to_thread(fill)
        await use_up_the_log(connection)

        def recover() -> None:
            wait_until(lambda: "database not started" in up.output, "PostgreSQL did not give up on the full disk")
            assert shop.ask("GET", "/readyz").status == 503
            disk.make_room()
            wait_until(shop.is_ready, lambda: up.output)
            enough = len(shopper.bought) + 10
            wait_until(lambda: len(shopper.bought) >= enough, "the database is back, but nobody can buy")
            shopper.stop()

        await asyncio.to_thread(recover)
        assert {reply.status for reply in shopper.replies} == {200, 503}
        assert all(is_documented(reply) for reply in shopper.replies)
        assert children_of(up) == processes, "a process ended because the database did"
        await shop.has_lost_nothing(shopper.bought)
