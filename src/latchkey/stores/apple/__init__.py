"""The App Store: its signed notifications, receipts and server API, turned into snapshots."""
