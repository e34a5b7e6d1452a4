"""The App Store emulator."""
