"""Google Play: pushed notifications, purchase tokens, and the Android Publisher API behind both."""
