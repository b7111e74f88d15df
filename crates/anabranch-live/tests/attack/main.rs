//! Hosts under attack, in virtual time: no panic, no state before a valid cookie, memory that stays as it was,
//! answers that are no lever against others, and a transfer beside the attack that goes on.
//!
//! docs/security.md has the table of what must hold. `cargo test` sends few packets of each kind; with
//! `--include-ignored` there are 100,000, and with `ANABRANCH_SECURITY=write` their numbers go into the page.

mod bytes;
mod mptcp;
mod sctp;
mod sctp_peer;
mod tcp;
mod world;
