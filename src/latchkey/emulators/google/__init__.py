"""The Google Play emulator."""
