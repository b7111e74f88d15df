//! The time of whole runs, in wall-clock seconds; `docs/performance.md` states instructions, which vary
//! less from machine to machine.

use std::time::Duration;

use anabranch::sim::Simulation;
use anabranch_bench::standard_call;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

fn runs(criterion: &mut Criterion) {
    let cases: [(&str, &[(&str, &str)]); 3] = [
        ("voip_call", &[]),
        ("voip_call_linux", &[("flows.call.transport.profile", "linux")]),
        ("voip_call_reliable", &[("flows.call.app.reliability", "reliable")]),
    ];
    let mut group = criterion.benchmark_group("run");
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));
    for (name, sets) in cases {
        let scenario = standard_call(sets);
        let mut replication = 0;
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    replication += 1;
                    Simulation::build(&scenario, replication, false).expect("the scenario is sound")
                },
                |simulation| simulation.run(&mut || None).expect("no guard stops the run"),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, runs);
criterion_main!(benches);
