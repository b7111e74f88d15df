//! Queueing theory through the whole simulator: a load that is an ordinary flow waits as the formulas say,
//! and as long as the same load does as lazily evaluated cross traffic.
//!
//! Tolerances are four standard errors, computed from batches of runs with other seeds.

use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::report::Row;

fn rows(text: &str, replications: u64) -> Vec<Row> {
    let study = Study::parse(text, &[], Path::new(".")).unwrap();
    let run = |replication| {
        Simulation::build(&study.scenario, replication, false).unwrap().run(&mut || None).unwrap().row
    };
    (0..replications).map(run).collect()
}

/// Mean and standard error of a value over runs.
fn mean_of(rows: &[Row], value: impl Fn(&Row) -> f64) -> (f64, f64) {
    let n = rows.len() as f64;
    let mean = rows.iter().map(&value).sum::<f64>() / n;
    let deviation = |row: &Row| value(row) - mean;
    let variance = rows.iter().map(|row| deviation(row) * deviation(row)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

fn scalar(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("{name}"))
}

fn mean(rows: &[Row], name: &str) -> (f64, f64) {
    mean_of(rows, |row| scalar(row, name))
}

fn assert_mean(rows: &[Row], name: &str, expected: f64) {
    let (mean, error) = mean(rows, name);
    assert!((mean - expected).abs() < 4.0 * error, "{name}: {mean} +- {error}, expected {expected}");
    // A tolerance that lets everything pass would make the test pointless.
    assert!(error < 0.05 * expected, "{name}: {mean} +- {error}");
}

/// Packets of 500 B on the wire at 1 Mbit/s: S = 4 ms. At a load of 0.7 the wait is S rho / (2 (1 - rho)).
const LINK: &str = "rate = '1 Mbit/s', delay = '10 ms', queue = { kind = 'drop_tail', packets = 100000 }";
const SERVICE_MS: f64 = 4.0;
const LOAD: f64 = 0.7;
const WAIT_MS: f64 = SERVICE_MS * LOAD / (2.0 * (1.0 - LOAD));

/// 472 B of payload, 8 B of UDP, 20 B of IPv4; `rate` is that of the payload.
fn load(rate: &str, intervals: &str) -> String {
    format!(
        "transport = {{ kind = 'udp' }}\napp = {{ kind = 'datagrams', size = '472 B', rate = '{rate}', \
         intervals = {{ kind = '{intervals}' }} }}\n"
    )
}

fn one_link(link: &str, app: &str) -> String {
    format!(
        "[run]\nduration = '400 s'\nwarm_up = '20 s'\n[links]\nq = {{ ends = ['a', 'b'], {LINK}{link} }}\n[paths]\np.via = \
         ['q']\n[flows.f]\nfrom = 'a'\nto = 'b'\npaths = ['p']\n{app}"
    )
}

#[test]
fn an_m_d_1_queue_as_flow_and_as_cross_traffic() {
    let flow = rows(&one_link("", &load("660.8 kbit/s", "poisson")), 16);
    assert_mean(&flow, "link.q.forward.mean_wait_ms", WAIT_MS);
    // The flow sees it too: wait, service and 10 ms of delay. Its own mean has no warm-up.
    assert_mean(&flow, "f.mean_delay_ms", WAIT_MS + SERVICE_MS + 10.0);
    // A sparse observer: a Poisson flow of 1 % of the load sees time averages (PASTA).
    let traffic = ", cross_traffic = [{ kind = 'poisson', rate = '693 kbit/s', packet = '500 B' }]";
    let lazy = rows(&one_link(traffic, &load("6.608 kbit/s", "poisson")), 48);
    assert_mean(&lazy, "link.q.forward.mean_wait_ms", WAIT_MS);
    let ((flow, flow_error), (lazy, lazy_error)) =
        (mean(&flow, "link.q.forward.mean_wait_ms"), mean(&lazy, "link.q.forward.mean_wait_ms"));
    assert!((flow - lazy).abs() < 4.0 * flow_error.hypot(lazy_error), "{flow} {lazy}");
}

/// Little's law over a link as a whole: arrivals per second x time in it = packets in it. The number in the
/// link is measured at the ends of many short runs, which nothing else in the run depends on.
#[test]
fn littles_law_over_a_link() {
    let text = one_link("", &load("660.8 kbit/s", "poisson"))
        .replace("'400 s'", "'4 s'")
        .replace("warm_up = '20 s'", "");
    let rows = rows(&text, 1_500);
    let (in_link, in_link_error) = mean(&rows, "link.q.forward.in_link_packets");
    let (rate, time_s) = (LOAD / SERVICE_MS * 1e3, (WAIT_MS + SERVICE_MS + 10.0) / 1e3);
    assert!(
        (in_link - rate * time_s).abs() < 4.0 * in_link_error,
        "{in_link} +- {in_link_error}, {}",
        rate * time_s
    );
    assert!(in_link_error < 0.05 * in_link);
}

/// D/D/1: equal packets at equal distances never wait; two such flows in phase wait for each other exactly.
#[test]
fn regular_loads_wait_exactly() {
    let row = &rows(&one_link("", &load("660.8 kbit/s", "cbr")), 1)[0];
    assert_eq!(row.value("link.q.forward.mean_wait_ms"), Some(0.0));
    assert_eq!(row.value("f.mean_delay_ms"), Some(14.0));
    let second = format!("[flows.g]\nfrom = 'a'\nto = 'b'\npaths = ['p']\n{}", load("330.4 kbit/s", "cbr"));
    let row = &rows(&(one_link("", &load("330.4 kbit/s", "cbr")) + &second), 1)[0];
    assert_eq!((row.value("f.mean_delay_ms"), row.value("g.mean_delay_ms")), (Some(14.0), Some(18.0)));
    assert_eq!(row.value("link.q.forward.mean_wait_ms"), Some(2.0));
}

/// M/D/1/K: the share of packets that a short queue drops is that of the embedded chain.
#[test]
fn a_short_queue_drops_what_the_formula_says() {
    // Room for one in service and two waiting; P(j arrivals during a service) is Poisson with mean rho.
    let arrivals =
        |j: u32| libm::exp(-LOAD) * libm::pow(LOAD, f64::from(j)) / f64::from((1..=j).product::<u32>());
    // Stationary numbers left behind by departures, 0 to 2, up to a factor: pi_{j+1} a_0 = pi_j - ...
    let left_1 = (1.0 - arrivals(0)) / arrivals(0);
    let left_2 = (left_1 - arrivals(1) - left_1 * arrivals(1)) / arrivals(0);
    let sum = 1.0 + left_1 + left_2;
    let empty = 1.0 / sum;
    let dropped = 1.0 - 1.0 / (empty + LOAD);
    let text = one_link("", &load("660.8 kbit/s", "poisson")).replace("packets = 100000", "packets = 2");
    let rows = rows(&text, 8);
    let (mean, error) = mean_of(&rows, |row| {
        scalar(row, "link.q.forward.queue_full_packets") / scalar(row, "link.q.forward.arrived_packets")
    });
    assert!((mean - dropped).abs() < 4.0 * error, "{mean} +- {error}, expected {dropped}");
    assert!(error < 0.05 * dropped, "{error}");
}
