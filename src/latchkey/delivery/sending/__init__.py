"""One POST to a receiver: address checked, signed, timed, and described in words when it fails."""
