"""`anabranch schema`."""

from anabranch import _engine

from .app import app


@app.command(
    help_epilogue="""\
Examples:
  anabranch schema > scenario.schema.json"""
)
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    print(_engine.schema())
