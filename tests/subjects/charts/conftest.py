from __future__ import annotations

from tests.usecases import conftest

shop = conftest.shop
