//! Flows whose ends are run outside: if their messages are carried as UDP carries them, the result is that of
//! the simulation, to the bit.

use std::borrow::Cow;

use anabranch::scenario::Scenario;
use anabranch::sim::{DeliveryStatus, Emulation, Inbound, Outcome, Simulation};
use anabranch_transport::dscp::Dscp;
use anabranch_transport::endpoint::{Command, Event, Received};
use anabranch_transport::flow::{Ecn, Payload, Side};
use anabranch_transport::report::{Row, declared};
use anabranch_transport::udp;

const CALL: &str = "
    run = { duration = '20 s', warm_up = '2 s', phases = ['5 s'] }
    paths.only.via = ['wan']

    [links.wan]
    ends = ['a', 'b']
    rate = '300 kbit/s'
    delay = '20 ms'
    queue = { kind = 'drop_tail', packets = 5 }
    loss = { kind = 'bernoulli', probability = '5 %' }
    cross_traffic = [{ kind = 'poisson', direction = 'forward', packet = '500 B', rate = '150 kbit/s' }]

    [flows.call]
    from = 'a'
    to = 'b'
    paths = ['only']
    transport = { kind = 'udp', rtp = true }
    app = { kind = 'voip', start = '0 s', duration = '15 s' }
";

/// IPv4, UDP and RTP.
const HEADERS: u32 = 20 + 8 + 12;

fn scenario(text: &str) -> Scenario {
    Scenario::parse_network(text, &[], ".".as_ref()).unwrap()
}

/// Carries messages in packets of others, each in one.
fn carried(scenario: &Scenario, trace: bool) -> Outcome {
    let mut emulation = Emulation::build_testbed(scenario, 0, trace).unwrap();
    let mut sent: Vec<Payload> = Vec::new();
    while !emulation.is_over() {
        let now = emulation.next_event();
        let mut arrived = Vec::new();
        loop {
            let has_orders = emulation.advance(now, &mut |delivery| {
                if let DeliveryStatus::Arrived { side, .. } = delivery.status {
                    arrived.push((side, delivery.handle));
                }
            });
            for (side, handle) in arrived.drain(..) {
                let payload = sent[handle as usize];
                let received = Received::unordered(payload);
                emulation.tell(0, side, Event::Received(received));
            }
            let mut orders = Vec::new();
            emulation.take_commands(&mut |flow, side, command| orders.push((flow, side, command)));
            for (flow, side, command) in orders {
                match command {
                    Command::Connect => emulation.tell(flow, side, Event::Connected),
                    Command::Send(message) => {
                        let (handle, size) = (sent.len() as u32, message.payload.length + HEADERS);
                        sent.push(message.payload);
                        let (path, ecn) = (0, Ecn::NotEct);
                        assert!(emulation.send(Inbound {
                            path,
                            side,
                            size,
                            ecn,
                            flow: 1,
                            dscp: Dscp::CS0,
                            handle
                        }));
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !has_orders {
                break;
            }
        }
        let counter = declared(udp::SCALARS[0].1[0], "datagrams_sent");
        let counters = vec![(Cow::Borrowed(""), counter, sent.len() as u64)];
        emulation.observe(0, Side::A, &[], counters);
    }
    emulation.finish()
}

/// The scalars of the application, the link and the run's length.
fn of_interest(row: &Row) -> Vec<(String, String)> {
    let all = row.scalars().filter(|(name, _)| {
        !name.contains(".udp.") && !name.contains("run.events") && !name.contains("run.packets")
    });
    all.map(|(name, value)| (name.to_owned(), format!("{value:?}"))).collect()
}

#[test]
fn an_application_measures_the_same_whoever_carries_its_messages() {
    let scenario = scenario(CALL);
    let simulated = Simulation::build(&scenario, 0, false).unwrap().run(&mut || None).unwrap();
    let outside = carried(&scenario, false);
    assert!(simulated.row.value("call.lost").unwrap() > 10.0);
    assert_eq!(of_interest(&outside.row), of_interest(&simulated.row));
    // The counters of what is run outside are there, less what they had counted in the warm-up.
    let sent = outside.row.value("call.udp.a.datagrams_sent").unwrap();
    let in_phases = ["run.phase_1", "run.phase_2"]
        .map(|phase| outside.row.value(&format!("{phase}.call.udp.a.datagrams_sent")).unwrap());
    assert!(sent > 600.0 && sent == in_phases.iter().sum::<f64>(), "{sent} {in_phases:?}");
}

#[test]
fn traces_are_those_of_a_simulation_but_for_packets() {
    let scenario = scenario(CALL);
    let simulated = Simulation::build(&scenario, 0, true).unwrap().run(&mut || None).unwrap();
    let outside = carried(&scenario, true);
    let names = |outcome: &Outcome| outcome.tables.iter().map(|table| table.name).collect::<Vec<_>>();
    assert_eq!(names(&outside), names(&simulated));
    for (one, other) in outside.tables.iter().zip(&simulated.tables) {
        match one.name {
            "packets" => assert!(one.columns[0].1.is_empty()),
            "frames" | "ratings" | "queues" => assert_eq!(format!("{one:?}"), format!("{other:?}")),
            _ => {}
        }
    }
}

#[test]
fn a_run_ends_with_its_applications_or_with_its_time() {
    let outcome = carried(&scenario(CALL), false);
    let end = outcome.row.value("run.simulated_s").unwrap();
    assert!((15.0..16.0).contains(&end), "{end}");
    let shorter = CALL.replace("duration = '20 s'", "duration = '10 s'");
    let outcome = carried(&scenario(&shorter), false);
    assert_eq!(outcome.row.value("run.simulated_s"), Some(10.0));
}
