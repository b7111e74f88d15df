//! The trace of loss states: a row whenever the chain of a link's loss went to its bad state or back.

use super::{Column, Table};
use crate::net::Direction;
use crate::net::loss::LossState;

/// The chains of every link and direction begin in the good state.
pub(crate) fn loss_states_table(
    links: &[String],
    mut states: impl FnMut(usize, Direction) -> Vec<LossState>,
) -> Table {
    let (mut link, mut direction) = (Vec::new(), Vec::new());
    let (mut time, mut is_bad) = (Vec::new(), Vec::new());
    for (number, name) in links.iter().enumerate() {
        for way in Direction::BOTH {
            for state in states(number, way) {
                link.push(name.clone().into());
                direction.push(way.name().into());
                time.push(state.time.as_secs_f64());
                is_bad.push(state.is_bad);
            }
        }
    }
    let columns = vec![
        ("time_s", Column::Numbers(time)),
        ("link", Column::Text(link)),
        ("direction", Column::Text(direction)),
        ("is_bad", Column::Flags(is_bad)),
    ];
    Table { name: "loss_states", columns }
}
