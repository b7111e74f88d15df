// Two endpoints of a stack in virtual time, with links between them like the simulator's: a rate, a queue of
// so many packets beside the one in service, random losses behind it, a delay. Of several links, whose values
// have commas between them, each is a path. A client writes so many bytes on a stream. What quinn-proto and
// noq-proto have in common; each run is a line of JSON (tools/quic_beside_peers.py).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stack::congestion::{CubicConfig, NewRenoConfig};
use stack::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use stack::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
};
use stack::{ReadError, ServerConfig, StreamEvent, StreamId, TransportConfig};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Headers of IPv4 and UDP.
const HEADERS: usize = 28;
/// How long a transfer may take.
const LIMIT: Duration = Duration::from_secs(3600);
const PIECE: usize = 1 << 16;
/// Datagrams that quinn gives the system together.
const TOGETHER: usize = 10;

fn main() -> Outcome<()> {
    let mut words = BTreeMap::new();
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').ok_or("NAME=VALUE")?;
        words.insert(name.to_owned(), value.to_owned());
    }
    let first: u64 = words["seed"].parse()?;
    let count: u64 = words["count"].parse()?;
    for seed in first..first + count {
        let mut world = World::new(&words, seed)?;
        world.run()?;
        println!("{}", world.report());
    }
    Ok(())
}

/// One direction of a link.
struct Way {
    bits_per_s: f64,
    delay: Duration,
    room: usize,
    loss: f64,
    random: u64,
    /// When packets that are in the queue, or in service, leave it.
    leaving: VecDeque<Duration>,
    arrived: u64,
    dropped: u64,
    lost: u64,
}

impl Way {
    fn new(words: &BTreeMap<String, String>, path: usize, seed: u64) -> Outcome<Self> {
        let of_path = |name: &str| words[name].split(',').nth(path).ok_or("a path lacks a value");
        Ok(Self {
            bits_per_s: of_path("rate")?.parse()?,
            delay: Duration::from_secs_f64(of_path("delay_ms")?.parse::<f64>()? / 1e3),
            room: of_path("queue")?.parse()?,
            loss: of_path("loss")?.parse()?,
            random: seed ^ (path as u64) << 48,
            leaving: VecDeque::new(),
            arrived: 0,
            dropped: 0,
            lost: 0,
        })
    }

    /// A number from 0 to 1 (splitmix64).
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) as f64 / u64::MAX as f64
    }

    /// When a datagram that enters now comes out, if it does.
    fn take(&mut self, now: Duration, payload: usize) -> Option<Duration> {
        self.arrived += 1;
        while self.leaving.front().is_some_and(|leaves| *leaves <= now) {
            self.leaving.pop_front();
        }
        if self.leaving.len() > self.room {
            self.dropped += 1;
            return None;
        }
        let service = Duration::from_secs_f64(8.0 * (payload + HEADERS) as f64 / self.bits_per_s);
        let leaves = self.leaving.back().copied().unwrap_or(now) + service;
        self.leaving.push_back(leaves);
        if self.draw() < self.loss {
            self.lost += 1;
            return None;
        }
        Some(leaves + self.delay)
    }
}

struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
}

/// The address of an end, the client's being 0, on a path.
fn address(end: usize, path: usize) -> SocketAddr {
    (Ipv4Addr::new(10, 0, path as u8, 1 + end as u8), 4433).into()
}

/// What arrives: when, its number among all, at which end, on which path, what.
type Flying = Reverse<(Duration, u64, usize, usize, Vec<u8>)>;

struct World {
    start: Instant,
    now: Duration,
    /// The client and the server.
    ends: [End; 2],
    /// By sender and path.
    ways: [Vec<Way>; 2],
    /// How many paths the client has opened, the handshake's included.
    opened: usize,
    flying: BinaryHeap<Flying>,
    count: u64,
    bytes: u64,
    stream: Option<StreamId>,
    written: u64,
    read: u64,
    handshake: Option<Duration>,
    completion: Option<Duration>,
}

fn transport(words: &BTreeMap<String, String>) -> Outcome<Arc<TransportConfig>> {
    let mut config = TransportConfig::default();
    match words["cc"].as_str() {
        "cubic" => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
        "reno" => config.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        "bbr" => config.congestion_controller_factory(Arc::new(Bbr::default())),
        other => return Err(format!("cc is {other}").into()),
    };
    let paths = words["rate"].split(',').count();
    if paths > 1 {
        several_paths(&mut config, paths);
    }
    if let Some(mtu) = words.get("mtu") {
        config.initial_mtu(mtu.parse()?);
        config.mtu_discovery_config(None);
    }
    Ok(Arc::new(config))
}

impl World {
    fn new(words: &BTreeMap<String, String>, seed: u64) -> Outcome<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_file_iter(&words["chain"])?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(&words["key"])?;
        let mut roots = rustls::RootCertStore::empty();
        for each in &chain {
            roots.add(each.clone())?;
        }
        let tls = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        server.transport_config(transport(words)?);
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        client.transport_config(transport(words)?);
        let end = |number: u8, server: Option<ServerConfig>| {
            let mut config = EndpointConfig::default();
            let mut bytes = [number; 32];
            bytes[..8].copy_from_slice(&seed.to_be_bytes());
            config.rng_seed(Some(bytes));
            End {
                endpoint: endpoint(config, server.map(Arc::new)),
                connection: None,
            }
        };
        let start = Instant::now();
        let mut ends = [end(1, None), end(2, Some(server))];
        ends[0].connection = Some(ends[0].endpoint.connect(start, client, address(1, 0), "localhost")?);
        let paths = words["rate"].split(',').count();
        let ways = |seed: u64| (0..paths).map(|path| Way::new(words, path, seed)).collect::<Outcome<Vec<_>>>();
        Ok(Self {
            start,
            now: Duration::ZERO,
            ends,
            ways: [ways(2 * seed + 1)?, ways((2 * seed + 2) << 32)?],
            opened: 1,
            flying: BinaryHeap::new(),
            count: 0,
            bytes: words["bytes"].parse()?,
            stream: None,
            written: 0,
            read: 0,
            handshake: None,
            completion: None,
        })
    }

    /// Until the server has everything.
    fn run(&mut self) -> Outcome<()> {
        self.drive(0)?;
        while self.completion.is_none() {
            let arrival = self.flying.peek().map(|Reverse((at, ..))| *at);
            let timer =
                |end: &mut End| end.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
            let timers = self.ends.each_mut().map(timer);
            let due = timers.map(|at| at.map(|at| at.saturating_duration_since(self.start).max(self.now)));
            let next = [arrival, due[0], due[1]]
                .into_iter()
                .flatten()
                .min()
                .ok_or("nothing will happen any more")?;
            if next > LIMIT {
                return Err("it takes too long".into());
            }
            self.now = next;
            if arrival == Some(next) {
                let Reverse((_, _, to, path, datagram)) = self.flying.pop().ok_or("gone")?;
                self.arrive(to, path, &datagram)?;
                continue;
            }
            let number = usize::from(due[0] != Some(next));
            let now = self.start + self.now;
            if let Some((_, connection)) = &mut self.ends[number].connection {
                connection.handle_timeout(now);
            }
            self.drive(number)?;
        }
        Ok(())
    }

    fn arrive(&mut self, to: usize, path: usize, datagram: &[u8]) -> Outcome<()> {
        let now = self.start + self.now;
        let addresses = [address(1 - to, path), address(to, path)];
        let end = &mut self.ends[to];
        let mut answer = Vec::new();
        match handle(&mut end.endpoint, now, addresses, datagram, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut end.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = end.endpoint.accept(incoming, now, &mut answer, None);
                end.connection = Some(accepted.map_err(|error| error.cause.to_string())?);
            }
            Some(DatagramEvent::Response(transmit)) => self.put(to, path, &answer[..transmit.size]),
            None => {}
        }
        self.drive(to)
    }

    fn put(&mut self, from: usize, path: usize, datagram: &[u8]) {
        if let Some(at) = self.ways[from][path].take(self.now, datagram.len()) {
            self.count += 1;
            self.flying.push(Reverse((at, self.count, 1 - from, path, datagram.to_vec())));
        }
    }

    /// Does what an end wants done, and what its application does.
    fn drive(&mut self, number: usize) -> Outcome<()> {
        let now = self.start + self.now;
        loop {
            let end = &mut self.ends[number];
            let Some((handle, connection)) = &mut end.connection else { return Ok(()) };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = end.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = connection.poll() {
                match event {
                    Event::Connected if number == 0 => {
                        self.handshake = Some(self.now);
                        self.stream = connection.streams().open(Dir::Bi);
                    }
                    Event::ConnectionLost { reason } => return Err(reason.into()),
                    Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                        self.stream = connection.streams().accept(Dir::Bi);
                    }
                    _ => {}
                }
            }
            match self.stream {
                Some(stream) if number == 0 => write(connection, stream, self.bytes, &mut self.written)?,
                Some(stream) => {
                    self.read += read(connection, stream)?;
                    if self.read == self.bytes && self.completion.is_none() {
                        self.completion = Some(self.now);
                    }
                }
                None => {}
            }
            // A path is open as soon as the peer has issued a connection ID for it.
            while number == 0
                && self.handshake.is_some()
                && self.opened < self.ways[0].len()
                && open_path(connection, now, [0, 1].map(|end| address(end, self.opened)))
            {
                self.opened += 1;
            }
            let mut buffer = Vec::new();
            let Some((size, segment, to)) = transmit(connection, now, &mut buffer) else { return Ok(()) };
            let IpAddr::V4(to) = to.ip() else { return Err("the peer has an address of IPv4".into()) };
            for datagram in buffer[..size].chunks(segment.unwrap_or(size)) {
                self.put(number, to.octets()[2].into(), datagram);
            }
        }
    }

    fn report(&mut self) -> String {
        let seconds = |at: Option<Duration>| at.map_or(f64::NAN, |at| at.as_secs_f64());
        let sum = |of: fn(&Way) -> u64| self.ways[0].iter().map(of).sum::<u64>();
        let [arrived, dropped, lost] = [sum(|way| way.arrived), sum(|way| way.dropped), sum(|way| way.lost)];
        let by_path: Vec<u64> = self.ways[0].iter().map(|way| way.arrived).collect();
        let times = [("completion_s", self.completion), ("handshake_s", self.handshake)];
        let [completion, handshake] = times.map(|(name, at)| format!(r#""{name}": {}"#, seconds(at)));
        let back: u64 = self.ways[1].iter().map(|way| way.arrived).sum();
        let counts = format!(r#""sent": {arrived}, "dropped": {dropped}, "lost": {lost}, "back": {back}"#);
        format!("{{{completion}, {handshake}, {counts}, \"by_path\": {by_path:?}}}")
    }
}

/// Writes what there is room for.
fn write(connection: &mut Connection, stream: StreamId, bytes: u64, written: &mut u64) -> Outcome<()> {
    const ZEROS: [u8; PIECE] = [0; PIECE];
    while *written < bytes {
        let length = (bytes - *written).min(PIECE as u64) as usize;
        match connection.send_stream(stream).write(&ZEROS[..length]) {
            Ok(taken) => *written += taken as u64,
            Err(stack::WriteError::Blocked) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if *written == bytes {
            connection.send_stream(stream).finish()?;
        }
    }
    Ok(())
}

/// Reads what has come.
fn read(connection: &mut Connection, stream: StreamId) -> Outcome<u64> {
    let mut receiving = connection.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(true) else { return Ok(0) };
    let mut count = 0;
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => count += chunk.bytes.len() as u64,
            Ok(None) | Err(ReadError::Blocked) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let _ = chunks.finalize();
    Ok(count)
}
