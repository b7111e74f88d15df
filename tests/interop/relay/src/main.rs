//! Carries packets between two sides and impairs them on the way: UDP datagrams between two addresses, or
//! Ethernet frames between two interfaces, so that raw IP passes as well.
//!
//! One thread, plain poll. Ends when its standard input ends, and prints what it did as one line of JSON. The
//! words `cut` and `restore`, each on a line of the standard input, stop all packets and let them pass again;
//! `rebind ADDRESS:PORT` has it speak with the first side from there, as a NAT that has forgotten somebody.

mod fate;
mod frames;
mod marks;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, stdin};
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde_json::json;

use fate::{Fate, Impairment, Way};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    between: Between,
    #[command(flatten)]
    impairment: Impairment,
    /// Stops all packets this long after the start.
    #[arg(long, global = true, value_name = "MS")]
    cut_after: Option<u64>,
    /// Lets them pass again this long after that; without it, never.
    #[arg(long, global = true, value_name = "MS")]
    cut_for: Option<u64>,
}

#[derive(Subcommand)]
enum Between {
    /// Datagrams: what comes from the first side's remote address leaves for the second side's, and back.
    Udp {
        first_local: SocketAddr,
        first_remote: SocketAddr,
        second_local: SocketAddr,
        second_remote: SocketAddr,
    },
    /// Frames between two interfaces of this network namespace; needs root.
    Interfaces { first: String, second: String },
}

/// A packet on its way: when it leaves, its number (so that equal times keep their order), to which side, its
/// ECN field, its octets.
type Flying = Reverse<(Instant, u64, usize, u8, Vec<u8>)>;

struct Relay {
    sides: [UdpSocket; 2],
    /// Where the first side is, of datagrams.
    first: Option<SocketAddr>,
    /// The ECN field with which each side sends at present.
    marks: [u8; 2],
    ways: [Way; 2],
    flying: BinaryHeap<Flying>,
    count: u64,
    is_cut: bool,
    skips_control: bool,
}

/// Packets that are read from one side before the other has its turn.
const TURN: usize = 64;

fn prepare(side: &UdpSocket) -> std::io::Result<()> {
    side.set_nonblocking(true)?;
    marks::show(side);
    for size in [sockopt::set_socket_recv_buffer_size_force, sockopt::set_socket_send_buffer_size_force] {
        // Root alone may have more than the machine's limit.
        let _ = size(side, 16 << 20);
    }
    Ok(())
}

impl Relay {
    fn new(arguments: &Arguments) -> std::io::Result<Relay> {
        let sides = match &arguments.between {
            Between::Udp { first_local, first_remote, second_local, second_remote } => {
                let sides = [UdpSocket::bind(first_local)?, UdpSocket::bind(second_local)?];
                sides[0].connect(first_remote)?;
                sides[1].connect(second_remote)?;
                sides
            }
            Between::Interfaces { first, second } => [frames::open(first)?, frames::open(second)?],
        };
        for side in &sides {
            prepare(side)?;
        }
        let first = match &arguments.between {
            Between::Udp { first_remote, .. } => Some(*first_remote),
            Between::Interfaces { .. } => None,
        };
        let way = |number| Way::new(&arguments.impairment, number);
        Ok(Relay {
            sides,
            first,
            marks: [0; 2],
            ways: [way(0), way(1)],
            flying: BinaryHeap::new(),
            count: 0,
            is_cut: false,
            skips_control: matches!(arguments.between, Between::Interfaces { .. }),
        })
    }

    /// Takes what has come from a side.
    fn take(&mut self, from: usize, packet: &mut [u8]) {
        for _ in 0..TURN {
            let (length, mark) = match marks::receive(&self.sides[from], packet) {
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // Nobody listens there yet, or no longer.
                Err(_) => continue,
            };
            let now = Instant::now();
            if self.is_cut {
                self.ways[from].cut += 1;
                continue;
            }
            if self.skips_control && frames::is_control(&packet[..length]) {
                self.send(1 - from, 0, &packet[..length]);
                continue;
            }
            let Fate { leaves, copies, flip, mark } = self.ways[from].fate(now, length, mark);
            if let Some(bit) = flip {
                packet[bit / 8] ^= 1 << (bit % 8);
            }
            for _ in 0..copies {
                if leaves <= now {
                    self.send(1 - from, mark, &packet[..length]);
                } else {
                    self.count += 1;
                    let packet = packet[..length].to_vec();
                    self.flying.push(Reverse((leaves, self.count, 1 - from, mark, packet)));
                }
            }
        }
    }

    fn send(&mut self, to: usize, mark: u8, packet: &[u8]) {
        if self.marks[to] != mark {
            // The interfaces of frames have none.
            let _ = sockopt::set_ip_tos(&self.sides[to], mark);
            self.marks[to] = mark;
        }
        match self.sides[to].send(packet) {
            Ok(_) => self.ways[1 - to].carried += 1,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                self.ways[1 - to].refused += 1
            }
            Err(_) => self.ways[1 - to].overflowed += 1,
        }
    }

    /// Speaks with the first side from another address.
    fn rebind(&mut self, address: &str) -> std::io::Result<()> {
        let (Some(first), Ok(own)) = (self.first, address.parse::<SocketAddr>()) else {
            return Err(std::io::Error::other(format!("{address} is no address for datagrams")));
        };
        let side = UdpSocket::bind(own)?;
        side.connect(first)?;
        prepare(&side)?;
        (self.sides[0], self.marks[0]) = (side, 0);
        Ok(())
    }

    /// Lets go what is due; how long until the next.
    fn release(&mut self) -> Option<Duration> {
        while let Some(Reverse((due, ..))) = self.flying.peek() {
            let wait = due.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                return Some(wait);
            }
            let Some(Reverse((_, _, to, mark, packet))) = self.flying.pop() else { break };
            if self.is_cut {
                self.ways[1 - to].cut += 1;
            } else {
                self.send(to, mark, &packet);
            }
        }
        None
    }

    fn run(&mut self, arguments: &Arguments) -> std::io::Result<()> {
        let begin = Instant::now();
        let cut_at = arguments.cut_after.map(|after| begin + Duration::from_millis(after));
        let restore_at = cut_at.zip(arguments.cut_for).map(|(at, time)| at + Duration::from_millis(time));
        let mut pending = [cut_at.map(|at| (at, true)), restore_at.map(|at| (at, false))];
        let mut packet = vec![0; 1 << 16];
        let mut words = String::new();
        loop {
            let mut wait = self.release();
            for one in &mut pending {
                if let Some((at, is_cut)) = *one {
                    let left = at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        (self.is_cut, *one) = (is_cut, None);
                    } else {
                        wait = Some(wait.map_or(left, |wait| wait.min(left)));
                    }
                }
            }
            let time = wait.map(|wait| Timespec {
                tv_sec: wait.as_secs() as i64,
                tv_nsec: i64::from(wait.subsec_nanos()),
            });
            let stdin = stdin();
            let mut files = [
                PollFd::new(&self.sides[0], PollFlags::IN),
                PollFd::new(&self.sides[1], PollFlags::IN),
                PollFd::new(&stdin, PollFlags::IN),
            ];
            poll(&mut files, time.as_ref())?;
            let [first, second, control] = files.map(|file| file.revents());
            if !control.is_empty() {
                let mut some = [0; 64];
                let length = stdin.lock().read(&mut some)?;
                if length == 0 {
                    return Ok(());
                }
                words.push_str(&String::from_utf8_lossy(&some[..length]));
                while let Some((word, rest)) = words.split_once('\n') {
                    match word.trim().split_once(' ') {
                        Some(("rebind", address)) => self.rebind(address)?,
                        _ => self.is_cut = word.trim() == "cut",
                    }
                    words = rest.to_owned();
                }
            }
            for (side, events) in [first, second].into_iter().enumerate() {
                if !events.is_empty() {
                    self.take(side, &mut packet);
                }
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let relay = Relay::new(&arguments);
    let mut relay = match relay {
        Ok(relay) => relay,
        Err(error) => {
            eprintln!("relay: {error}");
            return ExitCode::from(2);
        }
    };
    println!("{}", json!({"event": "ready"}));
    let result = relay.run(&arguments);
    let [forward, back] = &relay.ways;
    println!("{}", json!({"forward": forward.report(), "back": back.report()}));
    if let Err(error) = result {
        eprintln!("relay: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
