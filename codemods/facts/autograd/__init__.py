"""Gradients: who carries a graph, who gets a gradient, and who needs one."""
