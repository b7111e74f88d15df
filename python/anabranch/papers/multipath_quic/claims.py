"""The paper's claims: rows of `claims.toml`."""

from anabranch.papers import rows

CLAIMS = rows.load(__name__)
SHORT = {claim.id: claim.short for claim in CLAIMS}
