from tests.usecases import conftest

shop = conftest.shop
