"""Comparisons with independent implementations: their numbers beside ours, row by row."""
