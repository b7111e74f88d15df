//! Losses of the `WiMAX` profiles, and what moves them: the tables of `docs/wimax.md`.
//! `cargo run --example wimax_profiles -- 100`; with 10 replications by default they are rough.
//!
//! Each line: runs of a minute with 3 Mbit/s of packets of 1500 B in the downlink. A burst is a row of
//! packets lost one after the other; its length is the mean over bursts, and over lost packets. The coherence
//! time is that in which the scattered field's autocorrelation falls to a half.

use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch::trace::{Column, Table};

fn main() {
    let replications =
        std::env::args().nth(1).map_or(10, |count| count.parse().expect("a number of replications"));
    let taps = |doppler: f64| format!(", fading = {{ kind = 'taps', doppler_hz = {doppler} }}");
    println!(
        "| profile | changed | coherence time | loss | standard error | burst | a lost packet's burst | bits in a symbol |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let line = |profile: &str, what: &str, keys: &str, doppler: f64| {
        let [loss, error, burst, own_burst, bits] = measure(profile, keys, replications);
        println!(
            "| {profile} | {what} | {:.2} s | {:.2} % | {:.2} % | {burst:.1} | {own_burst:.0} | {bits:.0} |",
            coherence_time(doppler),
            100.0 * loss,
            100.0 * error
        );
    };
    for profile in ["los30", "los10", "nlos30", "nlos10"] {
        line(profile, "", "", 0.4);
    }
    for doppler in [0.1, 0.2, 0.8, 1.6, 3.2] {
        line("nlos10", &format!("Doppler {doppler} Hz"), &taps(doppler), doppler);
    }
    for doppler in [1.6, 6.4] {
        line("nlos30", &format!("Doppler {doppler} Hz"), &taps(doppler), doppler);
    }
    for k in [6, 8, 12] {
        line("los10", &format!("K = {k} dB"), &format!(", fading = {{ kind = 'rician', k_db = {k} }}"), 0.4);
    }
    line("los10", "adaptive", ", modulation = { kind = 'adaptive' }", 0.4);
    line("nlos10", "fixed, QPSK 1/2", ", modulation = { kind = 'fixed', profile = 'qpsk_1_2' }", 0.4);
    line("nlos10", "thresholds of 2005", ", thresholds = 'ieee_802_16e_2005'", 0.4);
    line("nlos10", "flat Rayleigh", ", fading = { kind = 'rayleigh' }", 0.4);
    line("nlos30", "flat Rayleigh", ", fading = { kind = 'rayleigh' }", 0.4);
    line("nlos10", "ARQ, 4 retries", ", arq = {}", 0.4);
    line("nlos10", "ARQ, 20 retries", ", arq = { retries = 20 }", 0.4);
}

/// Mean loss, its standard error, mean length of bursts over bursts and over lost packets, and mean bits in a
/// symbol.
fn measure(profile: &str, keys: &str, replications: u64) -> [f64; 5] {
    let text = format!(
        "run = {{ duration = '60 s' }}\n\
         links.air = {{ ends = ['bs', 's'], queue = {{ kind = 'drop_tail', packets = 100000 }}, radio = {{ kind = 'wimax', \
         profile = '{profile}'{keys} }} }}\n\
         paths.p.via = ['air']\n\
         [flows.f]\nfrom = 'bs'\nto = 's'\npaths = ['p']\ntransport = {{ kind = 'udp' }}\n\
         app = {{ kind = 'datagrams', size = '1472 B', rate = '3 Mbit/s', intervals = {{ kind = 'cbr' }} }}\n"
    );
    let study = Study::parse(&text, &[], Path::new(".")).expect("a scenario");
    let (mut losses, mut bursts, mut lost, mut squares, mut bits) = (Vec::new(), 0, 0, 0, 0.0);
    for replication in 0..replications {
        let simulation = Simulation::build(&study.scenario, replication, true).expect("a simulation");
        let outcome = simulation.run(&mut || None).expect("a run");
        let is_lost = fates(&outcome.tables);
        let count = is_lost.iter().filter(|is_lost| **is_lost).count();
        losses.push(count as f64 / is_lost.len() as f64);
        lost += count;
        for row in is_lost.split(|is_lost| !is_lost).filter(|row| !row.is_empty()) {
            bursts += 1;
            squares += row.len() * row.len();
        }
        bits += outcome.row.value("link.air.forward.mean_bits_per_symbol").expect("it is there");
    }
    let count = losses.len() as f64;
    let mean = losses.iter().sum::<f64>() / count;
    let variance = losses.iter().map(|loss| (loss - mean) * (loss - mean)).sum::<f64>() / (count - 1.0);
    let burst = lost as f64 / f64::from(bursts.max(1));
    [mean, (variance / count).sqrt(), burst, squares as f64 / lost.max(1) as f64, bits / count]
}

/// For each packet, in the order of sending, whether the radio lost it.
fn fates(tables: &[Table]) -> Vec<bool> {
    let packets = tables.iter().find(|table| table.name == "packets").expect("a trace of packets");
    let fate = packets.columns.iter().find(|(name, _)| *name == "fate");
    let Some((_, Column::Text(fates))) = fate else { panic!("fates are text") };
    fates.iter().map(|fate| fate == "lost").collect()
}

/// When the autocorrelation of a field with the rounded Doppler spectrum is a half, in seconds.
fn coherence_time(doppler_hz: f64) -> f64 {
    let density = |f: f64| 1.0 - 1.720 * f * f + 0.785 * f * f * f * f;
    let steps = 1_000;
    let sum = |value: &dyn Fn(f64) -> f64| -> f64 {
        (0..steps).map(|step| value((f64::from(step) + 0.5) / f64::from(steps))).sum()
    };
    let whole = sum(&density);
    let correlation =
        |secs: f64| sum(&|f| density(f) * libm::cos(std::f64::consts::TAU * f * doppler_hz * secs)) / whole;
    let step = 0.001 / doppler_hz;
    (0..1_000).map(|index| f64::from(index) * step).find(|&secs| correlation(secs) < 0.5).expect("it falls")
}
