"""Latchkey's own headers, used by both sides."""

# `true` on a test delivery. The receiver verifies it, answers 200 and changes nothing. It is a header because a test
# event must look like a real one in its id, type and body.
TEST_EVENT = "Latchkey-Test-Event"
