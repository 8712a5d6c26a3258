"""What was found and judged, as text, JSON and Markdown: values in, lines out."""
