//! Hosts under attack, in virtual time: no panic, no state before a valid cookie, memory that stays as it
//! was, answers that are no lever against others, and a transfer beside the attack that goes on.
//!
//! docs/security.md has the table of what must hold. `cargo test` sends few packets of each kind; with
//! `--include-ignored` there are 100,000, and with `ANABRANCH_SECURITY=write` their numbers go into the page.

mod bytes;
mod mptcp;
#[cfg(feature = "quic")]
mod quic;
mod sctp;
mod sctp_peer;
mod sctp_work;
mod tcp;
mod world;

/// Every attack has a row with its numbers in docs/security.md, and every row there is a test.
#[test]
fn the_page_has_every_attack() {
    // Other tests count allocations at the same time.
    let _alone = world::alone();
    let page = include_str!("../../../../docs/security.md");
    let (page, numbers) = page.split_once("## What it costs").expect("there are numbers");
    let modules = [
        ("mptcp", include_str!("mptcp.rs")),
        ("quic", include_str!("quic.rs")),
        ("sctp", include_str!("sctp.rs")),
        ("sctp_peer", include_str!("sctp_peer.rs")),
        ("tcp", include_str!("tcp.rs")),
    ];
    for (module, source) in modules {
        let (_, list) = source.split_once("attacks! {").expect("there is a list");
        let (list, _) = list.split_once("\n}").expect("it ends");
        let names = list.lines().map(str::trim).filter(|line| !line.starts_with("///") && !line.is_empty());
        for name in names {
            let name = format!("`{module}::{}`", name.trim_end_matches(','));
            assert!(page.contains(&name), "{name} is missing");
            assert!(numbers.contains(&format!("| {name} |")), "the numbers of {name} are missing");
        }
        for named in page.split('`').filter_map(|part| part.strip_prefix(&format!("{module}::"))) {
            assert!(source.contains(&format!("fn {named}(")), "{module}::{named} is no test");
        }
    }
}
