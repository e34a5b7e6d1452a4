"""Which of the hosts is the primary: never one on a timeline that another has left behind."""

import pytest

from latchkey.database.errors import NoPrimaryError
from latchkey.database.servers import SeenCluster, Server, Silent, choose
from latchkey.database_address import Host

A, B, C = (Host(name, f"postgresql://{name}/app") for name in ("a", "b", "c"))
SILENT = Silent(A, "does not answer", hangs=True)


def primary(host: Host, timeline: int, system: str = "7") -> Server:
    return Server(host, system, timeline)


def standby(host: Host, timeline: int) -> Server:
    return Server(host, "7", timeline, is_standby=True, takes_changes=False)


def test_the_primary_is_the_one_that_takes_changes() -> None:
    found, seen = choose([standby(A, 1), primary(B, 1)], SeenCluster())
    assert (found.host, seen) == (B, SeenCluster("7", 1))


def test_of_two_that_take_changes_it_is_the_one_on_the_higher_timeline() -> None:
    assert choose([primary(A, 1), primary(B, 2)], SeenCluster())[0].host == B
    assert choose([primary(A, 3), primary(B, 2)], SeenCluster())[0].host == A


def test_an_old_primary_is_refused_by_a_process_that_has_seen_the_new_one() -> None:
    with pytest.raises(
        NoPrimaryError, match=r"a is an old primary \(on timeline 1, while 2 has been seen\); b is gone"
    ):
        choose([primary(A, 1), Silent(B, "is gone")], SeenCluster("7", 2))


def test_an_old_primary_is_refused_by_a_new_process_if_a_standby_knows_of_a_newer_timeline() -> None:
    with pytest.raises(NoPrimaryError, match=r"b is a standby; a is an old primary"):
        choose([standby(B, 2), primary(A, 1)], SeenCluster())


def test_a_timeline_is_only_compared_within_one_cluster() -> None:
    with pytest.raises(NoPrimaryError, match="a belongs to another cluster"):
        choose([primary(A, 9, system="8"), standby(B, 1)], SeenCluster("7", 1))
    with pytest.raises(NoPrimaryError, match="a and b are different clusters"):
        choose([primary(A, 9, system="8"), primary(B, 1)], SeenCluster())
    assert choose([primary(A, 9, system="8"), primary(B, 1)], SeenCluster("7", 1))[0].host == B


def test_a_service_that_hides_its_timeline_is_used() -> None:
    assert choose([primary(A, 0, system=""), Silent(B, "is gone")], SeenCluster())[0].host == A


def test_every_host_is_named_with_what_is_wrong_with_it() -> None:
    read_only = Server(C, "7", 1, takes_changes=False)
    with pytest.raises(NoPrimaryError, match=r"^a does not answer; b is a standby; c takes no changes$"):
        choose([SILENT, standby(B, 1), read_only], SeenCluster("7", 1))
