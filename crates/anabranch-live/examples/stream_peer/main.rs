//! An end of TCP or MPTCP behind TUN devices, for tests against the kernel and other stacks; root only.
//!
//! `stream_peer listen|connect [--protocol tcp|mptcp] --tun NAME=ADDRESS[,ADDRESS]... [--remote ADDRESS,...]
//! [--port N] [--send BYTES] [--receive BYTES] [--settings JSON] [--loss P] [--duplicate P] [--reorder P]
//! [--delay MS] ...` sends so many bytes of a pattern, compares what it gets with the same pattern, and
//! prints lines of JSON; the last one says how it ended.
#![expect(clippy::disallowed_types, reason = "it measures by the wall clock")]

mod impaired;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration as StdDuration, Instant};

use anabranch_live::Handle;
use anabranch_live::driver::{Carrier, Driver, DriverSettings, Randomness};
use anabranch_live::stream::{Host, HostEvent, Settings, StreamEnd};
use anabranch_live::tun::TunDevice;
use anabranch_transport::endpoint::Command;
use anabranch_transport::flow::PathId;
use anabranch_transport::report::Row;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::{mptcp, tcp};
use impaired::{Impaired, Weather};
use serde_json::{Value, json};

/// The length of the pattern, a prime number, so that a segment in the place of another one is always
/// noticed.
const PERIOD: usize = 65_521;
/// Bytes handed over at a time.
const CHUNK: usize = 65_536;

/// The pattern that every peer sends.
fn pattern() -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        (state >> 16) as u8
    };
    let period: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
    // Long enough that any chunk is a slice of it.
    period.iter().copied().cycle().take(PERIOD + (1 << 24)).collect()
}

type Words = BTreeMap<String, String>;

fn read_words() -> Result<(String, Words), String> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().ok_or("role: give listen or connect")?;
    let mut words = Words::new();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} has no value"))?;
        words.insert(name.trim_start_matches('-').to_owned(), value);
    }
    Ok((role, words))
}

fn number<T: std::str::FromStr>(words: &Words, name: &str, default: T) -> Result<T, String> {
    words
        .get(name)
        .map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name} = {text} is no number")))
}

fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    text.split(',').map(|word| word.parse().map_err(|_| format!("{word} is no address"))).collect()
}

/// The work to do, and its progress.
struct Work {
    pattern: Vec<u8>,
    id: Option<Handle>,
    send: u64,
    sent: u64,
    receive: u64,
    received: u64,
    wrong_at: Option<u64>,
    close: String,
    half_close: bool,
    has_shut_down: bool,
    echo: bool,
    backlog: Vec<u8>,
    /// Reading stops once, after this many bytes, for this long.
    pause: Option<(u64, Duration)>,
    resume_at: Option<Time>,
    begun: Instant,
    last: Instant,
    done: Sender<Value>,
    report: Value,
}

impl Work {
    fn on_event<E: StreamEnd>(&mut self, host: &mut Host<E>, now: Time, id: Handle, event: HostEvent) {
        let ms = self.begun.elapsed().as_millis() as u64;
        match event {
            HostEvent::Accepted | HostEvent::Connected => {
                self.id = Some(id);
                self.begun = Instant::now();
                println!("{}", json!({"event": "connected"}));
            }
            HostEvent::Received(bytes) if Some(id) == self.id => {
                let start = (self.received % PERIOD as u64) as usize;
                if self.wrong_at.is_none() && bytes != self.pattern[start..start + bytes.len()] {
                    let differs =
                        bytes.iter().zip(&self.pattern[start..]).position(|(one, other)| one != other);
                    self.wrong_at = differs.map(|place| self.received + place as u64);
                }
                self.received += bytes.len() as u64;
                self.last = Instant::now();
                if self.echo {
                    self.backlog.extend(bytes);
                }
                if let Some((_, time)) = self.pause.take_if(|(at, _)| self.received >= *at) {
                    println!("{}", json!({"event": "paused", "ms": ms}));
                    self.resume_at = Some(now + time);
                    host.command(now, id, Command::PauseReading);
                }
            }
            HostEvent::PeerFinished => {
                self.count(host, id);
                println!(
                    "{}",
                    json!({"event": "peer_finished", "ms": ms, "received": self.received, "scalars": self.report})
                );
            }
            HostEvent::PathChanged { path, state } => {
                let remote = host
                    .addresses(id)
                    .and_then(|routes| routes.get(path.index()))
                    .map(|route| route.remote.to_string());
                println!(
                    "{}",
                    json!({"event": "path", "ms": ms, "path": path.0, "remote": remote, "state": state.name()})
                );
            }
            HostEvent::AddressAdded(path) => {
                println!("{}", json!({"event": "address_added", "ms": ms, "path": path.0}));
            }
            HostEvent::AddressDeleted(path) => {
                println!("{}", json!({"event": "address_deleted", "ms": ms, "path": path.0}));
            }
            HostEvent::Closed(reason) => {
                self.count(host, id);
                let seconds = self.last.duration_since(self.begun).as_secs_f64();
                let report = json!({
                    "event": "closed", "reason": format!("{reason:?}").to_lowercase(), "sent": self.sent,
                    "received": self.received, "wrong_at": self.wrong_at, "seconds": seconds, "scalars": self.report,
                });
                let _ = self.done.send(report);
            }
            _ => {}
        }
    }

    /// Reads the endpoint's counters.
    fn count<E: StreamEnd>(&mut self, host: &Host<E>, id: Handle) {
        if let Some(end) = host.endpoint(id) {
            let mut row = Row::default();
            end.report(&mut row.section("end"));
            let scalars = row.scalars().map(|(name, value)| (name.to_owned(), json!(value)));
            self.report = Value::Object(scalars.collect());
        }
    }

    fn pump<E: StreamEnd>(&mut self, host: &mut Host<E>, now: Time) {
        let Some(id) = self.id else { return };
        if let Some(at) = self.resume_at
            && at <= now
        {
            self.resume_at = None;
            println!("{}", json!({"event": "resumed", "received": self.received}));
            host.command(now, id, Command::ResumeReading);
        }
        while !self.backlog.is_empty() {
            let Ok(taken) = host.send(now, id, &self.backlog) else { break };
            self.backlog.drain(..taken);
            self.sent += taken as u64;
            if !self.backlog.is_empty() {
                break;
            }
        }
        while self.sent < self.send && !self.echo {
            let start = (self.sent % PERIOD as u64) as usize;
            let length = (self.send - self.sent).min(CHUNK as u64) as usize;
            let Ok(taken) = host.send(now, id, &self.pattern[start..start + length]) else { break };
            self.sent += taken as u64;
            if taken < length {
                break;
            }
        }
        let has_sent = if self.echo {
            self.received >= self.receive && self.backlog.is_empty()
        } else {
            self.sent >= self.send
        };
        let has_received = self.received >= self.receive;
        if has_sent && (has_received || self.half_close) && !self.has_shut_down {
            let command = match self.close.as_str() {
                "abort" if has_received => Command::Abort,
                "shutdown" => Command::Shutdown,
                _ => return,
            };
            self.has_shut_down = true;
            host.command(now, id, command);
        }
    }
}

#[expect(clippy::too_many_lines, reason = "the steps of a program, one after the other")]
fn run<E: StreamEnd>(role: &str, words: &Words, config: E::Config) -> Result<bool, String> {
    let tun = words.get("tun").ok_or("tun: give NAME=ADDRESS")?;
    let devices: Vec<TunDevice> = tun.split(';').map(str::parse).collect::<Result<_, _>>()?;
    let probability = |name| number(words, name, 0.0);
    let weather = Weather {
        loss: probability("loss")?,
        duplication: probability("duplicate")?,
        reordering: probability("reorder")?,
        late_by: Duration::from_millis(number(words, "reorder-by", 2)?),
        delay: Duration::from_millis(number(words, "delay", 0)?),
        marks: probability("mark")?,
    };
    let (mtu, most_accepted) = (number(words, "mtu", 1_500)?, 1_000);
    let port = number(words, "port", 5_001)?;
    let local_port = number(words, "local-port", 0)?;
    let seed = number(words, "seed", 1)?;
    let limit = StdDuration::from_secs(number(words, "timeout", 60)?);
    let linger = StdDuration::from_millis(number(words, "linger", 0)?);
    let cut_after: u64 = number(words, "cut-after", 0)?;
    let restore_after: u64 = number(words, "restore-after", 0)?;
    let cut = words.get("cut").map_or(Ok(Vec::new()), |text| addresses(text))?;
    let (done, finished) = channel();
    let pause = number(words, "pause-at", 0)?;
    let work = Work {
        pattern: pattern(),
        id: None,
        send: number(words, "send", 0)?,
        sent: 0,
        receive: number(words, "receive", 0)?,
        received: 0,
        wrong_at: None,
        close: words.get("close").cloned().unwrap_or_else(|| "shutdown".into()),
        half_close: words.get("half-close").is_some_and(|word| word == "yes"),
        has_shut_down: false,
        echo: words.get("echo").is_some_and(|word| word == "yes"),
        backlog: Vec::new(),
        pause: (pause > 0).then_some((pause, Duration::from_millis(number(words, "pause-for", 500)?))),
        resume_at: None,
        begun: Instant::now(),
        last: Instant::now(),
        done,
        report: Value::Null,
    };
    let work = Arc::new(Mutex::new(work));
    let shared = Arc::clone(&work);
    let settings = DriverSettings {
        addresses: Vec::new(),
        carrier: Carrier::Tun(devices),
        mtu,
        most_accepted,
        shared_key: Vec::new(),
    };
    let driver = Driver::<Impaired<Host<E>>>::drive(
        settings,
        |addresses, Randomness { secret, streams }| {
            let host = Host::new(Settings { addresses, mtu, most_accepted }, secret, streams);
            Impaired::new(host, weather, seed)
        },
        Box::new(move |host: &mut Impaired<Host<E>>, now, events: Vec<(Handle, HostEvent)>| {
            let mut work = shared.lock().expect("nobody panics with it");
            for (id, event) in events {
                work.on_event(&mut host.host, now, id, event);
            }
            work.pump(&mut host.host, now);
        }),
    )?;
    if role == "listen" {
        driver.ask(move |host, _| host.host.listen(port, &config)).ok_or("the driver has stopped")??;
        println!("{}", json!({"event": "listening"}));
    } else {
        let remote = addresses(words.get("remote").ok_or("remote: give an address")?)?;
        driver
            .ask(move |host, now| host.host.connect(now, &config, local_port, &remote, port))
            .ok_or("the driver has stopped")??;
    }
    let begun = Instant::now();
    let (mut is_cut, mut is_restored) = (false, false);
    let mut commands = match words.get("at") {
        Some(text) => text.split(',').map(command).collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    let report = loop {
        if let Ok(report) = finished.recv_timeout(StdDuration::from_millis(20)) {
            break Some(report);
        }
        let passed = begun.elapsed();
        if pause > 0 {
            let work = Arc::clone(&work);
            driver.order(move |host, now| {
                work.lock().expect("nobody panics with it").pump(&mut host.host, now);
            });
        }
        // What to do this long after the connection is open.
        let open = {
            let work = work.lock().expect("nobody panics with it");
            work.id.map(|_| work.begun.elapsed()).unwrap_or_default()
        };
        if cut_after > 0 && !is_cut && open.as_millis() as u64 >= cut_after {
            is_cut = true;
            let cut = cut.clone();
            println!("{}", json!({"event": "cut"}));
            driver.order(move |host, _| host.cut = cut);
        }
        if restore_after > 0 && !is_restored && open.as_millis() as u64 >= restore_after {
            is_restored = true;
            println!("{}", json!({"event": "restored"}));
            driver.order(|host, _| host.cut.clear());
        }
        while let Some(place) = commands.iter().position(|(at, _)| open.as_millis() as u64 >= *at) {
            let (_, command) = commands.remove(place);
            let work = Arc::clone(&work);
            println!("{}", json!({"event": "command", "name": command.name()}));
            driver.order(move |host, now| {
                if let Some(id) = work.lock().expect("nobody panics with it").id {
                    host.host.command(now, id, command);
                }
            });
        }
        if passed > limit {
            break None;
        }
    };
    // TIME-WAIT answers for a while.
    std::thread::sleep(linger);
    println!("{}", report.clone().unwrap_or_else(|| json!({"event": "timeout"})));
    Ok(report.is_some())
}

/// A command, perhaps with a path, at this many ms after the beginning: `300:delete_address:1`.
fn command(text: &str) -> Result<(u64, Command), String> {
    let refusal = || format!("at = {text} is no command of the form MS:NAME:PATH");
    let mut parts = text.split(':');
    let at = parts.next().and_then(|part| part.parse().ok()).ok_or_else(refusal)?;
    let name = parts.next().ok_or_else(refusal)?;
    let path = PathId(parts.next().map_or(Ok(0), str::parse).map_err(|_| refusal())?);
    let command = match name {
        "abort" => Command::Abort,
        "add_address" => Command::AddAddress(path),
        "delete_address" => Command::DeleteAddress(path),
        "set_peer_primary" => Command::SetPeerPrimary(path),
        "set_primary" => Command::SetPrimary(path),
        _ => return Err(refusal()),
    };
    Ok((at, command))
}

fn settings<T: serde::de::DeserializeOwned>(words: &Words) -> Result<T, String> {
    let text = words.get("settings").map_or("{}", String::as_str);
    serde_json::from_str(text).map_err(|error| format!("settings: {error}"))
}

fn main() -> ExitCode {
    let run = || {
        let (role, words) = read_words()?;
        match words.get("protocol").map_or("tcp", String::as_str) {
            "tcp" => run::<tcp::Connection>(&role, &words, settings(&words)?),
            "mptcp" => run::<mptcp::Connection>(&role, &words, settings(&words)?),
            other => Err(format!("protocol = {other} is not one of tcp, mptcp")),
        }
    };
    match run() {
        Ok(has_ended) => ExitCode::from(u8::from(!has_ended)),
        Err(error) => {
            eprintln!("stream_peer: {error}");
            ExitCode::from(2)
        }
    }
}
