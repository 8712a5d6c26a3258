"""What runs inside the measured process: the only code that imports torch."""
