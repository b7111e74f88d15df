//! The handshake of TLS 1.3 (RFC 9001 section 4), by rustls: it makes and reads the messages, and gives the
//! keys. Bytes go in and come out; which packets carry them is the connection's business.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::quic::{self, KeyChange, Version};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, KeyLogFile, RootCertStore, ServerConfig, SignatureScheme,
};

use crate::wire::quic::{Level, Real};

/// The alerts that come from here (RFC 8446 section 6).
const INTERNAL_ERROR: u8 = 80;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// Whom a client believes to be the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Whoever answers: certificates are not looked at.
    Anyone,
    /// Whoever has a certificate for the name that one of these vouches for (DER).
    Roots(Vec<Vec<u8>>),
}

/// What a client needs to open connections.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientConfig>);

/// What a server needs to accept connections.
#[derive(Clone, Debug)]
pub struct Server(Arc<ServerConfig>);

/// The handshake of one end.
pub struct Tls {
    inner: quic::Connection,
    /// At which level it writes.
    level: Level,
    has_ended: bool,
}

/// What TLS has written, all at one level, and the keys with which it goes on.
pub struct Flight {
    /// At which level.
    pub level: Level,
    /// The messages, or parts of them.
    pub bytes: Vec<u8>,
    /// The keys for sealing and opening of the next level.
    pub keys: Option<(Level, [Real; 2])>,
}

/// Why the handshake has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The alert that tells the peer.
    pub alert: u8,
    /// In words.
    pub reason: String,
}

/// The certificates of a text in PEM, as DER.
///
/// # Errors
/// When there is none, or one is not whole: one sentence.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| format!("the certificates cannot be read: {error}"))?;
    if all.is_empty() {
        return Err("there is no certificate; a file in PEM has `-----BEGIN CERTIFICATE-----`".into());
    }
    Ok(all.iter().map(|one| one.to_vec()).collect())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl Client {
    /// A client that trusts these, and offers these protocols above QUIC (ALPN), at least one.
    ///
    /// # Errors
    /// When a root is no certificate: one sentence.
    pub fn new(trust: &Trust, protocols: &[String]) -> Result<Self, String> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?;
        let mut config = match trust {
            Trust::Anyone => {
                let believer = Arc::new(Believer(provider));
                builder.dangerous().with_custom_certificate_verifier(believer).with_no_client_auth()
            }
            Trust::Roots(roots) => {
                let mut store = RootCertStore::empty();
                let roots = roots.iter().map(|root| CertificateDer::from_slice(root));
                let (added, refused) = store.add_parsable_certificates(roots);
                if added == 0 {
                    return Err(format!(
                        "there is no certificate to trust ({refused} cannot be read); give one, or trust anyone"
                    ));
                }
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
                let verifier = verifier.map_err(|error| error.to_string())?;
                builder.with_webpki_verifier(verifier).with_no_client_auth()
            }
        };
        config.alpn_protocols = bytes_of(protocols);
        config.resumption = Resumption::disabled();
        config.key_log = Arc::new(KeyLogFile::new());
        Ok(Self(Arc::new(config)))
    }

    /// Begins a handshake with a server of this name or address, to which these transport parameters are
    /// said.
    ///
    /// # Errors
    /// When it is neither a name nor an address: one sentence.
    pub fn begin(&self, name: &str, parameters: Vec<u8>) -> Result<Tls, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("server_name = `{name}` is neither a name nor an address"))?;
        let inner = quic::ClientConnection::new(Arc::clone(&self.0), Version::V1, name, parameters);
        Ok(Tls::new(inner.map_err(|error| error.to_string())?.into()))
    }
}

impl Server {
    /// A server with this chain of certificates and the key of the first of them, both in PEM, that speaks
    /// these protocols above QUIC (ALPN), at least one.
    ///
    /// # Errors
    /// When chain or key cannot be read, or do not belong together: one sentence.
    pub fn new(chain: &[u8], key: &[u8], protocols: &[String]) -> Result<Self, String> {
        let chain = certificates(chain)?.into_iter().map(CertificateDer::from).collect();
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("the certificate's key cannot be read: {error}"))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| format!("the certificate and its key cannot be used: {error}"))?;
        config.alpn_protocols = bytes_of(protocols);
        // There is no 0-RTT, and so no resumption.
        config.send_tls13_tickets = 0;
        config.key_log = Arc::new(KeyLogFile::new());
        Ok(Self(Arc::new(config)))
    }

    /// Begins a handshake with a client, to which these transport parameters are said.
    ///
    /// # Errors
    /// When the settings do not permit QUIC.
    pub fn begin(&self, parameters: Vec<u8>) -> Result<Tls, String> {
        let inner = quic::ServerConnection::new(Arc::clone(&self.0), Version::V1, parameters);
        Ok(Tls::new(inner.map_err(|error| error.to_string())?.into()))
    }
}

fn bytes_of(protocols: &[String]) -> Vec<Vec<u8>> {
    protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect()
}

impl Tls {
    const fn new(inner: quic::Connection) -> Self {
        Self { inner, level: Level::Initial, has_ended: false }
    }

    /// Reads the next bytes of the peer's messages. Those of one level all come before those of the next
    /// (RFC 9001 section 4.1.3).
    ///
    /// # Errors
    /// When a message breaks a rule, or the peer is not who it is to be.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.inner.read_hs(bytes).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &Error) -> Failure {
        let alert = self.inner.alert().map_or(INTERNAL_ERROR, u8::from);
        Failure { alert, reason: error.to_string() }
    }

    /// What it has to say next; [`None`] if it waits for the peer, or is through.
    pub fn write(&mut self) -> Option<Flight> {
        let (mut bytes, level) = (Vec::new(), self.level);
        let keys = match self.inner.write_hs(&mut bytes) {
            Some(KeyChange::Handshake { keys }) => Some((Level::Handshake, Real::handshake(keys))),
            Some(KeyChange::OneRtt { keys, next }) => Some((Level::OneRtt, Real::one_rtt(keys, &next))),
            None => None,
        };
        if let Some((next, _)) = &keys {
            self.level = *next;
        }
        (!bytes.is_empty() || keys.is_some()).then_some(Flight { level, bytes, keys })
    }

    /// The peer's transport parameters, once they have come.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        self.inner.quic_transport_parameters()
    }

    /// Whether it has just become complete: once true.
    ///
    /// # Errors
    /// When no protocol was agreed on (RFC 9001 section 8.1).
    pub fn completes(&mut self) -> Result<bool, Failure> {
        if self.has_ended || self.inner.is_handshaking() {
            return Ok(false);
        }
        self.has_ended = true;
        match self.inner.alpn_protocol() {
            Some(_) => Ok(true),
            None => Err(Failure {
                alert: NO_APPLICATION_PROTOCOL,
                reason: "the ends have not agreed on a protocol above QUIC (ALPN)".into(),
            }),
        }
    }

    /// The protocol above QUIC that was agreed on.
    pub fn protocol(&self) -> Option<String> {
        self.inner.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into_owned())
    }
}

impl std::fmt::Debug for Tls {
    /// Shows no secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").field("level", &self.level).finish_non_exhaustive()
    }
}

/// Takes every certificate; that the server has the key of the one it shows is still checked.
#[derive(Debug)]
struct Believer(Arc<CryptoProvider>);

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
