from tests.api.conftest import shop

__all__ = ["shop"]
