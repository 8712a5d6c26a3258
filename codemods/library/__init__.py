"""What the libraries do: tables that know no script, and what they say of a script's values."""
