"""Figures of runs and studies, and the pages that contain them."""
