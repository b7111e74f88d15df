//! Certificates made on the spot, for tests and for peers that are told whom to trust.

/// A certificate that only itself vouches for, and its key, both in PEM.
#[derive(Clone, Debug)]
pub struct SelfSigned {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// A new certificate for these names and addresses, with a key of P-256.
///
/// # Errors
/// When one is neither a name nor an address: one sentence.
pub fn self_signed(names: &[String]) -> Result<SelfSigned, String> {
    let made = rcgen::generate_simple_self_signed(names.to_vec())
        .map_err(|error| format!("no certificate can be made for {}: {error}", names.join(", ")))?;
    Ok(SelfSigned { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
}
