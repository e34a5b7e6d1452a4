"""What became of the delivery of an event to a webhook."""

from dataclasses import dataclass

from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """An event's delivery to one webhook. The delivery has the event's id."""

    webhook_id: str
    webhook_name: str
    status: str
    attempts: int
    created_at: Ms
    finished_at: Ms | None
    response_status: int | None
    error: str | None
    # The webhook and its log were deleted since.
    is_gone: bool
