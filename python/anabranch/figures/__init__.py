"""Figures of runs and studies, and the pages that they stand in."""
