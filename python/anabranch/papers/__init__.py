"""Reproduced papers, one package each: scenario, published numbers, claims, figures and page."""
