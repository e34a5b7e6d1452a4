"""Compares what two services say of the same users: the entitlements that are active now, and until when.

Reads app user ids, one on each line. Prints each user whom the services disagree about, and counts."""

import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

OLD = os.environ.get("OLD_URL", "https://api.revenuecat.com"), os.environ["OLD_KEY"]
NEW = os.environ["NEW_URL"], os.environ["NEW_KEY"]
TRUSTED = ssl.create_default_context(cafile=os.environ.get("NEW_CA"))
# A renewal reaches both services, but not within the same second.
TOLERANCE_SECONDS = 3600


def main(ids: Iterable[str]) -> int:
    same = different = 0
    for id in (line.strip() for line in ids):
        if not id:
            continue
        now = datetime.now(UTC)
        problems = [*differences(entitlements(OLD, id, now), entitlements(NEW, id, now))]
        for problem in problems:
            print(f"{id}: {problem}")
        same, different = (same, different + 1) if problems else (same + 1, different)
    print(f"{same} the same, {different} different")
    return 1 if different else 0


def entitlements(service: tuple[str, str], id: str, now: datetime) -> dict[str, datetime | None]:
    """Those that are active, with their end."""
    url, key = service
    path = f"{url}/v1/subscribers/{urllib.parse.quote(id, safe='')}"
    request = urllib.request.Request(path, headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=30, context=TRUSTED) as reply:
            found: dict[str, Any] = json.load(reply)["subscriber"]["entitlements"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{url} answered {error.code}: {error.read().decode(errors='replace')[:300]}")
    ends = {name: end_of(one) for name, one in found.items()}
    return {name: end for name, end in ends.items() if end is None or end > now}


def end_of(entitlement: dict[str, Any]) -> datetime | None:
    dates = [entitlement.get("expires_date"), entitlement.get("grace_period_expires_date")]
    return max((datetime.fromisoformat(date) for date in dates if date), default=None) if dates[0] else None


def differences(old: dict[str, datetime | None], new: dict[str, datetime | None]) -> Iterable[str]:
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{name} is active only in the old service"
        elif name not in old:
            yield f"{name} is active only in the new service"
        else:
            one, other = old[name], new[name]
            close = one == other or (one and other and abs((one - other).total_seconds()) <= TOLERANCE_SECONDS)
            if not close:
                yield f"{name} ends {one or 'never'} in the old service, {other or 'never'} in the new one"


if __name__ == "__main__":
    sys.exit(main(sys.stdin))
