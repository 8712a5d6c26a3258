"""What the libraries do, as tables: nothing here knows a script."""
