"""A soak: hours of daily life against `latchkey up`, and what grows although it should not. Begin with `__main__`."""
