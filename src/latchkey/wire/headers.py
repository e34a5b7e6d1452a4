"""Headers of our own that both sides know."""

from __future__ import annotations

# `true` on a delivery that somebody asked for to try a webhook: the receiver checks it, answers 200 and changes nothing.
# A header, because a test event must look like a real one in its id, type and body.
TEST_EVENT = "Latchkey-Test-Event"
