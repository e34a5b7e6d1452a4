"""The demo of `latchkey up`: a small app whose server is the reference consumer. docs/story.md tells its story."""
