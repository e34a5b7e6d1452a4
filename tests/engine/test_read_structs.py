"""A customer as decoded for reading lacks some fields, but has the same properties and gets the same answers."""

from hypothesis import given

from latchkey.domain.customers.customer import LastSeen
from latchkey.engine.reads import CustomerView
from latchkey.engine.storage.state import UNSEEN, decode_for_reading, encode, struct_of
from latchkey.subjects.customers.render import customer_v2 as v2
from latchkey.subjects.customers.render import subscriber_v1 as v1
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG as SHOP


@given(lives())
def test_whatever_happened_in_a_life_is_the_same_when_decoded_for_reading(life: Life) -> None:
    for at, customer in life.book.states:
        one, other = (
            CustomerView(1, seen, SHOP, at, LastSeen(at)) for seen in (customer, decode_for_reading(encode(customer)))
        )
        assert v1.subscriber(one) == v1.subscriber(other)
        assert v2.customer(one) == v2.customer(other)


def test_what_is_not_decoded_for_reading_is_named_after_fields_that_exist_and_is_left_out() -> None:
    for shape, hidden in UNSEEN:
        names = set(shape.__struct_fields__)
        assert hidden <= names
        assert set(struct_of(shape, UNSEEN).__struct_fields__) == names - hidden
