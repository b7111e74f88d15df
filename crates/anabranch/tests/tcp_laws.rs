//! TCP end to end against what is known about its congestion controls: response functions on a link that
//! never queues, shares of a bottleneck, and the queue that Vegas keeps.

use std::path::Path;

use anabranch::net::loss::{BernoulliConfig, LossConfig, LossTraceConfig};
use anabranch::scenario::Scenario;
use anabranch::schedule::{Schedule, TraceFile};
use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::cc;
use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::report::Row;
use anabranch_transport::units::Probability;

/// Bytes of data in a segment with timestamps, and the packet that carries it.
const MSS: f64 = 1448.0;
const PACKET: f64 = 1500.0;

fn scenario(text: &str, sets: &[(&str, &str)]) -> Scenario {
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    Study::parse(text, &sets, Path::new(".")).unwrap().scenario
}

fn run(scenario: &Scenario, replication: u64) -> Row {
    Simulation::build(scenario, replication, false).unwrap().run(&mut || None).unwrap().row
}

fn value(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("{name}"))
}

/// A link without a queue, which loses data packets only; the window counts acknowledged segments, and each
/// is acknowledged.
const LOSSY: &str = "
run = { duration = '300 s', warm_up = '100 s' }
links.wan = { ends = ['a', 'b'], delay = '50 ms', reverse = { loss = { kind = 'none' } } }
paths.only.via = ['wan']
[flows.load]
from = 'a'
to = 'b'
paths = ['only']
transport = { kind = 'tcp', byte_counting = true, ack_every = 1, send_buffer = '64 MB', receive_buffer = '64 MB' }
app = { kind = 'bulk' }
";
const RTT_S: f64 = 0.1;

/// The mean window in segments under such a loss.
fn mean_window(control: &str, profile: &str, loss: &LossConfig, replications: u64) -> f64 {
    let sets = [("flows.load.transport.cc", control), ("flows.load.transport.profile", profile)];
    let mut scenario = scenario(LOSSY, &sets);
    scenario.links["wan"].loss = loss.clone();
    let goodputs =
        (0..replications).map(|replication| value(&run(&scenario, replication), "load.goodput_kbit_per_s"));
    goodputs.sum::<f64>() / replications as f64 * 1e3 * RTT_S / (MSS * 8.0)
}

/// A packet is lost, which ends slow start, and every n-th one after it.
fn every(n: usize, first: usize) -> LossConfig {
    let lines = (1..=n).map(|packet| if packet == first { "1\n" } else { "0\n" });
    let file = TraceFile::parse("every", &lines.collect::<String>()).unwrap();
    LossConfig::Trace(LossTraceConfig { file: Some(file), ..LossTraceConfig::default() })
}

/// Every packet is lost with probability 1/n.
fn one_in(n: usize) -> LossConfig {
    let probability = Schedule::Constant(Probability::new(1.0 / n as f64).unwrap());
    LossConfig::Bernoulli(BernoulliConfig { probability, ..BernoulliConfig::default() })
}

fn assert_near(found: f64, law: f64, tolerance: f64, what: &str) {
    assert!((found / law - 1.0).abs() < tolerance, "{what}: {found:.1} instead of {law:.1}");
}

/// M. Mathis, J. Semke, J. Mahdavi, T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
/// Algorithm", Computer Communication Review 27(3), 1997: sqrt(3/2) / sqrt(p), a sawtooth from W/2 to W.
#[test]
fn reno_follows_the_square_root_law() {
    for n in [125, 300, 1_000] {
        let law = libm::sqrt(1.5 * n as f64);
        let what = |loss: &str| format!("one loss in {n} packets, {loss}");
        // A sawtooth of 9 to 18 whole segments, with a round of recovery, is 5 % below its line already.
        if n >= 300 {
            let found = mean_window(RENO, "linux_6", &every(n, 100), 1);
            assert_near(found, law, 0.1, &what("each after as many"));
        }
        assert_near(mean_window(RENO, "linux_6", &one_in(n), 8), law, 0.1, &what("at random"));
    }
}

const RENO: &str = "{ kind = \"reno\" }";

/// RFC 9438 section 5.1: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4), without fast convergence,
/// which the formula does not know, and where Reno's window (here 387) would be smaller.
///
/// The window is a whole number of segments, and on its plateau cubic growth is slow: with less than a
/// segment per epoch, C |T - K|^3 < 1, it stays where it is. That is a range of means around the formula's,
/// narrower the larger they are.
#[test]
fn cubic_follows_its_average_window() {
    let (c, beta, n) = (0.4, 0.7, 100_000.0);
    let law = libm::pow(c * (3.0 + beta) / (4.0 * (1.0 - beta)), 0.25) * libm::pow(RTT_S * n, 0.75);
    for first in [500, 1_200] {
        let what = format!("CUBIC after a slow start of {first} packets");
        let found = mean_window(CUBIC, "linux_6", &every(100_000, first), 1);
        assert_near(found, law, 0.15, &what);
        let k = libm::cbrt(found * 4.0 / (3.0 + beta) * (1.0 - beta) / c);
        let per_epoch = c * libm::pow((n * RTT_S / found - k).abs(), 3.0);
        assert!(per_epoch < 1.5, "{what}: {per_epoch} segments more or less each time");
    }
}

const CUBIC: &str = "{ kind = \"cubic\", fast_convergence = false }";

/// The mean window of a sawtooth with one loss in n packets: what it grows by in a round trip, and what a
/// loss leaves of it. After the loss a round trip passes in recovery.
fn sawtooth(n: f64, growth: impl Fn(f64) -> f64, remainder: impl Fn(f64) -> f64) -> f64 {
    let (mut window, mut mean) = (10.0, 0.0);
    for _ in 0..1_000 {
        let (mut packets, mut rounds) = (window, 1.0);
        while packets < n {
            packets += window;
            rounds += 1.0;
            window += growth(window);
        }
        mean = packets / rounds;
        window *= remainder(window);
    }
    mean
}

/// RFC 3649 section 5: a(w) = w^2 p(w) 2 b(w) / (2 - b(w)) with p(w) = 0.078 / w^1.2 and b(w) from 0.5 at 38
/// to 0.1 at 83000 segments; the approximation 0.12 / p^0.835 (equation 1) takes the window for constant.
#[test]
fn highspeed_follows_its_response_function() {
    let b = |w: f64| 0.5 - 0.4 * libm::log(w / 38.0) / libm::log(83_000.0 / 38.0);
    let a = |w: f64| w * w * 0.078 / libm::pow(w, 1.2) * 2.0 * b(w) / (2.0 - b(w));
    let law = sawtooth(
        10_000.0,
        |w| if w > 38.0 { a(w) } else { 1.0 },
        |w| 1.0 - if w > 38.0 { b(w) } else { 0.5 },
    );
    let found = mean_window("{ kind = \"highspeed\" }", "rfc", &every(10_000, 100), 1);
    assert_near(found, law, 0.1, "HighSpeed");
    assert_near(found, 0.12 / libm::pow(1e-4, 0.835), 0.15, "HighSpeed's equation 1");
}

/// T. Kelly, "Scalable TCP", Computer Communication Review 33(2), 2003: 1 % per round trip, 7/8 after a loss,
/// which is about 0.01 / 0.125 / p.
#[test]
fn scalable_follows_its_response_function() {
    let law = sawtooth(5_000.0, |w| 0.01 * w, |_| 7.0 / 8.0);
    assert_near(
        mean_window("{ kind = \"scalable\" }", "linux_6", &every(5_000, 100), 1),
        law,
        0.1,
        "Scalable",
    );
    assert_near(law, 0.01 / 0.125 * 5_000.0, 0.15, "the approximation");
}

/// A bottleneck with a queue of one bandwidth-delay product, and two flows.
const SHARED: &str = "
run = { duration = '120 s', warm_up = '20 s' }
paths.only.via = ['wan']
[links.wan]
ends = ['a', 'b']
rate = '10 Mbit/s'
delay = '20 ms'
queue = { kind = 'drop_tail', bytes = '50 kB' }
[flows.load]
from = 'a'
to = 'b'
paths = ['only']
transport = { kind = 'tcp', cc = { kind = 'reno' } }
app = { kind = 'bulk', start = { from = '0 s', to = '1 s' } }
count = 2
";

fn mean_jain(control: &str) -> f64 {
    let scenario = scenario(SHARED, &[("flows.load.transport.cc.kind", control)]);
    (0..3).map(|replication| value(&run(&scenario, replication), "load.jain")).sum::<f64>() / 3.0
}

#[test]
fn two_flows_with_reno_or_cubic_share_fairly() {
    for control in ["reno", "cubic"] {
        let jain = mean_jain(control);
        assert!(jain > 0.95, "{control}: {jain}");
    }
}

#[test]
#[ignore = "long; make validate runs it"]
fn two_flows_with_any_loss_based_control_share_fairly() {
    for control in
        ["bic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "scalable", "veno", "westwood", "yeah"]
    {
        let jain = mean_jain(control);
        assert!(jain > 0.95, "{control}: {jain}");
    }
}

/// A second flow.
const OTHER: &str = "
[flows.other]
from = 'a'
to = 'b'
paths = ['only']
transport = { kind = 'tcp', cc = { kind = 'reno' } }
app = { kind = 'bulk', start = { from = '0 s', to = '1 s' } }
";

/// J. Mo, R. La, V. Anantharam, J. Walrand, "Analysis and Comparison of TCP Reno and Vegas", INFOCOM 1999:
/// Vegas gives way to Reno, which fills the queue.
#[test]
fn vegas_gives_way_to_reno() {
    let sets = [("flows.load.count", "1"), ("flows.load.transport.cc.kind", "vegas")];
    let row = run(&scenario(&format!("{SHARED}{OTHER}"), &sets), 0);
    let [vegas, reno] = ["load", "other"].map(|flow| value(&row, &format!("{flow}.goodput_kbit_per_s")));
    assert!(vegas < 0.3 * reno, "{vegas} {reno}");
    assert!(vegas + reno > 9_000.0, "the link is full: {vegas} {reno}");
}

/// L. Brakmo, L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC
/// 13(8), 1995: alone it keeps alpha (2) to beta (4) packets in the queue. A packet finds one less than that,
/// and half of the one in service.
#[test]
fn vegas_keeps_two_to_four_packets_in_the_queue() {
    let sets = [("flows.load.count", "1"), ("flows.load.transport.cc.kind", "vegas")];
    let row = run(&scenario(SHARED, &sets), 0);
    let found = value(&row, "link.wan.forward.mean_found_bytes") / PACKET;
    assert!((0.5..=3.5).contains(&found), "{found} packets");
    assert_eq!(value(&row, "load.tcp.a.data_segments_retransmitted"), 0.0);
}

/// A flow that stands for several flows takes a user's control for each of them.
#[test]
fn a_control_of_ones_own_for_flows_with_a_count() {
    let scenario = scenario(SHARED, &[("run.duration", "30 s")]);
    let setup = cc::Setup {
        mss: 1448,
        initial_cwnd: 14_480,
        rules: cc::Rules::Linux6,
        seed: 1,
        is_paced: false,
        headers: 0,
    };
    let vegas = || cc::Config::from(cc::vegas::Config::default()).build(&setup);
    let mut simulation = Simulation::build(&scenario, 0, false).unwrap();
    simulation.set_congestion_control("load_2", Side::A, PathId(0), vegas()).unwrap();
    let error = simulation.set_congestion_control("load", Side::A, PathId(0), vegas()).unwrap_err();
    assert_eq!(error.to_string(), "flows.load: it stands for load_1 to load_2; name one of these");
    let row = simulation.run(&mut || None).unwrap().row;
    let [reno, vegas] = [1, 2].map(|number| value(&row, &format!("load_{number}.goodput_kbit_per_s")));
    assert!(vegas < 0.5 * reno, "{vegas} {reno}");
}
