from tests.api.conftest import demo_shelf, shop

__all__ = ["demo_shelf", "shop"]
