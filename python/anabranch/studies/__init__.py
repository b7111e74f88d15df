"""Runs and studies: what they compute, how it is computed, and how far it is."""
