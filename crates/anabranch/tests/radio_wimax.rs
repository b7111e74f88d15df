//! Fixed `WiMAX` through the whole simulator: throughput and delay by hand, shares of stations, losses of the
//! profiles, and what holds for every link.

use std::fmt::Write as _;

use crate::radio::{run, run_of, study, value};
use anabranch::sim::Simulation;
use anabranch::trace::Column;
use anabranch_transport::report::Row;
use proptest::prelude::*;

/// A radio link between `bs` and `s0`; `radio` and `link` are more keys of the two tables.
fn link(name: &str, station: &str, radio: &str, link: &str) -> String {
    format!("[links.{name}]\nends = ['bs', '{station}']\nradio = {{ kind = 'wimax'{radio} }}\n{link}\n")
}

/// Datagrams of 1500 B on the wire over a link.
fn load(name: &str, link: &str, station: &str, rate: &str, more: &str) -> String {
    format!(
        "[paths.{name}]\nvia = ['{link}']\n[flows.{name}]\nfrom = 'bs'\nto = '{station}'\npaths = ['{name}']\n\
         transport = {{ kind = 'udp' }}\napp = {{ kind = 'datagrams', size = '1472 B', rate = '{rate}', \
         intervals = {{ kind = 'cbr' }}{more} }}\n"
    )
}

const STEADY: &str = ", fading = { kind = 'constant' }";
const NO_LIMIT: &str =
    "cell = { downlink_limit = '1 Gbit/s', uplink_limit = '1 Gbit/s', shared_limits = false }";

/// The frame by hand: 406 symbols fit between the gaps; preamble and frame control header take 3, the maps 6
/// (68 bytes at 12), contention 8 and the poll 2: 387 symbols of 108 bytes are left at 64-QAM 3/4, less one
/// byte of tail. Each unit has 12 bytes beside its piece of a packet; a frame has 28 units, or 29 where a
/// rest comes first and another last.
#[test]
fn a_saturated_downlink_carries_what_the_frame_holds() {
    let text =
        link("air", "s", &format!("{STEADY}, {NO_LIMIT}"), "") + &load("f", "air", "s", "90 Mbit/s", "");
    let row = run(&text, 10.0);
    let frames = value(&row, "link.air.forward.frames_used");
    assert_eq!(frames, 2_000.0);
    assert_eq!(value(&row, "link.air.forward.blocks"), frames * 387.0);
    assert_eq!(value(&row, "link.air.forward.mean_bits_per_symbol"), 864.0);
    let bytes = value(&row, "link.air.forward.delivered_bytes");
    let burst = 387.0 * 108.0 - 1.0;
    // What the last two frames carry is not all there at the end of the run.
    let (least, most) = ((frames - 2.0) * (burst - 29.0 * 12.0 - 13.0), frames * (burst - 28.0 * 12.0));
    assert!((least..=most).contains(&bytes), "{bytes} {least} {most}");
}

/// The uplink pays a preamble instead of the poll, and shorter maps (no downlink burst: 64 bytes, still 6
/// symbols): 406 - 3 - 6 - 8 - 1 = 388 symbols. The queue has to hold what waits for its grant, too: more
/// than a frame's worth is on its way between request and grant.
#[test]
fn a_saturated_uplink_carries_what_the_frame_holds() {
    let text =
        link("air", "s", &format!("{STEADY}, {NO_LIMIT}"), "queue = { kind = 'drop_tail', packets = 200 }")
            + &load("f", "air", "s", "90 Mbit/s", ", reverse = true");
    let row = run(&text, 10.0);
    // The first frame polls; the second one grants what waited at the first one.
    let frames = value(&row, "link.air.reverse.frames_used");
    assert_eq!(frames, 1_999.0);
    let bytes = value(&row, "link.air.reverse.delivered_bytes");
    let burst = 388.0 * 108.0 - 1.0;
    let (least, most) = ((frames - 2.0) * (burst - 29.0 * 12.0 - 60.0), frames * (burst - 28.0 * 12.0));
    assert!((least..=most).contains(&bytes), "{bytes} {least} {most}");
}

#[test]
fn the_equipment_s_limits_are_shared_by_the_directions() {
    let one = link("air", "s", STEADY, "") + &load("f", "air", "s", "50 Mbit/s", "");
    let both = one.clone() + &load("g", "air", "s", "50 Mbit/s", ", reverse = true");
    let rates = |text: &str| {
        let row = run(text, 20.0);
        ["forward", "reverse"]
            .map(|direction| value(&row, &format!("link.air.{direction}.delivered_bytes")) * 8.0 / 20.0 / 1e6)
    };
    let close =
        |rate: f64, expected: f64| assert!((rate / expected - 1.0).abs() < 0.003, "{rate} {expected}");
    close(rates(&one)[0], 30.0);
    close(rates(&one.replace("'datagrams'", "'datagrams', reverse = true"))[1], 26.4);
    let [down, up] = rates(&both);
    close(down, 15.0);
    close(up, 13.2);
}

/// A packet of 128 B comes half a millisecond into a frame. The next frame polls its station, and so many
/// frames later the uplink has a burst of preamble and 2 symbols, at the end of the frame but for the gap.
#[test]
fn the_uplink_waits_for_its_grant() {
    for delay in 1..4_u32 {
        let radio = format!("{STEADY}, cell = {{ grant_delay = {delay} }}");
        let app = ", reverse = true, start = '500 us', duration = '1 ms'";
        let load = load("f", "air", "s", "1 kbit/s", app).replace("1472 B", "100 B");
        let outcome = run_of(&(link("air", "s", &radio, "") + &load), 1.0, 0, false, true);
        let row = &outcome.row;
        let data_ms = 5.0 + 5.0 * f64::from(delay);
        let (propagation_ms, processing_ms) = (0.008_339, 1.0);
        let expected = data_ms + 4.9 + propagation_ms + processing_ms - 0.5;
        let measured = value(row, "f.mean_delay_ms");
        assert!((measured - expected).abs() < 2e-6, "{delay}: {measured} {expected}");
        // Nothing waits: frame after frame without a step.
        assert!(outcome.steps < 20, "{}", outcome.steps);
    }
}

/// In the downlink it comes with the next frame: behind preamble, header and maps, in 2 symbols.
#[test]
fn the_downlink_waits_for_its_frame() {
    let load =
        load("f", "air", "s", "1 kbit/s", ", start = '500 us', duration = '1 ms'").replace("1472 B", "100 B");
    let row = run(&(link("air", "s", STEADY, "") + &load), 1.0);
    let expected = 5.0 + 11.0 * 272.0 / 23_040.0 + 0.008_339 + 1.0 - 0.5;
    assert!((value(&row, "f.mean_delay_ms") - expected).abs() < 2e-6);
}

/// Bytes per station, downlink and uplink, of stations with these SNRs that all want more than there is.
fn shares(snrs: &[f64], cell: &str) -> [Vec<f64>; 2] {
    let mut text = String::new();
    for (index, snr) in snrs.iter().enumerate() {
        let (name, station) = (format!("l{index}"), format!("s{index}"));
        let radio = format!("{STEADY}, snr_db = {snr}, base_station = 'bs', cell = {{ {cell} }}");
        text += &link(&name, &station, &radio, "");
        text += &load(&format!("down{index}"), &name, &station, "80 Mbit/s", "");
        text += &load(&format!("up{index}"), &name, &station, "80 Mbit/s", ", reverse = true");
    }
    let row = run(&text, 4.0);
    ["forward", "reverse"].map(|direction| {
        (0..snrs.len())
            .map(|index| value(&row, &format!("link.l{index}.{direction}.delivered_bytes")))
            .collect()
    })
}

const WIDE: &str = "downlink_limit = '1 Gbit/s', uplink_limit = '1 Gbit/s'";

#[test]
fn equal_stations_get_equal_shares() {
    for (count, cell) in [(2, ""), (4, WIDE), (8, ""), (8, WIDE)] {
        for bytes in shares(&vec![30.0; count], cell) {
            let mean = bytes.iter().sum::<f64>() / count as f64;
            assert!(mean > 0.0);
            assert!(bytes.iter().all(|bytes| (bytes / mean - 1.0).abs() < 0.01), "{count}: {bytes:?}");
        }
    }
}

/// 64-QAM 3/4 has 9 times the bytes of BPSK 1/2 in a symbol: equal airtime means 9 times the bytes, up to
/// what headers, tails and preambles take; equal throughput means that one of 10 symbols goes to the better
/// station.
#[test]
fn airtime_or_throughput_is_what_stations_have_alike() {
    for cell in ["", WIDE] {
        for bytes in shares(&[30.0, 9.0], cell) {
            let ratio = bytes[0] / bytes[1];
            assert!((8.5..11.0).contains(&ratio), "{cell}: {bytes:?}");
        }
        for bytes in shares(
            &[30.0, 9.0],
            &format!("fairness = 'throughput'{}{cell}", if cell.is_empty() { "" } else { ", " }),
        ) {
            assert!((bytes[0] / bytes[1] - 1.0).abs() < 0.06, "{cell}: {bytes:?}");
        }
    }
}

/// The paper's figure 2: nearer means more bits in a symbol and more throughput. The table of the standard
/// and the default margin of 2 dB say which.
#[test]
fn modulation_follows_distance() {
    let thresholds = [6.4, 9.4, 11.2, 16.4, 18.2, 22.7, 24.4];
    let bits = [96.0, 192.0, 288.0, 384.0, 576.0, 768.0, 864.0];
    let mut seen = Vec::new();
    let mut last = f64::MAX;
    for km in [1.0, 3.5, 4.2, 6.0, 8.0, 14.0, 20.0, 30.0] {
        let radio = format!("{STEADY}, link_budget = {{ distance_km = {km} }}, {NO_LIMIT}");
        let row = run(&(link("air", "s", &radio, "") + &load("f", "air", "s", "90 Mbit/s", "")), 2.0);
        let snr = 30.0 - 20.0 * libm::log10(km / 2.5);
        let best = thresholds.iter().rposition(|threshold| snr >= threshold + 2.0).unwrap_or(0);
        assert_eq!(value(&row, "link.air.forward.mean_bits_per_symbol"), bits[best], "{km} km");
        assert!((value(&row, "link.air.forward.mean_snr_db") - snr).abs() < 1e-9);
        let bytes = value(&row, "link.air.forward.delivered_bytes");
        assert!(bytes <= last, "{km} km: {bytes}");
        last = bytes;
        seen.push(best);
    }
    seen.dedup();
    assert_eq!(seen, [6, 5, 4, 3, 2, 1, 0], "the distances show every burst profile");
}

/// The share of lost packets, and how long the row of losses is that a lost packet is in: the mean over lost
/// packets. Runs of a minute with 3 Mbit/s of full-size packets.
fn losses(radio: &str, replications: u64) -> (f64, f64) {
    let text = link("air", "s", radio, "queue = { kind = 'drop_tail', packets = 1000 }")
        + &load("f", "air", "s", "3 Mbit/s", "");
    let (mut sent, mut lost, mut squares) = (0, 0, 0);
    for replication in 0..replications {
        let outcome = run_of(&text, 60.0, replication, true, true);
        let table = outcome.tables.iter().find(|table| table.name == "packets").unwrap();
        let Some((_, Column::Text(fates))) = table.columns.iter().find(|(name, _)| *name == "fate") else {
            panic!("fates are text")
        };
        let is_lost: Vec<bool> = fates.iter().map(|fate| fate == "lost").collect();
        sent += is_lost.len();
        lost += is_lost.iter().filter(|is_lost| **is_lost).count();
        squares += is_lost.split(|is_lost| !is_lost).map(|row| row.len() * row.len()).sum::<usize>();
        assert_eq!(fates.iter().filter(|fate| *fate == "queue_full").count(), 0);
    }
    (lost as f64 / sent as f64, squares as f64 / lost.max(1) as f64)
}

/// What the specification asks of the profiles: no loss at 30 dB, more than 10 % of full-size packets at
/// 10 dB, and in bursts. These are results of the model's choices; docs/wimax.md has them with their spread.
#[test]
fn the_profiles_lose_what_the_specification_says() {
    for profile in ["los30", "nlos30"] {
        assert_eq!(losses(&format!(", profile = '{profile}'"), 12).0, 0.0, "{profile}");
    }
    for profile in ["los10", "nlos10"] {
        let (loss, burst) = losses(&format!(", profile = '{profile}'"), 24);
        assert!((0.10..0.20).contains(&loss), "{profile}: {loss}");
        assert!(burst > 20.0, "{profile}: {burst}");
    }
}

/// With the same channel, faster fading loses about as much in shorter bursts; retransmission loses less.
#[test]
fn coherence_time_decides_how_long_bursts_are() {
    let at = |doppler: f64| {
        losses(&format!(", profile = 'nlos10', fading = {{ kind = 'taps', doppler_hz = {doppler} }}"), 24)
    };
    let (slow, fast) = (at(0.2), at(3.2));
    assert!(slow.1 > 4.0 * fast.1, "{slow:?} {fast:?}");
    assert!((0.6..1.7).contains(&(fast.0 / slow.0)), "{slow:?} {fast:?}");
    let (with_arq, _) = losses(", profile = 'nlos10', arq = { retries = 4 }", 24);
    let (without, _) = losses(", profile = 'nlos10'", 24);
    assert!(with_arq < 0.6 * without && with_arq > 0.0, "{with_arq} {without}");
}

/// One base station with one to three stations, a link before it and one behind it, loads both ways.
fn any_cell() -> impl Strategy<Value = String> {
    let station = (
        prop::sample::select(vec!["los30", "los10", "nlos30", "nlos10"]),
        prop::sample::select(vec!["", ", arq = {}", ", arq = { frames = 1, retries = 1 }"]),
        1..80_u32,
        prop::sample::select(vec![
            "",
            "jitter = '3 ms'",
            "loss = { kind = 'bernoulli', probability = 0.1 }",
            "duplicate = 0.1",
        ]),
        prop::sample::select(vec!["300 kbit/s", "5 Mbit/s", "40 Mbit/s"]),
        prop::sample::select(vec!["40 B", "700 B", "1472 B", "9000 B"]),
        any::<bool>(),
    );
    let cell = (
        prop::sample::select(vec!["'airtime'", "'throughput'"]),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        1..4_u32,
        2..20_u32,
    );
    (any::<u16>(), cell, prop::collection::vec(station, 1..4)).prop_map(|(seed, cell, stations)| {
        let (fairness, adaptive_split, shared_limits, packing, grant_delay, frame_ms) = cell;
        let mut text = format!("seed = {seed}\n[links.lan]\nends = ['server', 'bs']\nrate = '100 Mbit/s'\ndelay = '1 ms'\n");
        for (index, (profile, arq, packets, extra, rate, size, reverse)) in stations.into_iter().enumerate() {
            let radio = format!(
                ", profile = '{profile}', base_station = 'one', cell = {{ fairness = {fairness}, adaptive_split = \
                 {adaptive_split}, shared_limits = {shared_limits}, packing = {packing}, grant_delay = {grant_delay}, frame \
                 = '{frame_ms} ms' }}{arq}"
            );
            let queue = format!("queue = {{ kind = 'drop_tail', packets = {packets} }}\n{extra}");
            text += &link(&format!("l{index}"), &format!("s{index}"), &radio, &queue);
            let _ = writeln!(text, "[links.behind{index}]\nends = ['s{index}', 'h{index}']\nrate = '20 Mbit/s'\ndelay = '500 us'");
            for (way, is_reverse) in [("a", reverse), ("b", !reverse)] {
                let more = format!(", reverse = {is_reverse}");
                text += &load(&format!("f{index}{way}"), &format!("l{index}"), &format!("h{index}"), rate, &more)
                    .replace(&format!("via = ['l{index}']"), &format!("via = ['lan', 'l{index}', 'behind{index}']\nmtu = '9100 B'"))
                    .replace("from = 'bs'", "from = 'server'")
                    .replace("'cbr'", "'poisson'")
                    .replace("1472 B", size);
            }
        }
        if text.contains("[links.l1]") {
            // From station to station, over two links of one base station.
            text += &load("across", "l0", "s1", "300 kbit/s", "")
                .replace("via = ['l0']", "via = ['l0', 'l1']")
                .replace("from = 'bs'", "from = 's0'");
        }
        text
    })
}

fn same(left: &Row, right: &Row) -> Result<(), TestCaseError> {
    for ((name, left), (other, right)) in left.scalars().zip(right.scalars()) {
        prop_assert_eq!(name, other);
        prop_assert_eq!(left.to_bits(), right.to_bits(), "{}: {} {}", name, left, right);
    }
    Ok(())
}

/// `PROPTEST_CASES` may ask for more cases than a quick run has.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 24 };
    ProptestConfig { cases, ..asked }
}

proptest! {
    #![proptest_config(config())]

    /// The same seed gives the same bits, traced or not, fused or not; every packet has one fate.
    #[test]
    fn packets_are_conserved_and_runs_repeat_themselves(text in any_cell()) {
        let plain = run_of(&text, 1.5, 0, false, true);
        let traced = run_of(&text, 1.5, 0, true, true);
        same(&plain.row, &run_of(&text, 1.5, 0, false, true).row)?;
        same(&plain.row, &run_of(&text, 1.5, 0, false, false).row)?;
        same(&plain.row, &traced.row)?;
        let row = &plain.row;
        let mut dropped = 0.0;
        for (name, _) in row.scalars().filter(|(name, _)| name.ends_with(".arrived_packets") && !name.contains("cross")) {
            let count = |key: &str| value(row, &name.replace("arrived_packets", key));
            let drops = count("lost_packets") + count("queue_full_packets") + count("corrupted_packets");
            prop_assert_eq!(
                count("arrived_packets") + count("duplicated_packets"),
                count("delivered_packets") + drops + count("in_link_packets"),
                "{}", name
            );
            dropped += drops;
        }
        prop_assert_eq!(dropped, value(row, "run.packets_dropped"));
        let radio = traced.tables.iter().find(|table| table.name == "radio").unwrap();
        let blocks = radio.columns.iter().find(|(name, _)| *name == "blocks");
        let Some((_, Column::Integers(blocks))) = blocks else { panic!("blocks are integers") };
        let counted: f64 = row.scalars().filter(|(name, _)| name.ends_with(".blocks")).map(|(_, value)| value).sum();
        prop_assert_eq!(blocks.iter().sum::<i64>() as f64, counted);
    }

    /// A warm-up takes off what a run that ends there has.
    #[test]
    fn a_warm_up_is_taken_off(text in any_cell(), at in 1..1_400_000_u64) {
        let at_s = (at * 1_000 + 501) as f64 / 1e9;
        let whole = run(&text, 1.5);
        let early = run(&text, at_s);
        let with_warm_up = format!("run = {{ warm_up = '{at_s} s', duration = '1.5 s' }}\n{text}");
        let study = study(&with_warm_up, &[]).unwrap();
        let late = Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row;
        for (name, late) in late.scalars() {
            let counted = ["_packets", "_bytes", ".blocks", ".block_errors", ".frames_used", "_retransmissions"];
            if name.starts_with("link.") && !name.contains("in_link") && counted.iter().any(|end| name.ends_with(end)) && !name.contains("mean_") {
                prop_assert_eq!(late, value(&whole, name) - value(&early, name), "{}", name);
            }
        }
    }
}

/// Shadowing is normal in dB, drawn once a run and by name.
#[test]
fn shadowing_moves_the_mean_snr_of_a_run() {
    let radio = format!("{STEADY}, link_budget = {{ shadowing_db = 8.0 }}");
    let text = link("air", "s", &radio, "") + &load("f", "air", "s", "1 Mbit/s", "");
    let snr = |replication| {
        value(&run_of(&text, 0.05, replication, false, true).row, "link.air.forward.mean_snr_db") - 30.0
    };
    let snrs: Vec<f64> = (0..400).map(snr).collect();
    let mean = snrs.iter().sum::<f64>() / 400.0;
    let deviation = (snrs.iter().map(|snr| snr * snr).sum::<f64>() / 400.0).sqrt();
    // Standard errors: 8 / 20 and 8 / sqrt(800).
    assert!(mean.abs() < 4.0 * 0.4 && (deviation - 8.0).abs() < 4.0 * 0.283, "{mean} {deviation}");
}

/// The radio trace shows modulation following the signal: every burst's profile is one that the effective SNR
/// of the last 40 ms allowed.
#[test]
fn the_radio_trace_shows_modulation_over_time() {
    let text = link("air", "s", ", profile = 'nlos30'", "") + &load("f", "air", "s", "9 Mbit/s", "");
    let outcome = run_of(&text, 20.0, 0, true, true);
    let table = outcome.tables.iter().find(|table| table.name == "radio").unwrap();
    let column = |wanted: &str| &table.columns.iter().find(|(name, _)| *name == wanted).unwrap().1;
    let (Column::Numbers(effective), Column::Numbers(mean), Column::Text(modulation)) =
        (column("effective_snr_db"), column("snr_db"), column("modulation"))
    else {
        panic!("numbers and words")
    };
    let needs = |name: &str| match name {
        "qam64_3_4" => 26.4,
        "qam64_2_3" => 24.7,
        "qam16_3_4" => 20.2,
        "qam16_1_2" => 18.4,
        "qpsk_3_4" => 13.2,
        "qpsk_1_2" => 11.4,
        _ => f64::MIN,
    };
    let mut seen = modulation.clone();
    seen.dedup();
    assert!(seen.len() > 5, "it changes");
    for frame in 8..effective.len() {
        assert!(effective[frame] <= mean[frame]);
        let best = effective[frame - 8..=frame].iter().copied().fold(f64::MIN, f64::max);
        assert!(best >= needs(&modulation[frame]), "{frame}: {best} {}", modulation[frame]);
    }
}

#[test]
fn another_link_elsewhere_changes_no_draw() {
    let text = link("air", "s", ", profile = 'nlos10'", "") + &load("f", "air", "s", "3 Mbit/s", "");
    let more =
        link("other", "t", ", profile = 'nlos10'", "") + &load("g", "other", "t", "3 Mbit/s", "") + &text;
    let (alone, beside) = (run(&text, 10.0), run(&more, 10.0));
    for (name, value) in alone.scalars().filter(|(name, _)| name.starts_with("link.air")) {
        assert_eq!(beside.value(name).map(f64::to_bits), Some(value.to_bits()), "{name}");
    }
}

#[test]
fn mistakes_are_named_in_one_sentence() {
    let base = link("air", "s", "", "") + &link("far", "t", "", "") + &load("f", "air", "s", "1 Mbit/s", "");
    let cases = [
        ("links.air.radio.snr_db", "90", "links.air.radio.snr_db is 90, allowed is -20 to 60"),
        (
            "links.air.radio.link_budget.distance_km",
            "0",
            "links.air.radio.link_budget.distance_km is 0, allowed is 0.01 to 100",
        ),
        (
            "links.air.radio.cell.frame",
            "1 ms",
            "links.air.radio.cell.frame is \"1 ms\", allowed is 2 ms to 20 ms",
        ),
        (
            "links.air.radio.cell.downlink_share",
            "1.5",
            "links.air.radio.cell.downlink_share is 1.5, allowed is 0 to 1",
        ),
        (
            "links.air.radio.cell.bandwidth_mhz",
            "50",
            "links.air.radio.cell.bandwidth_mhz is 50, allowed is 1.25 to 28",
        ),
        ("links.air.radio.cell.contention_symbols", "300", "allowed is at most 203"),
        (
            "links.air.radio.fading",
            "{ kind = 'taps', taps = [] }",
            "links.air.radio.fading.taps has 0 taps, allowed are 1 to 24",
        ),
        (
            "links.air.radio.fading",
            "{ kind = 'rician', doppler_hz = -1 }",
            "links.air.radio.fading.doppler_hz is -1, allowed is 0.001 to 1000",
        ),
        (
            "links.air.radio.modulation",
            "{ kind = 'adaptive', reaction_delay = '0 s' }",
            "links.air.radio.modulation.reaction_delay is \"0 s\", allowed is at least 1 ms",
        ),
        ("links.air.radio.arq", "{ retries = 0 }", "links.air.radio.arq.retries is 0, allowed is 1 to 255"),
        ("links.air.radio.profile", "los20", "links.air.radio.profile"),
        ("links.air.radio.speed", "1", "links.air.radio.speed"),
        (
            "links.air.rate",
            "1 Mbit/s",
            "links.air.rate is given although links have either a rate or a `radio`",
        ),
        (
            "links.air.reverse",
            "{ rate = '1 Mbit/s' }",
            "links.air.reverse.rate is given although the link has a `radio`",
        ),
        (
            "links.air.cross_traffic",
            "[{ kind = 'poisson', rate = '1 Mbit/s' }]",
            "links.air.cross_traffic is given although the link has a `radio`",
        ),
        (
            "links.air.up",
            "{ timetable = [['0 s', true], ['1 s', false]] }",
            "links.air.down is not \"blackhole\"",
        ),
        (
            "links.air.loss",
            "{ kind = 'gilbert', clock = 'packet', p = 0.1, r = 0.5, sharing = 'shared' }",
            "links.air.loss.sharing is \"shared\"",
        ),
    ];
    for (key, found, sentence) in cases {
        let error = study(&base, &[(key, found)]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(sentence), "{key} = {found}: {error}");
        assert!(!error.contains('\n'));
    }
    let shared = [
        ("links.air.radio.base_station", "one"),
        ("links.far.radio.base_station", "one"),
        ("links.far.radio.cell.frame", "10 ms"),
    ];
    let error = study(&base, &shared).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("links.far.radio.cell differs from links.air.radio.cell"), "{error}");
}
