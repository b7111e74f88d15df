"""What can go wrong outside the engine; every message is one sentence for the user."""


class AnabranchError(Exception):
    """Something that the user can put right: the command line shows it without a traceback."""


class Terminated(KeyboardInterrupt):
    """The system asked the command line to end (SIGTERM): handled as Ctrl-C is."""


class StoreError(AnabranchError):
    """A study folder that cannot be read, or not be continued with this scenario."""
