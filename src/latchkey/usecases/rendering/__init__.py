"""From the rules to the shapes that cross the wire."""
