//! Speed of the links alone, per packet of interest: `cargo bench -p anabranch-bench --bench links`.
//!
//! The three kinds of link of the standard call, one packet of 208 bytes every 20 ms: a plain one, one with
//! cross traffic at 85 % of its rate, one with loss that packets of both directions move.

use std::hint::black_box;

use anabranch::net::{Direction, DuplexLink};
use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::Time;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PACKETS: u64 = 6_000;
const GAP_NANOS: u64 = 20_000_000;
const SIZE: u32 = 208;

fn build(more: &str) -> DuplexLink {
    let config = serde_json::from_str(&format!(r#"{{"rate": "1 Mbit/s", "delay": "10 ms" {more}}}"#))
        .expect("the link is written correctly");
    DuplexLink::build(&config, "link", Streams { seed: 1, replication: 0 }).expect("the link can be built")
}

fn links(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("link");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, more) in [
        ("plain", ""),
        (
            "cross_traffic",
            r#", "cross_traffic": [{"kind": "poisson", "packet": "500 B", "rate": "850 kbit/s"}]"#,
        ),
        (
            "shared_loss",
            r#", "loss": {"kind": "gilbert", "clock": "on_arrival", "sharing": "shared", "at": "ingress",
                "mean_loss": "10 %", "loss_in_bad": 0.85, "mean_bad": "133.3 ms"}"#,
        ),
    ] {
        let link = build(more);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut link = link.clone();
                for packet in 0..PACKETS {
                    let now = Time::from_nanos(packet * GAP_NANOS);
                    black_box(link.accept(now, Direction::Forward, black_box(SIZE), Ecn::NotEct));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, links);
criterion_main!(benches);
