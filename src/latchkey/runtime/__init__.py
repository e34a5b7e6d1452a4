"""The app runtime: the bridge script for native web views, a module for web content, and a reference device."""
