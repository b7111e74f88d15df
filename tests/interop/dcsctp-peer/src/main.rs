//! A peer on dcsctp: single-homed, over UDP. Command line, payload and the JSON at the end: README.md.

#[path = "../../../../crates/anabranch-live/examples/sctp_peer/payload.rs"]
mod payload;

use std::collections::VecDeque;
use std::io::ErrorKind::WouldBlock;
use std::net::{IpAddr, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use dcsctp::api::{
    DcSctpSocket, ErrorKind, LifecycleId, Message, Options, PpId, SendError, SendOptions, SocketEvent, SocketTime,
    StreamId,
};
use payload::{Course, Sizes};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde_json::{Map, Value, json};

#[derive(Parser)]
struct Arguments {
    #[arg(value_parser = ["listen", "connect"])]
    role: String,
    #[arg(long)]
    local: IpAddr,
    #[arg(long)]
    remote: IpAddr,
    #[arg(long, default_value_t = 5000)]
    port: u16,
    #[arg(long, default_value_t = 5000)]
    remote_port: u16,
    #[arg(long)]
    encapsulation: u16,
    #[arg(long)]
    remote_encapsulation: u16,
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
    retransmissions: Option<u16>,
    #[arg(long)]
    lifetime: Option<u64>,
    #[arg(long)]
    interleaving: bool,
    #[arg(long)]
    reset_streams: bool,
    #[arg(long, default_value = "wait", value_parser = ["wait", "shutdown", "abort"])]
    close: String,
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    #[arg(long)]
    echo: bool,
    #[arg(long, default_value_t = 1200)]
    mtu: usize,
    #[arg(long)]
    rto_min: Option<u64>,
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    #[arg(long, default_value_t = 200)]
    linger: u64,
    #[arg(long)]
    wrong_byte: Option<u32>,
}

#[derive(PartialEq)]
enum Reset {
    NotYet,
    Waiting,
    Done,
}

struct Peer {
    want: Arguments,
    udp: UdpSocket,
    sctp: Box<dyn DcSctpSocket>,
    begin: Instant,
    course: Course,
    end: &'static str,
    echoes: VecDeque<Message>,
    next: u32,
    /// Messages that the socket took: how many, and how many of them are neither acknowledged nor given up.
    taken: u64,
    unsettled: u64,
    is_full: bool,
    is_closing: bool,
    reset: Reset,
    resets_sent: usize,
    resets_received: usize,
    resets_failed: usize,
    errors: Vec<String>,
    interleaving: bool,
}

impl Peer {
    fn new(want: Arguments) -> std::io::Result<Peer> {
        let udp = UdpSocket::bind((want.local, want.encapsulation))?;
        udp.connect((want.remote, want.remote_encapsulation))?;
        udp.set_nonblocking(true)?;
        let mut options = Options {
            local_port: want.port,
            remote_port: want.remote_port,
            mtu: want.mtu,
            max_message_size: 1 << 20,
            enable_message_interleaving: want.interleaving,
            max_retransmissions: None,
            ..Options::default()
        };
        if let Some(least) = want.rto_min.map(Duration::from_millis) {
            options.rto_min = least;
            options.min_rtt_variance = options.min_rtt_variance.min(least);
        }
        let sctp = dcsctp::new_socket("peer", &options);
        Ok(Peer {
            want,
            udp,
            sctp,
            begin: Instant::now(),
            course: Course::new(),
            end: "refused",
            echoes: VecDeque::new(),
            next: 0,
            taken: 0,
            unsettled: 0,
            is_full: false,
            is_closing: false,
            reset: Reset::NotYet,
            resets_sent: 0,
            resets_received: 0,
            resets_failed: 0,
            errors: Vec::new(),
            interleaving: false,
        })
    }

    fn run(&mut self) {
        if self.want.role == "connect" {
            self.sctp.connect();
        } else {
            println!("{}", json!({"event": "listening"}));
        }
        let limit = self.begin + Duration::from_secs_f64(self.want.timeout);
        let linger = Duration::from_millis(self.want.linger);
        loop {
            let now = Instant::now();
            self.sctp.advance_time(SocketTime::zero() + (now - self.begin));
            self.read();
            while let Some(message) = self.sctp.get_next_message() {
                self.take(message);
            }
            // What happened comes first: an association that is now there, or room in its buffer.
            self.drain();
            let wait = self.write();
            self.close_when_done();
            self.drain();
            let until = match self.course.ended {
                Some(ended) if now >= ended + linger => return,
                Some(ended) => ended + linger,
                None if now >= limit => {
                    self.end = "timeout";
                    return;
                }
                None => limit,
            };
            let timer = self.sctp.poll_timeout() - SocketTime::zero();
            let timer = timer.saturating_sub(self.begin.elapsed());
            self.sleep(timer.min(until.saturating_duration_since(Instant::now())).min(wait));
        }
    }

    fn sleep(&self, time: Duration) {
        let mut files = [PollFd::new(&self.udp, PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let _ = poll(&mut files, Some(&time));
    }

    /// Packets that are there, but not more than a receive window takes before acknowledgements leave.
    fn read(&mut self) {
        let mut packet = [0; 1 << 16];
        for _ in 0..32 {
            match self.udp.recv(&mut packet) {
                Ok(length) => self.sctp.handle_input(&packet[..length]),
                Err(error) if error.kind() == WouldBlock => return,
                // Nobody listens there yet, or no longer.
                Err(_) => {}
            }
        }
    }

    fn take(&mut self, message: Message) {
        self.course.received.check(message.stream_id.0.into(), &message.payload, self.want.size);
        self.course.last_data = Some(Instant::now());
        let (count, total) = (self.course.received.messages, self.want.receive);
        if total >= 10 && count.is_multiple_of(total / 10) {
            println!("{}", json!({"event": "received", "messages": count}));
        }
        if self.want.echo {
            self.echoes.push_back(message);
        }
    }

    fn options(&self) -> SendOptions {
        SendOptions {
            unordered: self.want.unordered,
            lifetime: self.want.lifetime.map(Duration::from_millis),
            max_retransmissions: self.want.retransmissions,
            lifecycle_id: LifecycleId::new(self.taken + 1),
        }
    }

    /// Hands messages to the socket while it takes them; how long to wait before the next one is due.
    fn write(&mut self) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        let Some(established) = self.course.established.filter(|_| self.course.ended.is_none() && !self.is_closing) else {
            return LONG;
        };
        while let Some(message) = self.echoes.pop_front() {
            let Message { stream_id, ppid, payload } = message;
            if self.is_full {
                self.echoes.push_front(Message::new(stream_id, ppid, payload));
                return LONG;
            }
            self.send(stream_id.0.into(), payload);
        }
        while self.next < self.want.send && !self.is_full {
            if self.want.reset_streams && self.next == self.want.send / 2 && self.reset != Reset::Done {
                self.reset_streams();
                return LONG;
            }
            if self.want.rate > 0.0 {
                let due = established + Duration::from_secs_f64(f64::from(self.next) / self.want.rate);
                let wait = due.saturating_duration_since(Instant::now());
                if !wait.is_zero() {
                    return wait;
                }
            }
            let (stream, index) = (self.next % self.want.streams, self.next / self.want.streams);
            let mut message = Vec::with_capacity(self.want.size.1 + 8);
            payload::fill(&mut message, stream, index, self.want.size);
            if self.want.wrong_byte == Some(self.next) {
                *message.last_mut().expect("a message has a header") ^= 1;
            }
            if self.send(stream, message) {
                self.next += 1;
            }
        }
        LONG
    }

    /// Whether the socket took it.
    fn send(&mut self, stream: u32, payload: Vec<u8>) -> bool {
        let kept = payload.clone();
        let message = Message::new(StreamId(stream as u16), PpId(53), payload);
        match self.sctp.send(message, &self.options()) {
            Ok(()) => {
                self.course.sent.count(stream, &kept);
                self.taken += 1;
                self.unsettled += 1;
            }
            Err(SendError::ResourceExhaustion) => {
                self.is_full = true;
                return false;
            }
            Err(error) => self.errors.push(error.to_string()),
        }
        true
    }

    /// Resets all streams once what was sent is acknowledged; messages that wait would be dropped.
    fn reset_streams(&mut self) {
        // With data on its way, dcsctp 0.1.16 and usrsctp 0.9.5 may both wait for the other for ever.
        if self.reset == Reset::NotYet && self.unsettled == 0 {
            let streams: Vec<_> = (0..self.want.streams as u16).map(StreamId).collect();
            self.reset = Reset::Waiting;
            if let Err(error) = self.sctp.reset_streams(&streams) {
                self.errors.push(error.to_string());
                self.reset = Reset::Done;
            }
        }
    }

    fn close_when_done(&mut self) {
        let is_done = self.next == self.want.send && self.course.received.messages >= self.want.receive;
        if self.course.established.is_none() || self.course.ended.is_some() || self.is_closing || !is_done {
            return;
        }
        match self.want.close.as_str() {
            // dcsctp 0.1.16 sends SHUTDOWN as soon as nothing is on its way, and drops what waits to be
            // sent, the first time or again.
            "shutdown" if self.unsettled > 0 => return,
            "shutdown" => self.sctp.shutdown(),
            "abort" => {
                self.sctp.close();
                self.over("aborted");
            }
            _ => return,
        }
        self.is_closing = true;
    }

    fn over(&mut self, end: &'static str) {
        if self.course.ended.is_none() {
            self.end = end;
            self.course.ended = Some(Instant::now());
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.sctp.poll_event() {
            match event {
                SocketEvent::SendPacket(packet) => {
                    let _ = self.udp.send(&packet);
                }
                SocketEvent::OnConnected() => {
                    self.course.established = Some(Instant::now());
                    self.end = "lost";
                    self.interleaving = self.sctp.get_metrics().is_some_and(|known| known.uses_message_interleaving);
                    println!("{}", json!({"event": "established"}));
                }
                SocketEvent::OnClosed() => self.over("shutdown"),
                SocketEvent::OnAborted(kind, text) => {
                    self.over(if kind == ErrorKind::PeerReported { "aborted" } else { "lost" });
                    self.errors.push(text);
                }
                // The queue is full: told by `send` as well.
                SocketEvent::OnError(ErrorKind::ResourceExhaustion, _) => {}
                // A copy that the network made comes when the association is over.
                SocketEvent::OnError(..) if self.course.ended.is_some() => {}
                SocketEvent::OnError(_, text) => self.errors.push(text),
                SocketEvent::OnStreamsResetPerformed(streams) => {
                    self.resets_sent += streams.len();
                    self.reset = Reset::Done;
                }
                SocketEvent::OnStreamsResetFailed(streams) => {
                    self.resets_failed += streams.len();
                    self.reset = Reset::Done;
                }
                SocketEvent::OnIncomingStreamReset(streams) => {
                    // An empty list: all of them.
                    let all = if streams.is_empty() { self.want.streams as usize } else { streams.len() };
                    self.resets_received += all;
                }
                SocketEvent::OnLifecycleEnd(_) => self.unsettled -= 1,
                SocketEvent::OnTotalBufferedAmountLow() => self.is_full = false,
                _ => {}
            }
        }
    }

    fn report(&self) -> Value {
        let mut all = Map::new();
        all.insert("peer".into(), "dcsctp".into());
        all.insert("role".into(), self.want.role.clone().into());
        all.insert("end".into(), self.end.into());
        self.course.report(&mut all);
        all.insert("abandoned".into(), 0.into());
        all.insert("resets_sent".into(), self.resets_sent.into());
        all.insert("resets_received".into(), self.resets_received.into());
        all.insert("resets_failed".into(), self.resets_failed.into());
        all.insert("interleaving".into(), self.interleaving.into());
        all.insert("path_events".into(), json!([]));
        all.insert("errors".into(), json!(self.errors));
        Value::Object(all)
    }
}

fn main() -> ExitCode {
    let want = Arguments::parse();
    let mut peer = match Peer::new(want) {
        Ok(peer) => peer,
        Err(error) => {
            eprintln!("dcsctp-peer: {error}");
            return ExitCode::from(2);
        }
    };
    peer.run();
    println!("{}", peer.report());
    ExitCode::from(u8::from(peer.course.established.is_none() || peer.end == "timeout"))
}
