"""The errors with which QUIC closes a connection, by name."""

_NAMES = (
    "NO_ERROR", "INTERNAL_ERROR", "CONNECTION_REFUSED", "FLOW_CONTROL_ERROR", "STREAM_LIMIT_ERROR",
    "STREAM_STATE_ERROR", "FINAL_SIZE_ERROR", "FRAME_ENCODING_ERROR", "TRANSPORT_PARAMETER_ERROR",
    "CONNECTION_ID_LIMIT_ERROR", "PROTOCOL_VIOLATION", "INVALID_TOKEN", "APPLICATION_ERROR",
    "CRYPTO_BUFFER_EXCEEDED", "KEY_UPDATE_ERROR", "AEAD_LIMIT_REACHED", "NO_VIABLE_PATH",
)  # fmt: skip
"""RFC 9000 section 20.1, from 0x00 on."""

_ALERTS = {
    40: "handshake_failure", 42: "bad_certificate", 45: "certificate_expired",
    46: "certificate_unknown", 48: "unknown_ca", 80: "internal_error",
    120: "no_application_protocol",
}  # fmt: skip
"""Alerts of TLS (RFC 8446 section 6), which are errors from 0x0100 on (RFC 9001 section 4.8)."""


def error_name(code: int | None) -> str:
    """The name of a transport error; empty where it has none."""
    if code is None:
        return ""
    if 0x100 <= code < 0x200:
        return f"TLS alert {_ALERTS.get(code - 0x100, str(code - 0x100))}"
    return _NAMES[code] if 0 <= code < len(_NAMES) else ""
