"""Devices: which an expression names, what is moved there, and under which conditions."""
