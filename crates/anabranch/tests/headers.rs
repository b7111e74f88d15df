//! Headers of traced packets: they belong to the rows of the packet trace, and their lengths add up.

use anabranch::scenario::Scenario;
use anabranch::sim::{Outcome, Simulation};
use anabranch::trace::{Column, Header, Table};
use proptest::prelude::*;

use crate::random_scenario;

fn traced(scenario: &Scenario, keeps_packets: bool) -> Outcome {
    let mut simulation = Simulation::build(scenario, 0, true).unwrap();
    if keeps_packets {
        simulation.keep_packets();
    }
    simulation.run(&mut || None).unwrap()
}

fn column<'a>(outcome: &'a Outcome, name: &str) -> &'a Column {
    let table = outcome.tables.iter().find(|table| table.name == "packets").expect("it was traced");
    &table.columns.iter().find(|(one, _)| *one == name).expect("the column is there").1
}

fn integers<'a>(outcome: &'a Outcome, name: &str) -> &'a [i64] {
    let Column::Integers(values) = column(outcome, name) else { panic!("{name}") };
    values
}

/// Each row's packet has headers, and these say what the row says.
fn check(outcome: &Outcome) -> Result<(), TestCaseError> {
    let (sizes, numbers) = (integers(outcome, "size_bytes"), integers(outcome, "tsn"));
    for (row, (size, number)) in sizes.iter().zip(numbers).enumerate() {
        let headers = outcome.packets.headers(row).expect("its packet was kept");
        let value = |name: &str| {
            let fields = headers.iter().flat_map(|Header { fields, .. }| fields);
            fields.filter(|(field, _)| *field == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        prop_assert_eq!(value("length of the packet"), [format!("{size} B")]);
        let ip = if headers[0].name == "IPv6" { 40 } else { 20 };
        prop_assert_eq!(headers[0].bytes, ip, "{:?}", &headers);
        if *number >= 0 {
            let names = ["TSN", "sequence number", "cumulative TSN", "new cumulative TSN", "packet number"];
            let numbers = names.map(value);
            // Datagrams of UDP have no number, but what they carry has a place.
            let place = format!("from byte {number} of");
            let has_place = value("payload").iter().any(|text| text.contains(&place));
            let is_said = has_place || numbers.concat().contains(&&*number.to_string());
            prop_assert!(is_said, "{} {:?}", number, headers);
        }
    }
    prop_assert!(outcome.packets.headers(sizes.len()).is_none());
    Ok(())
}

fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 24 };
    ProptestConfig { cases, ..asked }
}

/// The tables as text: a time that never came, NaN, equals itself.
fn written(tables: &[Table]) -> String {
    format!("{tables:?}")
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn each_row_has_the_headers_of_its_packet(text in random_scenario::text()) {
        let scenario = random_scenario::study(&text, &[]).unwrap().scenario;
        let outcome = traced(&scenario, true);
        check(&outcome)?;
        let plain = traced(&scenario, false);
        prop_assert!(plain.packets.headers(0).is_none(), "nobody asked for packets");
        prop_assert!(written(&plain.tables) == written(&outcome.tables), "it changes the traces: {}", text);
    }
}

/// Links that make copies, whose rows are put behind that of the original.
#[test]
fn copies_have_the_headers_of_the_original() {
    let text = r#"
        run.duration = "5 s"
        links.wan = { ends = ["a", "b"], rate = "2 Mbit/s", delay = "10 ms", duplicate = "20 %" }
        paths.only.via = ["wan"]
        flows.load = { from = "a", to = "b", paths = ["only"], transport.kind = "sctp", app.kind = "bulk" }
    "#;
    let scenario = random_scenario::study(text, &[]).unwrap().scenario;
    let outcome = traced(&scenario, true);
    assert!(outcome.row.value("link.wan.forward.duplicated_packets").unwrap() > 10.0);
    check(&outcome).unwrap();
}

/// A call over SCTP on two paths, packet by packet: the words that a reader sees.
#[test]
fn the_fields_are_those_of_the_protocol() {
    let scenario =
        random_scenario::study(include_str!("../../../scenarios/failover.toml"), &[]).unwrap().scenario;
    let outcome = traced(&scenario, true);
    let Column::Text(kinds) = column(&outcome, "kind") else { panic!("kinds are words") };
    let of = |kind: &str| {
        let row = kinds.iter().position(|one| one == kind).unwrap_or_else(|| panic!("no {kind}"));
        outcome.packets.headers(row).unwrap()
    };
    let names = |kind: &str| of(kind).into_iter().map(|header| header.name).collect::<Vec<_>>();
    assert_eq!(names("init"), ["IPv4", "SCTP common header", "INIT"]);
    assert_eq!(names("data"), ["IPv4", "SCTP common header", "DATA"]);
    let data = of("data");
    let fields: Vec<_> = data[2].fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(fields[..2], ["TSN", "stream"]);
    let sack = of("sack");
    let window = sack[2].fields.iter().find(|(name, _)| *name == "receiver window").unwrap();
    assert!(window.1.ends_with(" B") && !window.1.starts_with("0 "), "{window:?}");
}

/// QUIC: each frame of a packet has a row of its own, whose bytes make the packet.
#[test]
fn the_frames_of_a_packet_are_told_apart() {
    let text = r#"
        run.duration = "2 s"
        links.wan = { ends = ["a", "b"], rate = "2 Mbit/s", delay = "10 ms" }
        paths.only.via = ["wan"]
        flows.load = { from = "a", to = "b", paths = ["only"], transport.kind = "quic", app.kind = "bulk" }
    "#;
    let outcome = traced(&random_scenario::study(text, &[]).unwrap().scenario, true);
    check(&outcome).unwrap();
    let sizes = integers(&outcome, "size_bytes");
    let mut found = std::collections::BTreeSet::new();
    for (row, size) in sizes.iter().enumerate() {
        let headers = outcome.packets.headers(row).unwrap();
        assert_eq!(headers.iter().map(|header| i64::from(header.bytes)).sum::<i64>(), *size, "{headers:?}");
        found.extend(headers.into_iter().map(|header| header.name));
    }
    for name in ["QUIC Initial packet", "CRYPTO", "QUIC 1-RTT packet", "STREAM", "ACK", "HANDSHAKE_DONE"] {
        assert!(found.contains(name), "{name} {found:?}");
    }
}
