"""Converts settings to JSON, in which the engine takes them."""

import json
from collections.abc import Mapping

from anabranch.errors import AnabranchError, brief


def settings_text(settings: Mapping[str, object]) -> str:
    """These settings as JSON; raises an AnabranchError naming one that JSON cannot express."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            settings_text({f"{key}.{inner}": part for inner, part in value.items()})
            continue
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise AnabranchError(
                f"{key} = {brief(value)}: settings are texts, finite numbers, booleans, and lists"
                " of these"
            ) from None
    return json.dumps(settings)
