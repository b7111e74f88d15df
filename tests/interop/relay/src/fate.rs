//! The fate of a packet: one direction of the relay.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clap::Args;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use crate::marks::CE;

/// Probabilities are from 0 to 1, for each packet by itself, the same in both directions.
#[derive(Args, Clone)]
pub struct Impairment {
    #[arg(long, global = true, default_value_t = 0.0)]
    loss: f64,
    #[arg(long, global = true, default_value_t = 0.0)]
    duplicate: f64,
    /// That a packet is late by `--reorder-by`, so that later ones overtake it.
    #[arg(long, global = true, default_value_t = 0.0)]
    reorder: f64,
    #[arg(long, global = true, default_value_t = 2.0, value_name = "MS")]
    reorder_by: f64,
    /// That one bit of the payload is flipped, which a checksum must find.
    #[arg(long, global = true, default_value_t = 0.0)]
    corrupt: f64,
    /// That a packet which is ECN-capable is marked.
    #[arg(long, global = true, default_value_t = 0.0)]
    mark: f64,
    #[arg(long, global = true, default_value_t = 0.0, value_name = "MS")]
    delay: f64,
    /// bit/s of what is relayed; 0: as fast as it goes.
    #[arg(long, global = true, default_value_t = 0.0)]
    rate: f64,
    /// Packets that wait for their turn at that rate; more are dropped.
    #[arg(long, global = true, default_value_t = 1000)]
    queue: usize,
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Packets of the second side, counted from 1, that are lost: the first and the last number of them.
    #[arg(long, global = true, num_args = 2, value_names = ["FIRST", "LAST"])]
    drop: Vec<u64>,
}

/// When a packet leaves, and how often: a lost one not at all.
pub struct Fate {
    pub leaves: Instant,
    pub copies: usize,
    /// The bit that is flipped, counted from the packet's first.
    pub flip: Option<usize>,
    /// Its ECN field.
    pub mark: u8,
}

/// One direction, and what it counted.
pub struct Way {
    impairment: Impairment,
    rng: Xoshiro256PlusPlus,
    is_second: bool,
    /// When those that wait at the rate will have left.
    waiting: VecDeque<Instant>,
    offered: u64,
    bytes: u64,
    largest: usize,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    marked: u64,
    /// Packets that were sent on.
    pub carried: u64,
    /// Packets that came while nothing passed.
    pub cut: u64,
    /// Packets for which there was no room, in our queue or the kernel's.
    pub overflowed: u64,
    /// Packets to a port without a listener.
    pub refused: u64,
}

impl Way {
    /// The directions draw from the same seed, but differently.
    pub fn new(impairment: &Impairment, number: u64) -> Way {
        Way {
            rng: Xoshiro256PlusPlus::seed_from_u64(impairment.seed * 2 + number),
            impairment: impairment.clone(),
            is_second: number == 1,
            waiting: VecDeque::new(),
            offered: 0,
            bytes: 0,
            largest: 0,
            lost: 0,
            duplicated: 0,
            reordered: 0,
            corrupted: 0,
            marked: 0,
            carried: 0,
            cut: 0,
            overflowed: 0,
            refused: 0,
        }
    }

    fn happens(&mut self, probability: f64) -> bool {
        // The 53 bits that a float holds.
        let drawn = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        drawn < probability
    }

    /// Decides on a packet that has come with this ECN field.
    pub fn fate(&mut self, now: Instant, length: usize, mark: u8) -> Fate {
        self.offered += 1;
        self.bytes += length as u64;
        self.largest = self.largest.max(length);
        let never = Fate { leaves: now, copies: 0, flip: None, mark };
        if self.is_second
            && self.impairment.drop.first().is_some_and(|first| self.offered >= *first)
            && self.impairment.drop.last().is_some_and(|last| self.offered <= *last)
        {
            self.lost += 1;
            return never;
        }
        let mut at = now;
        if self.impairment.rate > 0.0 {
            while self.waiting.front().is_some_and(|left| *left <= now) {
                self.waiting.pop_front();
            }
            if self.waiting.len() >= self.impairment.queue {
                self.overflowed += 1;
                return never;
            }
            at = self.waiting.back().copied().unwrap_or(now);
            at += Duration::from_secs_f64(length as f64 * 8.0 / self.impairment.rate);
            self.waiting.push_back(at);
        }
        if self.happens(self.impairment.loss) {
            self.lost += 1;
            return never;
        }
        at += Duration::from_secs_f64(self.impairment.delay / 1e3);
        if self.happens(self.impairment.reorder) {
            self.reordered += 1;
            at += Duration::from_secs_f64(self.impairment.reorder_by / 1e3);
        }
        let is_twice = self.happens(self.impairment.duplicate);
        self.duplicated += u64::from(is_twice);
        // Behind the headers of Ethernet, IP and UDP, which the kernel checks by itself.
        let flip = (length > 60 && self.happens(self.impairment.corrupt))
            .then(|| (self.rng.next_u64() % ((length - 60) as u64 * 8)) as usize + 60 * 8);
        self.corrupted += u64::from(flip.is_some());
        let is_capable = mark > 0 && self.impairment.mark > 0.0;
        let is_marked = is_capable && self.happens(self.impairment.mark);
        self.marked += u64::from(is_marked);
        let mark = if is_marked { CE } else { mark };
        Fate { leaves: at, copies: 1 + usize::from(is_twice), flip, mark }
    }

    /// The counts.
    pub fn report(&self) -> Value {
        json!({
            "offered": self.offered,
            "bytes": self.bytes,
            "largest": self.largest,
            "carried": self.carried,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "reordered": self.reordered,
            "corrupted": self.corrupted,
            "marked": self.marked,
            "cut": self.cut,
            "overflowed": self.overflowed,
            "refused": self.refused,
        })
    }
}
