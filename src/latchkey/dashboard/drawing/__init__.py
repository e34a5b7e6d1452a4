"""Pictures of charts: positions as pure geometry; `templates/drawing.html` writes the SVG."""
