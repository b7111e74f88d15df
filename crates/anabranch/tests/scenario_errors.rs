//! A mistake in a scenario gives one sentence that names the key, what was found and what is allowed.

use std::fmt::Write as _;
use std::path::Path;

use crate::golden::assert_golden;
use crate::random_scenario;
use anabranch::study::Study;
use proptest::prelude::*;

const BASE: &str = r#"
seed = 1

[run]
duration = "60 s"

[links.first]
ends = ["a", "m"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = { kind = "drop_tail", packets = 50 }
loss = { kind = "gilbert", clock = "slot", p = 0.1, r = 0.5 }
cross_traffic = [{ kind = "cbr", rate = "10 kbit/s" }, { kind = "poisson", rate = "10 kbit/s" }]

[links.second]
ends = ["m", "b"]
delay = { timetable = [["0 s", "10 ms"], ["10 s", "20 ms"]] }

[links.other]
ends = ["c", "d"]
rate = "1 Mbit/s"

[paths.p0]
via = ["first", "second"]

[flows.call]
from = "a"
to = "b"
paths = ["p0"]

[flows.call.transport]
kind = "sctp"
profile = "rfc9260"
rto_min = "0.1 s"
rto_max = "1 s"
policy = { kind = "failover" }

[flows.call.app]
kind = "voip"
codec = "g711+plc"
jitter_buffer = { kind = "fixed", depth = "100 ms" }

[sweep.axes.wait]
set = "links.first.delay"
values = ["1 ms", "2 ms"]
"#;

fn parse(text: &str, sets: &[(&str, &str)]) -> Result<Study, String> {
    random_scenario::study(text, sets).map_err(|error| error.to_string())
}

/// The message about the scenario with these settings.
fn message(sets: &[(&str, &str)]) -> String {
    let message = parse(BASE, sets).map_or_else(|error| error, |_| panic!("{sets:?} is no mistake"));
    assert!(is_plain(&message), "{message:?}");
    message
}

/// Whether a message has nothing but its sentences, each on a line.
fn is_plain(message: &str) -> bool {
    !message.is_empty()
        && message.lines().all(|line| !line.trim().is_empty() && !line.contains(char::is_control))
}

#[test]
fn the_base_is_right() {
    parse(BASE, &[]).unwrap();
    parse(BASE, &[("links.first.loss", "{ kind = 'none' }")]).unwrap();
}

/// Setting, value, and the key that the message is to name.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("dration", "5 s", "dration"),
    ("run.dration", "5 s", "run.dration"),
    ("links.first.dleay", "5 s", "links.first.dleay"),
    ("links.first.queue.pakcets", "5", "links.first.queue.pakcets"),
    ("links.first.queue.kind", "drop_tial", "links.first.queue.kind"),
    ("links.first.loss.kind", "none", "links.first.loss"),
    ("links.first.loss.q", "0.1", "links.first.loss.q"),
    ("links.first.loss.kind", "gilbret", "links.first.loss.kind"),
    ("links.first.loss.clock", "slto", "links.first.loss.clock"),
    ("links.first.loss.p", "120 %", "links.first.loss.p"),
    ("links.first.loss.p", "1.2", "links.first.loss.p"),
    ("links.first.loss.p", "nan", "links.first.loss.p"),
    ("links.first.loss.p", "-1e-3", "links.first.loss.p"),
    ("links.first.loss.p", "{ timetable = [['1 s', 0.1]] }", "links.first.loss.p"),
    (
        "links.first.loss.p",
        "{ timetable = [['0 s', 0.1], ['1 s', 1.2]] }",
        "links.first.loss.p.timetable.1.1",
    ),
    ("links.first.loss.slot", "{ timetable = [['0 s', '5 ms'], ['1 s', '0 s']] }", "links.first.loss.slot"),
    (
        "links.first.loss",
        "{ kind = 'gilbert', p = { timetable = [['0 s', 0.1], ['1 s', 0.2]], repeat = '2 s' }, r = { timetable = \
         [['0 s', 0.2], ['1 s', 0.1]] } }",
        "links.first.loss.r",
    ),
    (
        "links.first.loss",
        "{ kind = 'gilbert', mean_loss = { timetable = [['0 s', '1 %'], ['10 s', '90 %']] }, loss_in_bad = 0.8, \
         mean_bad = '100 ms' }",
        "links.first.loss.mean_loss is 0.9 from 10 s on",
    ),
    (
        "links.first.loss",
        "{ kind = 'gilbert', mean_loss = { timetable = [['0 s', '1 %'], ['10 s', '90 %']] }, mean_bad = '10 ms' }",
        "links.first.loss.mean_loss is 0.9 from 10 s on",
    ),
    (
        "links.first.loss",
        "{ kind = 'gilbert', mean_loss = '1 %', mean_bad = { timetable = [['0 s', '100 ms'], ['10 s', '1 ms']] } }",
        "links.first.loss",
    ),
    ("links.first.queue.packets", "-1", "links.first.queue.packets"),
    (
        "links.first.queue.packets",
        "{ timetable = [['0 s', 5], ['1 s', -5]] }",
        "links.first.queue.packets.timetable.1.1",
    ),
    (
        "links.first.queue.bytes",
        "{ timetable = [['0 s', '5 kB'], ['1 s', '2 GB']] }",
        "links.first.queue.bytes is 2000000000 B from 1 s on",
    ),
    (
        "links.first.queue",
        "{ kind = 'token_bucket', child = { kind = 'pie', update = '2 s' } }",
        "links.first.queue.child.update is 2 s",
    ),
    (
        "links.first.queue",
        "{ kind = 'token_bucket', peak_rate = '1 Mbit/s' }",
        "links.first.queue.peak_rate is 1 Mbit/s",
    ),
    (
        "links.first.queue",
        "{ kind = 'cake', bandwidth = '500 bit/s' }",
        "links.first.queue.bandwidth is 500 bit/s",
    ),
    ("links.first.queue", "{ kind = 'cake', isolation = 'host' }", "links.first.queue.isolation"),
    ("links.first.queue", "{ kind = 'dualpi2', coupling = 0.5 }", "links.first.queue.coupling is 0.5"),
    ("links.first.queue", "{ kind = 'dualpi2', variant = 'bsd' }", "links.first.queue.variant"),
    ("links.first.queue", "{ kind = 'dualpi2', memory_limit = '-1 B' }", "links.first.queue.memory_limit"),
    ("links.first.queue", "{ kind = 'sfq', buckets = 70000 }", "links.first.queue.buckets is 70000"),
    ("links.first.cross_traffic.1.mean_wiat", "5 s", "links.first.cross_traffic.1.mean_wiat"),
    ("links.first.cross_traffic.0.rate", "fast", "links.first.cross_traffic.0.rate"),
    ("links.first.cross_traffic.1.kind", "posison", "links.first.cross_traffic.1.kind"),
    ("links.first.rate", "-1 Mbit/s", "links.first.rate"),
    ("links.first.rate", "1 mbps", "links.first.rate"),
    ("links.first.rate", "5", "links.first.rate"),
    ("links.first.delay", "-1 ms", "links.first.delay"),
    ("links.first.mtu", "67 B", "links.first.mtu"),
    ("links.first.overhead", "1001 B", "links.first.overhead"),
    ("links.second.mtu", "1500 B", "links.second.mtu"),
    ("links.first.up", "maybe", "links.first.up"),
    ("links.first.reverse.dealy", "1 ms", "links.first.reverse.dealy"),
    ("links.first.ends", "['a']", "links.first.ends"),
    ("links.first.ends", "['a', 5]", "links.first.ends"),
    ("links.second.delay.timetable", "[]", "links.second.delay"),
    ("links.second.delay.timetable", "[['1 s', '1 ms']]", "links.second.delay"),
    ("links.second.delay.timetable", "[['0 s', '1 ms'], ['0 s', '2 ms']]", "links.second.delay"),
    ("links.second.delay.timetable", "[['0 s', '1 ms'], ['1 s', 2]]", "links.second.delay.timetable"),
    ("links.second.delay.repeat", "10 s", "links.second.delay"),
    ("links.second.cross_traffic", "[{ kind = 'cbr', rate = '1 kbit/s' }]", "links.second.cross_traffic"),
    (
        "links.first.loss",
        "{ kind = 'bernoulli', probability = 0.1, at = 'ingress' }",
        "links.first.cross_traffic.0",
    ),
    ("links.other.down", "hold_on", "links.other.down"),
    ("links.third.rate", "1 Mbit/s", "links.third.rate"),
    ("paths.p0.via", "['first', 'third']", "paths.p0.via"),
    ("paths.p0.via", "['first', 'other']", "paths.p0.via"),
    ("paths.p0.via", "['first']", "paths.p0.via"),
    ("paths.p0.via", "['second']", "paths.p0.via"),
    ("paths.p0.via", "[]", "paths.p0.via"),
    ("paths.p0.via", "first", "paths.p0.via"),
    ("paths.p0.back", "['first', 'second']", "paths.p0.back"),
    ("paths.p0.mtu", "100 B", "paths.p0.mtu"),
    ("paths.p0.vai", "['first']", "paths.p0.vai"),
    ("flows.call.paths", "[]", "flows.call.paths"),
    ("flows.call.paths", "['p1']", "flows.call.paths"),
    ("flows.call.paths", "['p0', 'p0']", "flows.call.paths"),
    ("flows.call.from", "nowhere", "flows.call.from: no link ends at `nowhere`; there is `a`"),
    ("flows.call.to", "a", "flows.call.to"),
    ("flows.call.transport.kind", "stcp", "flows.call.transport.kind"),
    ("flows.call.transport.rto_mni", "1 s", "flows.call.transport.rto_mni"),
    ("flows.call.transport.rto_min", "2 s", "flows.call.transport.rto_min"),
    ("flows.call.transport.rto_alpha", "nan", "flows.call.transport.rto_alpha"),
    ("flows.call.transport.rto_alpha", "2", "flows.call.transport.rto_alpha"),
    ("flows.call.transport.policy.kind", "failovre", "flows.call.transport.policy.kind"),
    ("flows.call.transport.policy.kidn", "failover", "flows.call.transport.policy.kidn"),
    ("flows.call.transport.primary_path", "1", "flows.call.transport.primary_path"),
    ("flows.call.transport.path_max_retrans", "-1", "flows.call.transport.path_max_retrans"),
    ("flows.call.transport.path_max_retrans", "1.5", "flows.call.transport.path_max_retrans"),
    ("flows.call.transport.association_max_retrans", "of", "flows.call.transport.association_max_retrans"),
    ("flows.call.transport.profile", "rfc9620", "flows.call.transport.profile"),
    (
        "flows.call.transport.stream_scheduler",
        "{ kind = 'round_robbin' }",
        "flows.call.transport.stream_scheduler",
    ),
    (
        "flows.call.transport.stream_scheduler",
        "{ kind = 'round_robin', weights = [1] }",
        "flows.call.transport.stream_scheduler",
    ),
    (
        "flows.call.transport.stream_scheduler",
        "{ kind = 'weighted_fair_queueing', weights = [1, 0] }",
        "flows.call.transport.stream_scheduler.weights",
    ),
    (
        "flows.call.transport.stream_scheduler",
        "{ kind = 'priority', priorities = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] }",
        "flows.call.transport.stream_scheduler.priorities",
    ),
    ("flows.call.addresses", "[{ at = '1 s', ad = 'p0' }]", "flows.call.addresses.0.ad"),
    ("flows.call.addresses", "[{ at = '1 s', add = 'p1' }]", "flows.call.addresses.0.add"),
    ("flows.call.addresses", "[{ at = '1 s', add = 'p0' }]", "flows.call.addresses"),
    ("flows.call.addresses", "[{ at = '1 s' }]", "flows.call.addresses.0.at"),
    (
        "flows.call.addresses",
        "[{ at = '2 s', delete = 'p0' }, { at = '1 s', add = 'p0' }]",
        "flows.call.addresses.1.at",
    ),
    (
        "flows.call.addresses",
        "[{ at = '1 s', delete = 'p0' }, { at = '2 s', set_primary = 'p0' }]",
        "flows.call.addresses.1.set_primary",
    ),
    (
        "flows.call.addresses",
        "[{ at = '1 s', delete = 'p0' }, { at = '2 s', delete = 'p0' }]",
        "flows.call.addresses.1.delete",
    ),
    ("flows.call.app", "{ kind = 'datagrams', streams = 0 }", "flows.call.app.streams"),
    ("flows.call.app.codec", "g7", "flows.call.app.codec"),
    ("flows.call.app.start", "soon", "flows.call.app.start"),
    ("flows.call.app.reliability", "{ timed = '1 parsec' }", "flows.call.app.reliability"),
    ("flows.call.app.jitter_buffer.dpeth", "1 s", "flows.call.app.jitter_buffer.dpeth"),
    ("flows.call.app.codek", "g711", "flows.call.app.codek"),
    (
        "flows.call.transport.load_sharing",
        "{ coupling = { kind = 'per_path', gain = 1 } }",
        "flows.call.transport.load_sharing.coupling.gain",
    ),
    (
        "flows.call.transport.load_sharing",
        "{ scheduler = { weighted = [0] } }",
        "flows.call.transport.load_sharing.scheduler.weighted",
    ),
    (
        "flows.call.transport.load_sharing",
        "{ scheduler = { weighted = [3, 2, 1] } }",
        "flows.call.transport.load_sharing.scheduler.weighted",
    ),
    (
        "flows.call.transport.load_sharing",
        "{ scheduler = 'weighted' }",
        "flows.call.transport.load_sharing.scheduler",
    ),
    (
        "flows.call.transport.load_sharing",
        "{ scheduler = { ecf = 3 } }",
        "flows.call.transport.load_sharing.scheduler",
    ),
    (
        "flows.call.transport",
        "{ kind = 'sctp', load_sharing = {}, policy = { kind = 'throughput_checkpoint' } }",
        "flows.call.transport.policy.kind",
    ),
    ("flows", "{}", "flows"),
    ("flows.call", "5", "flows.call"),
    ("links", "[]", "links"),
    ("seed", "-1", "seed"),
    ("seed", "1.5", "seed"),
    ("run.phases", "['20 s', '10 s']", "run.phases.1"),
    ("run.phases", "['60 s']", "run.phases.0"),
    ("run.warm_up", "61 s", "run.warm_up"),
    ("run.max_memory", "much", "run.max_memory"),
    ("sweep.axes.wait.values", "[]", "sweep.axes.wait"),
    ("sweep.axes.wait.values", "['1 ms', '-2 ms']", "sweep.axes.wait"),
    ("sweep.axes.wait.vlaues", "[1]", "sweep.axes.wait.vlaues"),
    ("sweep.axes.wait.set", "5", "sweep.axes.wait.set"),
    ("sweep.axes.wait.set", "links.firts.delay", "sweep.axes.wait"),
    ("sweep.axis", "{}", "sweep.axis"),
    ("flows.call.count", "0", "flows.call.count"),
    ("flows.call.count", "1.5", "flows.call.count"),
    ("flows.call.count", "4000000000", "flows"),
    ("flows.call.stagger", "5", "flows.call.stagger"),
    ("flows.call.app", "{ kind = 'bulk', write_size = '0 B' }", "flows.call.app.write_size"),
    ("flows.call.app", "{ kind = 'bulk', write_size = '1 MB' }", "flows.call.app.write_size"),
    ("flows.call.app", "{ kind = 'bulk', bytes = '0 B' }", "flows.call.app.bytes"),
    ("flows.call.app", "{ kind = 'bulk', interval = '0 s' }", "flows.call.app.interval"),
    ("flows.call.app", "{ kind = 'bulk', reading = false }", "flows.call.app.reading"),
    ("flows.call.app", "{ kind = 'bluk' }", "flows.call.app.kind"),
    ("flows.call.app", "{ kind = 'requests', count = 0 }", "flows.call.app.count"),
    ("flows.call.app", "{ kind = 'requests', connection = 'per_request' }", "flows.call.app.connection"),
    ("flows.call.app", "{ kind = 'requests', response_size = '0 B' }", "flows.call.app.response_size"),
    (
        "flows.call.app",
        "{ kind = 'requests', response_size = { kind = 'pareto', mean = '1 kB', shape = 1 } }",
        "flows.call.app.response_size.shape",
    ),
    (
        "flows.call.app",
        "{ kind = 'requests', response_size = { kind = 'paerto', mean = '1 kB' } }",
        "flows.call.app.response_size",
    ),
    (
        "flows.call.app",
        "{ kind = 'web', object_size = { kind = 'lognormal', maen = '1 kB' } }",
        "flows.call.app.object_size",
    ),
    ("flows.call.app", "{ kind = 'web', objects = 20000 }", "flows.call.app.objects"),
    ("flows.call.app", "{ kind = 'responsiveness', pause = 'long' }", "flows.call.app.pause"),
    ("sweep.replications", "0", "sweep.replications"),
    ("sweep.replications", "-3", "sweep.replications"),
    ("links.first.cross_traffic.7.rate", "1 kbit/s", "links.first.cross_traffic.7.rate"),
    ("links..rate", "1 kbit/s", "links..rate"),
    ("", "1", ""),
    ("links.first.loss.kind", "\"a\\nb\"", "links.first.loss.kind"),
    ("flows.call.transport", "5", "flows.call.transport"),
    ("flows.call.transport", "stcp", "flows.call.transport.kind"),
    ("links.first.queue", "codle", "links.first.queue.kind"),
    ("links.first.queue", "python", "links.first.queue"),
    ("links.first.loss", "120 %", "links.first.loss.probability"),
    ("links.first.loss", "1.2", "links.first.loss.probability"),
    ("links.first.loss", "gilbert", "links.first.loss"),
    ("flows.call.app", "{ kind = 'voip', jitter_buffer = 'adaptiv' }", "flows.call.app.jitter_buffer"),
    ("flows.call.app", "{ codec = 'g711' }", "flows.call.app"),
    ("flows.call.transport.hb_enabled", "1", "flows.call.transport.hb_enabled"),
    ("sweep", "3", "sweep"),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', send_buffer = '1 kB' }, app = { kind = 'bulk' } }",
        "flows.call.transport.send_buffer",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', receive_buffer = '2 GiB' }, app = { kind = 'bulk' } }",
        "flows.call.transport.receive_buffer",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', mss = '87 B' }, app = { kind = 'bulk' } }",
        "flows.call.transport.mss",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', cc = { kind = 'renoo' } }, app = { kind = 'bulk' } }",
        "flows.call.transport.cc.kind",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', cc = { kind = 'ledbat', gain = 2 } }, app = { kind = 'bulk' } }",
        "flows.call.transport.cc.gain",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', cc = { kind = 'ledbat', base_history = 0 } }, app = { kind = 'bulk' } }",
        "flows.call.transport.cc.base_history",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', cc = { kind = 'ledbat', target = '1 h' } }, app = { kind = 'bulk' } }",
        "flows.call.transport.cc.target",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', cc = { kind = 'sctp' } }, app = { kind = 'bulk' } }",
        "flows.call.transport.cc.kind",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', initial_window = { segments = 1001 } }, app = { kind = 'bulk' } }",
        "flows.call.transport.initial_window.segments",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', ack_every = 0 }, app = { kind = 'bulk' } }",
        "flows.call.transport.ack_every",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', path = 1 }, app = { kind = 'bulk' } }",
        "flows.call.transport.path",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', loss_detection = 'rac' }, app = { kind = 'bulk' } }",
        "flows.call.transport.loss_detection",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', mss = '1 kB' }, app = { kind = 'bulk', bytes = '1 PB' } }",
        "flows.call.app.bytes",
    ),
    (
        "flows.call",
        "{ from = 'a', to = 'b', paths = ['p0'], transport = { kind = 'tcp', mss = '1 kB' }, app = { kind = 'bulk', write_size = '1e14 B' } }",
        "flows.call.app.write_size",
    ),
    (
        "links.other",
        "{ ends = ['c', 'd'], radio = { kind = 'wimax', snr_db = 61 } }",
        "links.other.radio.snr_db",
    ),
    (
        "links.other",
        "{ ends = ['c', 'd'], radio = { kind = 'wimax', link_budget = { distance_km = 0 } } }",
        "links.other.radio.link_budget.distance_km",
    ),
    (
        "links.other",
        "{ ends = ['c', 'd'], radio = { kind = 'wimax', cell = { frame = '1 ms' } } }",
        "links.other.radio.cell.frame",
    ),
    (
        "links.other",
        "{ ends = ['c', 'd'], radio = { kind = 'wimax', cell = { downlink_share = 1.5 } } }",
        "links.other.radio.cell.downlink_share",
    ),
    (
        "links.other",
        "{ ends = ['c', 'd'], radio = { kind = 'wimax', arq = { retries = 0 } } }",
        "links.other.radio.arq.retries",
    ),
    (
        "links.other",
        "{ ends = ['c', 'd'], radio = { kind = 'wimax', fading = { kind = 'taps', taps = [] } } }",
        "links.other.radio.fading.taps",
    ),
    (
        "links.other",
        "{ ends = ['c', 'd'], radio = { kind = 'wimax', modulation = { kind = 'fixed', profile = 'qam' } } }",
        "links.other.radio.modulation.profile",
    ),
    ("paths.p0.via", "['frist']", "there is no link `frist`; did you mean `first`?"),
    ("flows.call.transport.rto_rule", "5", "flows.call.transport.rto_rule"),
    ("flows.call.transport.rto_rule", "[]", "flows.call.transport.rto_rule"),
    ("flows.call.transport.policy.retransmit_on", "true", "flows.call.transport.policy.retransmit_on"),
    ("flows.call.transport.load_sharing", "{ split_by = {} }", "load_sharing.split_by: "),
    ("flows.call.transport.load_sharing", "{ split_by = { x = 1, y = 2 } }", "load_sharing.split_by: "),
    ("flows.call.transport.load_sharing", "{ scheduler = 1.5 }", "load_sharing.scheduler: "),
];

#[test]
fn a_mistake_names_its_key_and_what_is_allowed() {
    let mut table = String::new();
    for (path, value, key) in MISTAKES {
        let message = message(&[(path, value)]);
        assert!(message.contains(key), "{path} = {value}: {message}");
        writeln!(table, "{path} = {}\n    {message}", value.replace('\n', "\\n")).unwrap();
    }
    assert_golden("messages.txt", &table);
}

#[test]
fn shorter_forms_are_what_they_stand_for() {
    for (short, long) in [
        ("links.first.loss = 1 %", "links.first.loss = { kind = 'bernoulli', probability = '1 %' }"),
        ("links.first.loss = 0.01", "links.first.loss = { kind = 'bernoulli', probability = 0.01 }"),
        ("links.other.loss = gilbert_elliott", "links.other.loss.kind = gilbert_elliott"),
        ("links.first.queue = codel", "links.first.queue = { kind = 'codel' }"),
        ("links.first.rate = 10Mbit", "links.first.rate = 10 Mbit/s"),
        ("links.first.rate = 100kbit", "links.first.rate = 100 kbit/s"),
        ("links.first.delay = 20ms", "links.first.delay = 20 ms"),
        ("flows.call.transport = tcp", "flows.call.transport = { kind = 'tcp' }"),
        ("flows.call.transport.policy = echo", "flows.call.transport.policy = { kind = 'echo' }"),
        ("flows.call.transport.cc = bbr", "flows.call.transport.cc = { kind = 'bbr' }"),
        ("flows.call.app = bulk", "flows.call.app = { kind = 'bulk' }"),
        ("flows.call.app.jitter_buffer = adaptive", "flows.call.app.jitter_buffer = { kind = 'adaptive' }"),
        ("sweep.axes.wait.set = links.first.queue\nsweep.axes.wait.values = ['red', 'codel']", ""),
    ] {
        let of = |lines: &str| {
            let sets: Vec<_> = lines.lines().map(|line| line.split_once(" = ").unwrap()).collect();
            parse(BASE, &sets)
        };
        match (of(short), of(long)) {
            (Ok(one), Ok(other)) if !long.is_empty() => assert_eq!(one.hash(), other.hash(), "{short}"),
            // Such as Gilbert's chain, which has to be told its probabilities whichever form it has.
            (Err(one), Err(other)) => assert_eq!(one, other),
            (Ok(swept), _) => assert_ne!(swept.cell(0).unwrap().to_toml(), swept.cell(1).unwrap().to_toml()),
            (one, _) => panic!("{short}: {:?}", one.err()),
        }
    }
}

#[test]
fn a_key_below_a_shorter_form_is_one_of_its_table() {
    let sets =
        [("links.first.queue", "codel"), ("links.first.queue.target", "7 ms"), ("links.other.loss", "2 %")];
    let text = parse(BASE, &sets).unwrap().to_toml();
    assert!(text.contains("kind = \"codel\"") && text.contains("target = \"7 ms\""), "{text}");
    let short = BASE.replace("queue = { kind = \"drop_tail\", packets = 50 }", "queue = \"codel\"");
    let set = [("links.first.queue.target", "7 ms"), ("links.other.loss", "2 %")];
    assert_eq!(parse(&short, &set).unwrap().to_toml(), text);
}

#[test]
fn all_mistakes_are_said_at_once_with_their_lines() {
    let text = BASE
        .replace("delay = \"10 ms\"", "dealy = \"10 ms\"")
        .replace("kind = \"drop_tail\", packets = 50", "kind = \"drop_tial\", packets = -1")
        .replace("kind = \"cbr\", rate = \"10 kbit/s\"", "kind = \"crb\", rate = \"fast\"")
        .replace("via = [\"first\", \"second\"]", "vai = [\"first\", \"second\"]\nmtu = 1500")
        .replace("kind = \"sctp\"", "kind = \"stcp\"")
        .replace("rto_min = \"0.1 s\"", "rto_min = 0.1")
        .replace("codec = \"g711+plc\"", "codec = \"g711+pcl\"")
        .replace("set = \"links.first.delay\"", "ste = \"links.first.delay\"");
    let message = parse(&text, &[]).unwrap_err();
    assert_golden("all_mistakes.txt", &(message.clone() + "\n"));
    assert!(is_plain(&message) && message.starts_with("11 mistakes\n"), "{message}");
    for line in message.lines().skip(1) {
        let (line, rest) = line.trim().strip_prefix("line ").unwrap().split_once(": ").unwrap();
        let found = text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
        let key = rest.split([':', ' ']).next().unwrap().rsplit('.').next().unwrap();
        assert!(found.contains(key) || rest.contains("missing field"), "{line}: {found}: {rest}");
    }
}

#[test]
fn all_contradictions_are_said_at_once() {
    let text = BASE
        .replace("ends = [\"m\", \"b\"]", "ends = [\"m\", \"c\"]\nmtu = \"1500 B\"")
        .replace("ends = [\"c\", \"d\"]", "ends = [\"c\", \"b\"]")
        .replace("[paths.p0]", "[paths.p1]\nvia = [\"third\"]\nmtu = \"1 B\"\n\n[paths.p0]")
        .replace("rate = \"1 Mbit/s\"", "rate = \"1 Mbit/s\"\nmtu = \"5 B\"");
    let message = parse(&text, &[]).unwrap_err();
    let keys: Vec<&str> = message.lines().skip(1).map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(message.lines().next(), Some("5 mistakes"), "{message}");
    for key in ["links.first.mtu", "links.second.mtu", "links.other.mtu", "paths.p0.via", "paths.p1.mtu"] {
        assert!(keys.iter().any(|one| one.starts_with(key)), "{key}: {message}");
    }
}

#[test]
fn a_large_tree_of_mistakes_ends_soon() {
    use std::fmt::Write as _;
    let mut text = String::from(BASE);
    for link in 0..3000 {
        writeln!(text, "[links.l{link}]\nends = [\"a\", \"b\"]\ndelya = 5\nraet = \"x\"\n").unwrap();
    }
    let message = parse(&text, &[]).unwrap_err();
    assert!(message.starts_with("20 mistakes") || message.contains("links.l0.delya"), "{message}");
}

#[test]
fn a_mistake_in_a_flow_with_a_count_names_that_flow() {
    let is_in_flow = |path: &str| path.starts_with("flows.call.") && !path.starts_with("flows.call.count");
    for (path, value, _) in MISTAKES.iter().filter(|(path, ..)| is_in_flow(path)) {
        let of_several = message(&[(path, value), ("flows.call.count", "12")]);
        assert_eq!(of_several, message(&[(path, value)]), "{path} = {value}");
    }
}

#[test]
fn text_that_is_not_a_scenario_is_one_sentence() {
    for (text, words) in [
        ("", "missing field `links`"),
        ("links = {", "line 1: "),
        ("a = 1\na = 2", "line 2: "),
        ("seed = 1\nname = 1979-05-27", "name: `1979-05-27` is a date"),
        ("run.warm_up = nan", "run.warm_up: `NaN` is not a number"),
        ("flows.x.transport.rto_alpha = inf", "flows.x.transport.rto_alpha: `inf` is not a number"),
        ("links.'a b' = { ends = ['a', 'b'] }\npaths = {}\nflows = {}", "links: `a b` is not a name"),
        ("links = {}\npaths = {}\nflows = {}", "flows: there is none"),
        ("\u{0}", "line 1: "),
    ] {
        let message = parse(text, &[]).unwrap_err();
        assert!(message.contains(words) && is_plain(&message), "{text:?}: {message:?}");
    }
    let error = Study::load(Path::new("no/such/file.toml"), &[]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read `no/such/file.toml`: "), "{error}");
}

/// Values that a typing error, an editor or a script may put in place of a valid one.
const VALUES: [&str; 24] = [
    "",
    "0",
    "-1",
    "1e400",
    "nan",
    "true",
    "[]",
    "{}",
    "[[]]",
    "[['0 s']]",
    "{ kind = 'x' }",
    "kind",
    "' '",
    "\"a\\nb\\u0000\"",
    "1979-05-27",
    "9223372036854775807",
    "1e9 s",
    "0 s",
    "1e-9 bit/s",
    "200 %",
    "off",
    "['p0', 'p0']",
    "[{ kind = 'poisson' }]",
    "{ timetable = [] }",
];

/// The dotted path of every value of a table.
fn paths(value: &toml::Value, path: &str, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        toml::Value::Table(table) => table.iter().for_each(|(key, value)| paths(value, &below(key), found)),
        toml::Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| paths(item, &below(&index.to_string()), found));
        }
        _ => {}
    }
    found.push(path.to_owned());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// A slip in the text, or a wrong value anywhere, gives either a valid scenario or one sentence.
    #[test]
    fn no_slip_panics(
        text in random_scenario::text(),
        at in any::<prop::sample::Index>(),
        length in 0..12usize,
        insert in prop::sample::select(&["", "x", "\n", "'", "]", "= ", "[links.q]\n", "\u{7f}", "ä"][..]),
    ) {
        let from = at.index(text.len());
        let to = (from + length).min(text.len());
        let slipped = format!("{}{insert}{}", &text[..from], &text[to..]);
        if let Err(message) = parse(&slipped, &[]) {
            prop_assert!(is_plain(&message), "{message:?}");
        }
    }

    #[test]
    fn no_value_panics(
        text in random_scenario::text(),
        at in any::<prop::sample::Index>(),
        value in prop::sample::select(&VALUES[..]),
        suffix in prop::sample::select(&["", "", ".x", ".0", ".kind"][..]),
    ) {
        let mut found = Vec::new();
        paths(&toml::Value::Table(toml::from_str(&text).unwrap()), "", &mut found);
        found.pop();
        let path = format!("{}{suffix}", at.get(&found));
        if let Err(message) = parse(&text, &[(&path, value)]) {
            prop_assert!(is_plain(&message), "{message:?}");
            let section = path.split('.').next().unwrap();
            prop_assert!(
                ["links", "paths", "flows", section].iter().any(|key| message.contains(key)),
                "{path} = {value}: {message}"
            );
        }
    }
}
