"""What the tests of reports share."""

SIZES = {"delay": 4, "loss": 3, "pmr": 2}
