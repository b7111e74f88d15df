//! An end of SCTP, multi-homed, over UDP or raw IP, for tests against other stacks. Command line, payload and
//! the JSON at the end: tests/interop/README.md.
#![expect(clippy::disallowed_types, reason = "it measures by the wall clock")]

mod payload;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anabranch_live::Handle;
use anabranch_live::driver::{Carrier, Driver, DriverSettings};
use anabranch_live::sctp::{Host, HostEvent, Outbound, Refusal};
use anabranch_live::tun::TunDevice;
use anabranch_transport::endpoint::{CloseReason, Command, Reliability};
use anabranch_transport::sctp::Config;
use anabranch_transport::time::Time;
use clap::Parser;
use payload::{Course, Flow, Sizes};
use serde_json::{Map, Value, json};

#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
struct Arguments {
    #[arg(value_parser = ["listen", "connect"])]
    role: String,
    #[arg(long, value_delimiter = ',')]
    local: Vec<IpAddr>,
    #[arg(long, value_delimiter = ',')]
    remote: Vec<IpAddr>,
    #[arg(long, default_value_t = 5000)]
    port: u16,
    #[arg(long, default_value_t = 5000)]
    remote_port: u16,
    #[arg(long)]
    encapsulation: Option<u16>,
    #[arg(long)]
    remote_encapsulation: Option<u16>,
    /// TUN devices that packets travel through: `NAME=ADDRESS[,ADDRESS]`.
    #[arg(long, value_delimiter = ';')]
    tun: Vec<TunDevice>,
    #[arg(long, default_value_t = 0)]
    send: u32,
    #[arg(long, default_value_t = 0)]
    receive: u64,
    #[arg(long, default_value = "1000", value_parser = payload::parse_sizes)]
    size: Sizes,
    #[arg(long, default_value_t = 1)]
    streams: u32,
    #[arg(long)]
    unordered: bool,
    #[arg(long)]
    retransmissions: Option<u32>,
    #[arg(long)]
    lifetime: Option<u64>,
    #[arg(long)]
    interleaving: bool,
    #[arg(long)]
    nr_sack: bool,
    #[arg(long)]
    reset_streams: bool,
    #[arg(long, default_value = "wait", value_parser = ["wait", "shutdown", "abort"])]
    close: String,
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    #[arg(long)]
    echo: bool,
    #[arg(long, default_value_t = 1200)]
    mtu: u32,
    #[arg(long)]
    rto_min: Option<u32>,
    #[arg(long)]
    heartbeat: Option<u32>,
    #[arg(long)]
    path_max_retrans: Option<u32>,
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    #[arg(long, default_value_t = 200)]
    linger: u64,
    #[arg(long)]
    wrong_byte: Option<u32>,
    /// Further settings of the association, as the file of a scenario has them, in JSON.
    #[arg(long, default_value = "{}")]
    settings: String,
}

impl Arguments {
    fn config(&self) -> Result<Config, String> {
        let mut all: Map<String, Value> =
            serde_json::from_str(&self.settings).map_err(|error| error.to_string())?;
        let mut set = |name: &str, value: Value| {
            all.entry(name).or_insert(value);
        };
        set("streams", json!(self.streams.max(64)));
        set("interleaving", self.interleaving.into());
        set("nr_sack", self.nr_sack.into());
        set("send_buffer", "1 MB".into());
        set("receive_buffer", "1 MB".into());
        let ms = |time: u32| json!(format!("{time} ms"));
        if let Some(least) = self.rto_min {
            set("rto_min", ms(least));
            set("rto_initial", ms(2 * least));
            set("rto_max", ms(10 * least));
        }
        if let Some(interval) = self.heartbeat {
            set("hb_interval", ms(interval));
        }
        if let Some(most) = self.path_max_retrans {
            set("path_max_retrans", most.into());
        }
        serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())
    }
}

/// The state that the driver's thread and the main one share.
struct State {
    want: Arguments,
    id: Option<Handle>,
    course: Course,
    end: &'static str,
    waiting: VecDeque<Outbound>,
    next: u32,
    is_closing: bool,
    abandoned: u64,
    is_reset_asked: bool,
    resets_sent: u32,
    resets_received: u32,
    resets_failed: u32,
    restarts: u32,
    path_events: Vec<String>,
    errors: Vec<String>,
}

impl State {
    fn on_event(&mut self, host: &mut Host, now: Time, id: Handle, event: HostEvent) {
        let seconds = self.course.established.map_or(0.0, |at| at.elapsed().as_secs_f64());
        let remote = |host: &Host, path: usize| {
            host.addresses(id)
                .and_then(|(routes, _)| routes.get(path))
                .map_or("?".into(), |route| route.remote.to_string())
        };
        match event {
            HostEvent::Accepted { .. } | HostEvent::Connected => {
                self.id = Some(id);
                self.course.established = Some(Instant::now());
                self.end = "lost";
                println!("{}", json!({"event": "established"}));
            }
            HostEvent::Received(message) => {
                let (stream, bytes) = (message.stream, message.bytes);
                self.course.received.check(stream.into(), &bytes, self.want.size);
                self.course.last_data = Some(Instant::now());
                let (count, total) = (self.course.received.messages, self.want.receive);
                if total >= 10 && count.is_multiple_of(total / 10) {
                    println!("{}", json!({"event": "received", "messages": count}));
                }
                host.has_read(now, id, 1, bytes.len() as u64);
                if self.want.echo {
                    self.waiting.push_back(self.outbound(stream.into(), bytes));
                }
            }
            HostEvent::Closed { reason, .. } => {
                self.end = match reason {
                    CloseReason::Aborted => "aborted",
                    CloseReason::Lost if self.course.established.is_none() => "refused",
                    CloseReason::Lost => "lost",
                    CloseReason::Shutdown => "shutdown",
                };
                self.course.ended = Some(Instant::now());
            }
            HostEvent::Abandoned(_) => self.abandoned += 1,
            HostEvent::Restarted => {
                // The peer begins from its first message.
                self.restarts += 1;
                self.course.received = Flow::default();
                println!("{}", json!({"event": "restarted"}));
            }
            HostEvent::StreamReset { .. } => self.resets_sent += 1,
            HostEvent::StreamResetByPeer { stream } => {
                self.resets_received += if stream.is_some() { 1 } else { self.want.streams };
            }
            HostEvent::StreamResetRefused { .. } => self.resets_failed += 1,
            HostEvent::PathChanged { path, state } => {
                let state = match format!("{state:?}").as_str() {
                    "Active" => "available".to_owned(),
                    "Inactive" => "unreachable".to_owned(),
                    other => other.to_lowercase(),
                };
                self.path_events.push(format!("{seconds:.3} {} {state}", remote(host, path.index())));
            }
            HostEvent::PrimaryChanged { to, .. } => {
                self.path_events.push(format!("{seconds:.3} {} primary", remote(host, to.index())));
            }
            _ => {}
        }
    }

    fn outbound(&self, stream: u32, bytes: Vec<u8>) -> Outbound {
        let reliability = match (self.want.retransmissions, self.want.lifetime) {
            (_, Some(ms)) => Reliability::Timed(anabranch_transport::time::Duration::from_millis(ms)),
            (Some(most), None) => Reliability::LimitedRetransmissions(most),
            (None, None) => Reliability::Reliable,
        };
        Outbound { stream: stream as u16, ppid: 53, unordered: self.want.unordered, reliability, bytes }
    }

    /// The next message that is due, in the order of the command line; none before its time.
    fn next_message(&mut self) -> Option<Outbound> {
        let begin = self.course.established?;
        if self.next == self.want.send {
            return None;
        }
        if self.want.rate > 0.0 && begin.elapsed().as_secs_f64() < f64::from(self.next) / self.want.rate {
            return None;
        }
        let (stream, index) = (self.next % self.want.streams, self.next / self.want.streams);
        let mut bytes = Vec::with_capacity(self.want.size.1 + 8);
        payload::fill(&mut bytes, stream, index, self.want.size);
        if self.want.wrong_byte == Some(self.next) {
            *bytes.last_mut().expect("a message has a header") ^= 1;
        }
        self.next += 1;
        Some(self.outbound(stream, bytes))
    }

    /// Hands over messages until there is no room, and closes when all is done.
    fn pump(&mut self, host: &mut Host, now: Time) {
        let Some(id) = self.id.filter(|_| self.course.ended.is_none() && !self.is_closing) else { return };
        if self.is_resetting(host, now, id) {
            return;
        }
        while let Some(message) = self.waiting.pop_front().or_else(|| self.next_message()) {
            let (stream, bytes) = (message.stream, message.bytes.clone());
            match host.send(now, id, message) {
                Ok(_) => {
                    self.course.sent.count(stream.into(), &bytes);
                    if self.is_resetting(host, now, id) {
                        return;
                    }
                }
                Err(Refusal::Full(message)) => {
                    self.waiting.push_front(message);
                    return;
                }
                // The event tells why it is closed.
                Err(Refusal::Closed) => return,
                Err(Refusal::Impossible) => self.errors.push(format!("stream {stream} takes no message")),
            }
        }
        if self.next < self.want.send || self.course.received.messages < self.want.receive {
            return;
        }
        let command = match self.want.close.as_str() {
            "shutdown" => Command::Shutdown,
            "abort" => Command::Abort,
            _ => return,
        };
        self.is_closing = true;
        host.command(now, id, command);
    }

    /// Asks for the reset of all streams after half of the messages; gives whether that is still going on.
    fn is_resetting(&mut self, host: &mut Host, now: Time, id: Handle) -> bool {
        if !self.want.reset_streams || self.next < self.want.send / 2 {
            return false;
        }
        if !self.is_reset_asked {
            self.is_reset_asked = true;
            let streams: Vec<u16> = (0..self.want.streams).map(|stream| stream as u16).collect();
            if let Err(error) = host.reset_streams(now, id, &streams) {
                self.errors.push(error);
                self.resets_failed = self.want.streams;
            }
        }
        self.resets_sent + self.resets_failed < self.want.streams
    }

    fn report(&self) -> Value {
        let mut all = Map::new();
        all.insert("peer".into(), "anabranch".into());
        all.insert("role".into(), self.want.role.clone().into());
        all.insert("end".into(), self.end.into());
        self.course.report(&mut all);
        all.insert("abandoned".into(), self.abandoned.into());
        all.insert("resets_sent".into(), self.resets_sent.into());
        all.insert("resets_received".into(), self.resets_received.into());
        all.insert("resets_failed".into(), self.resets_failed.into());
        all.insert("restarts".into(), self.restarts.into());
        all.insert("path_events".into(), json!(self.path_events));
        all.insert("errors".into(), json!(self.errors));
        Value::Object(all)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics with it")
}

fn run(want: Arguments) -> Result<Arc<Mutex<State>>, String> {
    let config = want.config()?;
    let (limit, linger, is_listening) =
        (Duration::from_secs_f64(want.timeout), Duration::from_millis(want.linger), want.role == "listen");
    let (port, remote_port, remotes) = (want.port, want.remote_port, want.remote.clone());
    let remote_encapsulation = want.remote_encapsulation;
    let carrier = match want.encapsulation {
        _ if !want.tun.is_empty() => Carrier::Tun(want.tun.clone()),
        Some(port) => Carrier::Udp(port),
        None => Carrier::Ip,
    };
    // With the headers of IP and UDP.
    let mtu = want.mtu + if matches!(carrier, Carrier::Udp(_)) { 28 } else { 20 };
    let settings = DriverSettings {
        addresses: want.local.clone(),
        carrier,
        mtu,
        most_accepted: 1,
        shared_key: Vec::new(),
    };
    let state = Arc::new(Mutex::new(State {
        want,
        id: None,
        course: Course::new(),
        end: "refused",
        waiting: VecDeque::new(),
        next: 0,
        is_closing: false,
        abandoned: 0,
        is_reset_asked: false,
        resets_sent: 0,
        resets_received: 0,
        resets_failed: 0,
        restarts: 0,
        path_events: Vec::new(),
        errors: Vec::new(),
    }));
    let shared = Arc::clone(&state);
    let driver = Driver::start(
        settings,
        Box::new(move |host: &mut Host, now, events| {
            let mut state = lock(&shared);
            for (id, event) in events {
                state.on_event(host, now, id, event);
            }
            state.pump(host, now);
        }),
    )?;
    if is_listening {
        driver.ask(move |host, _| host.listen(port, &config)).ok_or("the driver has stopped")??;
        println!("{}", json!({"event": "listening"}));
    } else {
        let peer: Vec<_> = remotes.into_iter().map(|remote| (remote, remote_encapsulation)).collect();
        driver
            .ask(move |host, now| host.connect(now, &config, port, &peer, remote_port))
            .ok_or("the driver has stopped")??;
    }
    let begin = Instant::now();
    loop {
        // Messages that are due by the clock wait for this; the others do not.
        std::thread::sleep(Duration::from_millis(2));
        let mut now = lock(&state);
        if now.course.ended.is_some_and(|ended| ended.elapsed() >= linger) {
            break;
        }
        if now.course.ended.is_none() && begin.elapsed() >= limit {
            now.end = "timeout";
            break;
        }
        if now.want.rate > 0.0 && now.next < now.want.send {
            let state = Arc::clone(&state);
            driver.order(move |host, at| lock(&state).pump(host, at));
        }
    }
    Ok(state)
}

fn main() -> ExitCode {
    let state = match run(Arguments::parse()) {
        Ok(state) => state,
        Err(error) => {
            eprintln!("sctp_peer: {error}");
            return ExitCode::from(2);
        }
    };
    let state = lock(&state);
    println!("{}", state.report());
    ExitCode::from(u8::from(state.course.established.is_none() || state.end == "timeout"))
}
