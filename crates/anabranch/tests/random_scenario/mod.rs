//! Random scenarios, as the text that a user could have written.
//!
//! Hosts `n0` and the last node of a row of nodes, with one to three parallel links between neighbours;
//! paths choose one link of each, so that they share some, and sometimes go round in a loop. Many values
//! are whole milliseconds, so that events at equal times are frequent.

use std::fmt::Write as _;
use std::path::Path;

use anabranch::scenario::ScenarioError;
use anabranch::study::Study;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One of these texts, at random.
fn one_of(choices: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(choices).prop_map(str::to_owned)
}

fn rate() -> impl Strategy<Value = String> {
    one_of(&[
        "",
        "rate = '1 Mbit/s'",
        "rate = '1 Mbit/s'",
        "rate = '37 kbit/s'",
        "rate = '8 Mbit/s'",
        "rate = '256001 bit/s'",
        "rate = { timetable = [['0 s', '1 Mbit/s'], ['700 ms', '30 kbit/s'], ['1200 ms', '2 Mbit/s']] }",
        "rate = { timetable = [['0 s', '1 Mbit/s'], ['50 ms', '4 Mbit/s']], repeat = '100 ms' }",
    ])
}

fn delay() -> impl Strategy<Value = String> {
    one_of(&[
        "",
        "delay = '1 ms'",
        "delay = '10 ms'",
        "delay = '10 ms'",
        "delay = '33.3337 ms'",
        "delay = '1.7 s'",
        "delay = { timetable = [['0 s', '40 ms'], ['1 s', '5 ms'], ['2 s', '20 ms']] }",
    ])
}

fn impairments() -> impl Strategy<Value = String> {
    one_of(&[
        "",
        "",
        "",
        "jitter = '3 ms'",
        "jitter = '3 ms'\nreorder = true",
        "reorder = true",
        "duplicate = '20 %'",
        "duplicate = '30 %'\njitter = '2 ms'\nreorder = true",
        "corrupt = '10 %'",
        "jitter = { timetable = [['0 s', '0 s'], ['1 s', '9 ms']] }\nduplicate = '5 %'\ncorrupt = '1 %'",
    ])
}

fn queue() -> impl Strategy<Value = String> {
    one_of(&[
        "",
        "queue = { kind = 'drop_tail', packets = 0 }",
        "queue = { kind = 'drop_tail', packets = 3 }",
        "queue = { kind = 'drop_tail', bytes = '2 kB' }",
        "queue = { kind = 'drop_tail', packets = 8, mark_packets = 1 }",
        "queue = { kind = 'drop_tail', packets = 5, measure = true }",
        "queue = { kind = 'blue', packets = 10, freeze = '20 ms', increment = '10 %', ecn = true }",
        "queue = { kind = 'cake', bandwidth = '700 kbit/s', bytes = '6 kB' }",
        "queue = { kind = 'cake', rtt = '10 ms', isolation = 'dual_srchost' }",
        "queue = { kind = 'cobalt', packets = 10, target = '2 ms', interval = '20 ms' }",
        "queue = { kind = 'codel', packets = 30 }",
        "queue = { kind = 'codel', packets = 20, target = '1 ms', interval = '20 ms', ecn = true, mtu = '0 B' }",
        "queue = { kind = 'codel_literal', packets = 30, target = '10 ms' }",
        "queue = { kind = 'drr', packets = 10, flows = 2, quantum = '400 B' }",
        "queue = { kind = 'dualpi2', packets = 20, target = '3 ms', rtt_max = '9 ms' }",
        "queue = { kind = 'fq_codel', packets = 20, interval = '30 ms', mtu = '100 B' }",
        "queue = { kind = 'fq_lifo_codel', packets = 20, rule = 'theta', quantum = '300 B' }",
        "queue = { kind = 'fq_pie', packets = 20, target = '2 ms', burst = '0 s', ecn = true }",
        "queue = { kind = 'head_drop', packets = 4 }",
        "queue = { kind = 'lifo_codel', packets = 10, interval = '10 ms', mtu = '0 B', drop_bottom = true }",
        "queue = { kind = 'pie', packets = 20, target = '2 ms', burst = '0 s', ecn = true }",
        "queue = { kind = 'red', packets = 15, min_threshold = 0.5, max_threshold = 2, weight = 0.1, adaptive = true }",
        "queue = { kind = 'sfq', packets = 12, depth = 5, buckets = 4, perturb = '300 ms', head_drop = true }",
        "queue = { kind = 'token_bucket', rate = '500 kbit/s', burst = '3 kB', child = { kind = 'codel', packets = 10 } }",
        "queue = { kind = 'token_bucket', peak_rate = '2 Mbit/s', child = { kind = 'drop_tail', packets = 5 } }",
        "queue = { kind = 'drop_tail', packets = { timetable = [['0 s', 9], ['600 ms', 0]], repeat = '900 ms' } }",
    ])
}

/// A loss, and whether cross traffic can cross it.
fn loss() -> impl Strategy<Value = (String, bool)> {
    select(
        &[
            ("", true),
            ("", true),
            ("loss = { kind = 'bernoulli', probability = '10 %' }", true),
            ("loss = { kind = 'bernoulli', probability = '5 %', at = 'ingress' }", false),
            ("loss = { kind = 'gilbert', p = 0.02, r = 0.1 }", true),
            ("loss = { kind = 'gilbert', p = 0.02, r = 0.1, sharing = 'shared' }", true),
            ("loss = { kind = 'gilbert', p = 0.02, r = 0.1, sharing = 'shared', at = 'ingress' }", false),
            (
                "loss = { kind = 'gilbert', p = { timetable = [['0 s', 0], ['333 ms', 0.2]], repeat = '1 s' }, r = \
                 0.1, sharing = 'shared' }",
                true,
            ),
            (
                "loss = { kind = 'gilbert', clock = 'on_arrival', mean_loss = { timetable = [['0 s', 0], ['1 s', \
                 0.2]] }, mean_bad = '50 ms', sharing = 'shared', at = 'ingress' }",
                false,
            ),
            ("loss = { kind = 'gilbert', clock = 'packet', p = 0.1, r = 0.3 }", false),
            ("loss = { kind = 'gilbert', clock = 'packet', p = 0.1, r = 0.3, sharing = 'shared' }", false),
            (
                "loss = { kind = 'gilbert', clock = 'on_arrival', p = 0.1, r = 0.3, sharing = 'shared' }",
                false,
            ),
            (
                "loss = { kind = 'gilbert', clock = 'on_arrival', p = 0.1, r = 0.3, sharing = 'shared', at = \
                 'ingress' }",
                false,
            ),
            ("loss = { kind = 'gilbert', clock = 'bit', p = 0.00001, r = 0.001, loss_in_bad = 0.01 }", false),
            ("loss = { kind = 'gilbert', clock = 'bit', p = 0.00001, r = 0.001, sharing = 'shared' }", false),
            ("loss = { kind = 'trace', file = 'loss.trace' }", false),
            ("loss = { kind = 'trace', file = 'loss.trace', sharing = 'shared' }", false),
        ][..],
    )
    .prop_map(|(text, can_be_crossed)| (text.to_owned(), can_be_crossed))
}

fn up() -> impl Strategy<Value = String> {
    one_of(&[
        "",
        "",
        "",
        "down = 'drop'\nup = { timetable = [['0 s', true], ['400 ms', false], ['900 ms', true]] }",
        "down = 'blackhole'\nup = { timetable = [['0 s', true], ['500 ms', false], ['1 s', true]] }",
        "down = 'blackhole'\nup = { timetable = [['0 s', true], ['100 ms', false]], repeat = '150 ms' }",
        "HOLD\nup = { timetable = [['0 s', true], ['400 ms', false], ['800 ms', true]] }",
        "HOLD\nup = { timetable = [['0 s', true], ['900 ms', false]] }",
    ])
}

fn cross_traffic() -> impl Strategy<Value = String> {
    one_of(&[
        "",
        "",
        "{ kind = 'poisson', rate = '100 kbit/s' }",
        "{ kind = 'poisson', rate = '600 kbit/s', direction = 'both' }, { kind = 'cbr', rate = '80 kbit/s' }",
        "{ kind = 'cbr', rate = '400 kbit/s', packet = '500 B', direction = 'both' }",
        "{ kind = 'on_off', rate = '900 kbit/s', on = '100 ms', off = '100 ms' }",
        "{ kind = 'pareto_on_off', rate = '2 Mbit/s', on = '20 ms', off = '50 ms', stop = '1 s' }",
    ])
}

fn packet_bytes() -> impl Strategy<Value = String> {
    one_of(&["", "", "", "overhead = '14 B'", "mtu = '600 B'", "mtu = '292 B'\noverhead = '2 B'"])
}

fn reverse() -> impl Strategy<Value = String> {
    one_of(&["", "", "", "reverse = { delay = '2 ms' }", "reverse = { jitter = '1 ms', reorder = true }"])
}

/// The settings of a link, without its ends.
fn link() -> impl Strategy<Value = String> {
    (rate(), delay(), impairments(), queue(), loss(), up(), cross_traffic(), reverse(), packet_bytes())
        .prop_map(
            |(rate, delay, impairments, queue, (loss, can_be_crossed), up, cross_traffic, reverse, bytes)| {
                let has_rate = !rate.is_empty();
                let bytes = if has_rate || !bytes.contains("mtu") { bytes } else { String::new() };
                let is_lazy = queue.starts_with("queue = { kind = 'drop_tail'") && !queue.contains("measure");
                let queue = if has_rate || is_lazy { queue } else { String::new() };
                // A link without a rate, or with such a loss, cannot have these settings.
                let up = up.replace("HOLD", if has_rate { "down = 'hold'" } else { "down = 'drop'" });
                let is_crossed = has_rate && can_be_crossed && !cross_traffic.is_empty();
                let cross_traffic =
                    if is_crossed { format!("cross_traffic = [{cross_traffic}]") } else { String::new() };
                [rate, delay, impairments, queue, loss, up, cross_traffic, reverse, bytes].join("\n")
            },
        )
}

fn transport() -> impl Strategy<Value = String> {
    one_of(&[
        "{ kind = 'udp' }",
        "{ kind = 'udp', rtp = true }",
        "{ kind = 'rtp' }",
        "{ kind = 'rtp', cc = { kind = 'cbr', rate = '400 kbit/s' }, feedback_interval = '20 ms', nack_interval = \
         '30 ms', report_interval = '100 ms' }",
        "{ kind = 'rtp', scheduler = 'proportional', cc = { kind = 'gcc' }, probe_interval = '50 ms' }",
        "{ kind = 'rtp', policy = { kind = 'delay_centric' }, path_timeout = '150 ms', feedback_interval = '30 ms' }",
        "{ kind = 'sctp', profile = 'rfc9260', hb_interval = '0.1 s', rto_min = '50 ms', rto_max = '0.4 s', \
         path_max_retrans = 1 }",
        "{ kind = 'sctp', profile = 'ns2', hb_interval = '100 ms', rto_min = '20 ms', rto_max = '100 ms', \
         path_max_retrans = 0, policy = { kind = 'delay_centric' } }",
        "{ kind = 'sctp', profile = 'linux', hb_interval = '0.3 s', rto_min = '50 ms', rto_max = '1 s' }",
        "{ kind = 'sctp', profile = 'rfc4960', rto_initial = '0.2 s', rto_min = '50 ms', rto_max = '1 s' }",
        "{ kind = 'sctp', rto_initial = '0.2 s', rto_min = '50 ms', rto_max = '1 s', interleaving = true, \
         stream_scheduler = { kind = 'round_robin' } }",
    ])
}

/// Messages in DATAGRAM frames, which have no order, and streams where they are permitted.
fn in_datagrams() -> impl Strategy<Value = (String, String)> {
    let transport = one_of(&[
        "{ kind = 'quic', datagrams = true }",
        "{ kind = 'quic', datagrams = true, retry = true, max_ack_delay = '5 ms', key_update = 20 }",
    ]);
    let app = one_of(&[
        "{ kind = 'voip', start = '100 ms', duration = '1 s', grace = '300 ms' }",
        "{ kind = 'voip', start = { from = '50 ms', to = '200 ms' }, duration = '800 ms', direction = 'both' }",
        "{ kind = 'datagrams', size = '125 B', rate = '100 kbit/s', intervals = { kind = 'cbr' } }",
        "{ kind = 'datagrams', size = '1000 B', rate = '500 kbit/s', duration = '1 s', measure = true }",
        "{ kind = 'web', objects = 9, object_size = { kind = 'lognormal', mean = '2 kB' }, think_time = '30 ms' }",
    ]);
    (transport, app)
}

fn app() -> impl Strategy<Value = String> {
    one_of(&[
        "{ kind = 'voip', start = '100 ms', duration = '1 s', grace = '300 ms' }",
        "{ kind = 'voip', start = { from = '50 ms', to = '200 ms' }, duration = '800 ms', direction = 'both' }",
        "{ kind = 'voip', start = '0 s', duration = '1500 ms', reliability = 'reliable', unordered = false }",
        "{ kind = 'video', start = '100 ms', duration = '1 s', grace = '300 ms', packet_size = '700 B' }",
        "{ kind = 'video', direction = 'both', duration = '900 ms', key_frame_interval = '300 ms', \
         key_frame_after = '50 ms', rate = '300 kbit/s' }",
        "{ kind = 'datagrams', size = '125 B', rate = '100 kbit/s', intervals = { kind = 'cbr' } }",
        "{ kind = 'datagrams', size = '1000 B', rate = '500 kbit/s', duration = '1 s', measure = true }",
        "{ kind = 'datagrams', size = '4000 B', rate = '1 Mbit/s', streams = 3, unordered = false }",
        "{ kind = 'datagrams', size = '500 B', rate = '300 kbit/s', intervals = { kind = 'on_off', on = '100 \
         ms', off = '100 ms' }, reverse = true, reliability = { timed = '200 ms' } }",
    ])
}

/// A transport with flow control and an application that needs it. Where nothing ends it, it pauses: some
/// links take no time at all.
fn flow_controlled() -> impl Strategy<Value = (String, String)> {
    let transport = one_of(&[
        "{ kind = 'sctp', profile = 'rfc9260', rto_initial = '0.2 s', rto_min = '50 ms', rto_max = '1 s' }",
        "{ kind = 'sctp', profile = 'freebsd_10', rto_initial = '0.2 s', rto_min = '50 ms', rto_max = '1 s', \
         rto_rule = 'linux_tcp', rtt_sampling = 'sack' }",
        "{ kind = 'sctp', profile = 'linux', rto_min = '50 ms', rto_max = '1 s', send_buffer = '5 kB' }",
        "{ kind = 'sctp', rto_initial = '0.1 s', rto_min = '20 ms', rto_max = '1 s', receive_buffer = '4 kB' }",
        "{ kind = 'mptcp' }",
        "{ kind = 'mptcp', profile = 'linux_6', scheduler = 'redundant', receive_buffer = '8 kB' }",
        "{ kind = 'mptcp', profile = 'kheirkhah_v1', coupling = { kind = 'lia' } }",
        "{ kind = 'mptcp', tcp = { rto_min = '50 ms', retries = 1 }, stale_after = 2, rejoin = { after = '50 ms' } }",
        "{ kind = 'quic', cc = { kind = 'cubic' }, max_streams = 3, key_update = 5 }",
        "{ kind = 'quic', early_data = 'accepted', ack_frequency = { threshold = 5, max_ack_delay = '40 ms' } }",
        "{ kind = 'quic', early_data = 'rejected', retry = true }",
        "{ kind = 'quic', initial_rtt = '100 ms', max_stream_data = '8 KiB', send_buffer = '20 kB', ack_every = 10, idle_timeout = '1 s' }",
        "{ kind = 'tcp', cc = { kind = 'cubic' } }",
        "{ kind = 'tcp', profile = 'rfc', cc = { kind = 'reno' }, rto_min = '50 ms', receive_buffer = '8 kB' }",
        "{ kind = 'tcp', profile = 'kheirkhah_v1', send_buffer = '20 kB' }",
        "{ kind = 'tcp', profile = 'linux_2_6_20', cc = { kind = 'bic' }, send_buffer = '5 kB' }",
    ]);
    let app = one_of(&[
        "{ kind = 'bulk', write_size = '1200 B', write_cost = '2 ms', interval = '100 ms' }",
        "{ kind = 'bulk', bytes = '40 kB', write_size = '3 kB', direction = 'both', start = '50 ms' }",
        "{ kind = 'bulk', duration = '1 s', write_size = '64 B', write_cost = '100 us', direction = 'b_to_a' }\n\
         count = 2\nstagger = '70 ms'",
        "{ kind = 'requests', response_size = { kind = 'pareto', mean = '3 kB' }, think_time = '20 ms', count = 9 }",
        "{ kind = 'requests', request_size = '2 kB', response_size = { kind = 'exponential', mean = '9 kB' }, think_time = '3 ms' }",
        "{ kind = 'web', objects = 4, object_size = { kind = 'lognormal', mean = '5 kB' }, think_time = '100 ms' }",
        "{ kind = 'responsiveness', pause = { kind = 'uniform', from = '5 ms', to = '40 ms' } }\ncount = 3",
    ]);
    (transport, app)
}

/// Which of the parallel links a path takes between two neighbours.
type Route = Vec<Index>;

fn write(
    layers: &[Vec<String>],
    routes: &[(Route, Option<Route>, bool)],
    flows: &[(String, String, bool)],
    seed: u64,
) -> String {
    let mut text = format!("seed = {seed}\nrun.duration = '2500 ms'\n");
    for (layer, links) in layers.iter().enumerate() {
        for (number, link) in links.iter().enumerate() {
            let ends = format!("ends = ['n{layer}', 'n{}']", layer + 1);
            write!(text, "[links.l{layer}-{number}]\n{ends}\n{}\n", link.trim()).unwrap();
        }
    }
    let names = |route: &Route| -> Vec<String> {
        let hop =
            |(layer, links): (usize, &Vec<String>)| format!("'l{layer}-{}'", route[layer].index(links.len()));
        layers.iter().enumerate().map(hop).collect()
    };
    for (number, (via, back, has_loop)) in routes.iter().enumerate() {
        let mut via = names(via);
        if *has_loop {
            // There, back over some link of the same layer, and there again.
            via.splice(0..0, [via[0].clone(), "'l0-0'".to_owned()]);
        }
        write!(text, "[paths.p{number}]\nvia = [{}]\n", via.join(", ")).unwrap();
        if let Some(back) = back {
            let mut back = names(back);
            back.reverse();
            writeln!(text, "back = [{}]", back.join(", ")).unwrap();
        }
    }
    // A path of the first layer alone, for flows that join others half way.
    text += "[paths.short]\nvia = ['l0-0']\n";
    let paths: Vec<String> = (0..routes.len()).map(|number| format!("'p{number}'")).collect();
    let last = layers.len();
    for (number, (transport, app, is_short)) in flows.iter().enumerate() {
        let (from, to, paths) = match (is_short, number % 2) {
            (true, _) => (1, 0, "'short'".to_owned()),
            (false, 0) => (0, last, paths.join(", ")),
            (false, _) => (0, last, paths.iter().rev().cloned().collect::<Vec<_>>().join(", ")),
        };
        write!(
            text,
            "[flows.f{number}]\nfrom = 'n{from}'\nto = 'n{to}'\npaths = [{paths}]\ntransport = \
             {transport}\napp = {app}\n"
        )
        .unwrap();
    }
    text
}

/// The text of a scenario that can be built.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let layers = prop::collection::vec(prop::collection::vec(link(), 1..3), 1..5);
    let route = || prop::collection::vec(any::<Index>(), 4);
    let routes = prop::collection::vec(
        (route(), prop::option::weighted(0.3, route()), prop::bool::weighted(0.15)),
        1..4,
    );
    let flow = prop_oneof![6 => (transport(), app()), 3 => flow_controlled(), 1 => in_datagrams()];
    let flow =
        (flow, prop::bool::weighted(0.2)).prop_map(|((transport, app), is_short)| (transport, app, is_short));
    let flows = prop::collection::vec(flow, 1..4);
    (layers, routes, flows, any::<u32>())
        .prop_map(|(layers, routes, flows, seed)| write(&layers, &routes, &flows, seed.into()))
}

/// The study of a text, with settings.
pub(crate) fn study(text: &str, sets: &[(&str, &str)]) -> Result<Study, ScenarioError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/random_scenario");
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    Study::parse(text, &sets, &folder)
}
