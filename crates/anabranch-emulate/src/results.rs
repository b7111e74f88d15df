//! The scalars of an emulation and of a testbed, beside those of a simulated run.

use anabranch::results::Group;

use crate::{carrier, kernel, lateness};

/// These scalars.
pub fn groups() -> Vec<Group> {
    let lists = [lateness::SCALARS, carrier::SCALARS, kernel::SOCKET_SCALARS];
    let emulation = Group::new("emulation", "An emulation, or a testbed", &["emulation"], &lists);
    let ends = kernel::SCALARS.map(|(kind, part, about, lists)| {
        Group::new(kind, about, &[&format!("<flow>.{kind}.<side>{part}")], lists)
    });
    std::iter::once(emulation).chain(ends).collect()
}
