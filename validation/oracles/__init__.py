"""Comparisons with the numbers of other implementations, which lie beside the modules."""
