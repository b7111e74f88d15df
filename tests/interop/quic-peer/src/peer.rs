// A stack as a server that sends back what comes on streams and in datagrams, or as a client: what quinn and
// noq have in common. It does what lines of its standard input ask for, and says lines of JSON
// (../README.md).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stack::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use stack::{ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, RecvStream, SendStream};
use stack::{ServerConfig, TokioRuntime, VarInt};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ALPN: &[u8] = b"interop";
/// A version that nobody has (RFC 9000 section 15).
const OTHER_VERSION: u32 = 0x1a2a_3a4a;
/// What stateless resets come from: another run of this program knows the tokens of one before.
const RESET_KEY: [u8; 32] = [7; 32];
const PIECE: usize = 1 << 16;

/// NAME=VALUE of the command line.
type Words = BTreeMap<String, String>;

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let role = words.next().ok_or("listen or connect?")?;
    let mut known = Words::new();
    for word in words {
        let (name, value) = word.split_once('=').ok_or("NAME=VALUE")?;
        known.insert(name.to_owned(), value.to_owned());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match role.as_str() {
            "listen" => listen(&known).await,
            _ => connect(&known).await,
        }
    })
}

/// Says that something has happened.
fn say(event: &str, more: &str) {
    println!(r#"{{"event": "{event}"{more}}}"#);
}

fn provider(words: &Words) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    if words.contains_key("chacha20") {
        provider.cipher_suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    Arc::new(provider)
}

/// That of Initial packets, whatever comes behind them (RFC 9001 section 5.2).
fn initial_suite() -> Outcome<rustls::quic::Suite> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256;
    Ok(suite.tls13().and_then(rustls::Tls13CipherSuite::quic_suite).ok_or("no AES-128-GCM")?)
}

fn chain(words: &Words) -> Outcome<Vec<CertificateDer<'static>>> {
    Ok(CertificateDer::pem_file_iter(&words["chain"])?.collect::<Result<_, _>>()?)
}

fn endpoint(words: &Words, server: Option<ServerConfig>) -> Outcome<Endpoint> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &RESET_KEY);
    let mut config = EndpointConfig::new(Arc::new(key));
    keep_ids(&mut config);
    if words.contains_key("other_version") {
        config.supported_versions(vec![OTHER_VERSION]);
    }
    let socket = UdpSocket::bind(words["own"].parse::<SocketAddr>()?)?;
    Ok(Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?)
}

async fn listen(words: &Words) -> Outcome<()> {
    let key = PrivateKeyDer::from_pem_file(&words["key"])?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider(words))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain(words)?, key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicServerConfig::with_initial(Arc::new(tls), initial_suite()?)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    if let Some(transport) = transport(words)? {
        config.transport_config(transport);
    }
    let endpoint = endpoint(words, Some(config))?;
    let (asks, is_sink) = (words.contains_key("retry"), words.contains_key("sink"));
    let (newest, current) = watch::channel(None);
    let (accepting, own) = (endpoint.clone(), newest.clone());
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            if asks && !incoming.remote_address_validated() {
                let _ = incoming.retry();
                continue;
            }
            let newest = own.clone();
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    begin(&connection, is_sink);
                    let _ = newest.send(Some(connection));
                }
            });
        }
    });
    say("listening", "");
    if words.contains_key("sink") {
        std::future::pending::<()>().await;
    }
    obey(&endpoint, current).await
}

async fn connect(words: &Words) -> Outcome<()> {
    let mut roots = rustls::RootCertStore::empty();
    for each in chain(words)? {
        roots.add(each)?;
    }
    let mut tls = rustls::ClientConfig::builder_with_provider(provider(words))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicClientConfig::with_initial(Arc::new(tls), initial_suite()?)?;
    let endpoint = endpoint(words, None)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    if let Some(transport) = transport(words)? {
        config.transport_config(transport);
    }
    let connection = endpoint.connect_with(config, words["remote"].parse()?, "localhost")?.await?;
    begin(&connection, false);
    if let Some(size) = words.get("upload") {
        upload(&connection, size.parse()?).await?;
        connection.close(VarInt::from_u32(0), b"");
        let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
        return Ok(());
    }
    let (_newest, current) = watch::channel(Some(connection));
    obey(&endpoint, current).await
}

/// Writes so much on a stream, and waits until the server has read it to its end.
async fn upload(connection: &Connection, size: usize) -> Outcome<()> {
    let (mut sending, mut receiving) = connection.open_bi().await?;
    let piece = vec![0; PIECE];
    let mut left = size;
    while left > 0 {
        let length = left.min(PIECE);
        sending.write_all(&piece[..length]).await?;
        left -= length;
    }
    sending.finish()?;
    receiving.read_to_end(0).await?;
    Ok(())
}

/// Says that a connection is open, and later that it has ended; a server's answers, which are empty if it is
/// a sink.
fn begin(connection: &Connection, is_sink: bool) {
    say("connected", "");
    watch_paths(connection);
    let closing = connection.clone();
    tokio::spawn(async move {
        match closing.closed().await {
            ConnectionError::ApplicationClosed(close) => {
                say("closed", &format!(r#", "code": {}"#, close.error_code.into_inner()));
            }
            other => say("closed", &format!(r#", "why": "{other}""#)),
        }
    });
    let answering = connection.clone();
    tokio::spawn(async move {
        while let Ok((sending, receiving)) = answering.accept_bi().await {
            tokio::spawn(send_back(sending, receiving, is_sink));
        }
    });
    if connection.side().is_server() {
        let answering = connection.clone();
        tokio::spawn(async move {
            while let Ok(message) = answering.read_datagram().await {
                let _ = answering.send_datagram(message);
            }
        });
    }
}

async fn send_back(mut sending: SendStream, mut receiving: RecvStream, is_sink: bool) -> Outcome<()> {
    let mut piece = vec![0; PIECE];
    while let Some(length) = receiving.read(&mut piece).await? {
        if !is_sink {
            sending.write_all(&piece[..length]).await?;
        }
    }
    sending.finish()?;
    Ok(())
}

/// Does what the lines of the standard input ask for, until it ends.
async fn obey(endpoint: &Endpoint, mut current: watch::Receiver<Option<Connection>>) -> Outcome<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let connection = current.wait_for(Option::is_some).await?.clone().ok_or("none")?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["exchange", count, size] => {
                let (count, size): (usize, usize) = (count.parse()?, size.parse()?);
                let all: Vec<_> =
                    (0..count).map(|at| tokio::spawn(exchange(connection.clone(), size + at))).collect();
                tokio::spawn(async move {
                    for each in all {
                        match each.await {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => return say("failed", &format!(r#", "why": "{error}""#)),
                            Err(error) => return say("failed", &format!(r#", "why": "{error}""#)),
                        }
                    }
                    say("exchanged", "");
                });
            }
            ["datagram", hex] => {
                let bytes: Vec<u8> = (0..hex.len() / 2)
                    .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16))
                    .collect::<Result<_, _>>()?;
                connection.send_datagram(bytes.into())?;
                let back = connection.read_datagram().await?.iter().fold(String::new(), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                });
                say("datagram", &format!(r#", "data": "{back}""#));
            }
            ["update"] => {
                connection.force_key_update();
                say("updated", "");
            }
            ["migrate"] => {
                endpoint.rebind(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?)?;
                say("migrated", "");
            }
            ["close", code] => {
                connection.close(VarInt::from_u64(code.parse()?)?, b"");
                say("closing", "");
            }
            _ if steer(&connection, &words).await? => {}
            _ => return Err(format!("what is {line:?}?").into()),
        }
    }
    // The other end hears of it.
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(())
}

/// Byte number `at` of what a client writes.
fn byte(at: usize) -> u8 {
    let word = (at as u64 / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((word ^ (word >> 32)) >> (8 * (at % 8))) as u8
}

/// Writes so much on a stream, and compares what comes back.
async fn exchange(connection: Connection, size: usize) -> Outcome<()> {
    let (mut sending, mut receiving) = connection.open_bi().await?;
    let writing = tokio::spawn(async move {
        let mut at = 0;
        while at < size {
            let piece: Vec<u8> = (at..size.min(at + PIECE)).map(byte).collect();
            sending.write_all(&piece).await?;
            at += piece.len();
        }
        sending.finish()?;
        Outcome::Ok(())
    });
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    while let Some(length) = receiving.read(&mut piece).await? {
        if let Some(wrong) = (0..length).find(|&n| at + n >= size || piece[n] != byte(at + n)) {
            return Err(format!("byte {} of {size} is wrong", at + wrong).into());
        }
        at += length;
    }
    writing.await??;
    if at == size { Ok(()) } else { Err(format!("{at} of {size} bytes came back").into()) }
}
