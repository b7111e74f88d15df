"""Runs and studies: what is asked for, computed, and watched while it is."""
