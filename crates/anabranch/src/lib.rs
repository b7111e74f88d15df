//! Anabranch: a laboratory for transport over several paths at once.
//!
//! SCTP, Multipath TCP, TCP and UDP over lossy, bursty, loaded links and radios: a deterministic simulator,
//! and the measures of what a user would experience.
//!
//! A scenario describes everything; a [`sim::Simulation`] of it runs once and gives a row of scalars:
//!
//! ```
//! use anabranch::{sim::Simulation, study::Study};
//!
//! let study = Study::parse(
//!     r#"
//!     links.wan = { ends = ["a", "b"], rate = "1 Mbit/s", delay = "30 ms" }
//!     paths.only.via = ["wan"]
//!     flows.call = { from = "a", to = "b", paths = ["only"], transport.kind = "udp", app.kind = "voip" }
//!     "#,
//!     &[],
//!     ".".as_ref(),
//! )?;
//! let outcome = Simulation::build(&study.scenario, 0, false)?.run(&mut || None)?;
//! assert!(outcome.row.value("call.mos") > Some(4.3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`batch::run`] runs a sweep on several threads; the folder `examples` has more.
//!
//! # Features
//! Both are on unless switched off, for example for WebAssembly; results do not depend on them.
//! - `threads`: runs of a batch are computed on several threads.
//! - `files`: scenarios may name files, and files of scenarios can be read.

pub mod app;
pub mod batch;
pub mod capture;
pub mod net;
pub mod outside;
mod parallel;
pub mod results;
pub mod scenario;
pub mod schedule;
pub mod sim;
pub mod study;
pub mod text_file;
pub mod trace;
pub mod transports;

/// The version of the engine: the release, and a hash of its sources without comments and tests. Two engines
/// of one version give the same results.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("ENGINE_SOURCES"));
