//! Drill tests: one short exchange per rule of RFC 9260, RFC 3758, RFC 7496 and RFC 7829.

mod acknowledgement;
mod asconf;
mod closing;
mod data;
mod handshake;
mod linux_failover;
mod loss;
mod nr_sack;
mod partial_delivery;
mod partial_reliability;
mod paths;
mod rfc7829;
mod send_buffer;
mod shutdown;
mod stream_reconfiguration;
mod streams;
mod window;

use crate::endpoint::{CloseReason, Reliability};
use crate::flow::{Payload, Side};
use crate::observed::{Observed as _, PathSample};
use crate::path;
use crate::sctp::testing::{Filter, Logged, Pair, config, ms};
use crate::sctp::{Config, Profile};
use crate::time::Duration;
use crate::wire::Body;
use crate::wire::sctp::chunk::{Chunk, Sack};

const ONCE: Reliability = Reliability::LimitedRetransmissions(0);

fn rfc9260() -> Config {
    config(Profile::Rfc9260)
}

/// The call of the voip-sctp study.
fn voip(path_max_retrans: u32, rto_max: Duration) -> Config {
    Config {
        path_max_retrans: Some(path_max_retrans),
        rto_min: Some(ms(20)),
        rto_max: Some(rto_max),
        hb_interval: Some(ms(100)),
        ..config(Profile::Ns2)
    }
}

/// Sends a message every 20 ms for this long. Returns what was sent.
fn talk(pair: &mut Pair, length: Duration, how: Reliability) -> Vec<Payload> {
    let end = pair.now + length;
    let mut sent = Vec::new();
    while pair.now < end {
        sent.push(pair.send(Side::A, 160, how, how == ONCE));
        pair.run_for(ms(20));
    }
    sent
}

fn sample(pair: &Pair, side: Side, path: usize) -> PathSample {
    let mut samples = Vec::new();
    pair.ends[side.index()].sample_paths(&mut samples);
    samples[path]
}

fn closed(pair: &Pair, side: Side) -> Option<CloseReason> {
    pair.closed_at(side).map(|(_, reason)| reason)
}

fn sack(packet: &Logged) -> &Sack {
    packet.chunks.iter().find_map(|c| if let Chunk::Sack(_, s) = c { Some(s) } else { None }).expect("a SACK")
}

/// Drops the first transmission of the data chunks with these numbers, counted from 0.
fn drop_data(numbers: &[u32]) -> Filter {
    let mut wanted = numbers.to_vec();
    let mut first = None;
    Box::new(move |_, from, packet| {
        let Body::Sctp(body) = &packet.body else { return false };
        body.chunks().any(|chunk| {
            let Chunk::Data(data) = chunk else { return false };
            if from != Side::A {
                return false;
            }
            let number = data.tsn.wrapping_sub(*first.get_or_insert(data.tsn));
            let at = wanted.iter().position(|&n| n == number);
            at.map(|at| wanted.remove(at)).is_some()
        })
    })
}
