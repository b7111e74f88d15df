"""What can go wrong outside the engine; every message is one sentence for the user."""


class AnabranchError(Exception):
    """Something that the user can put right: the command line shows it without a traceback."""


class StoreError(AnabranchError):
    """A study folder that cannot be read, or not be continued with this scenario."""
