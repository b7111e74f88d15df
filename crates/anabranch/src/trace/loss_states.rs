//! The trace of loss states: a row whenever the chain of a link's loss went to its bad state or back.

use anabranch_transport::report::declare;

use super::{Column, Declaration, Table};
use crate::net::Direction;
use crate::net::loss::LossState;

declare! {
    COLUMNS:
    /// When it changed.
    TIME_S = "time_s": Seconds;
    /// The link.
    LINK = "link": Words;
    /// `forward` or `reverse`.
    DIRECTION = "direction": Words;
    /// Whether it went to its bad state.
    IS_BAD = "is_bad": Words;
}

pub(super) const TABLE: Declaration = Declaration {
    name: "loss_states",
    row: "a change in the state of a link's loss chain",
    columns: COLUMNS,
};

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
        (TIME_S, Column::Numbers(time)),
        (LINK, Column::Text(link)),
        (DIRECTION, Column::Text(direction)),
        (IS_BAD, Column::Flags(is_bad)),
    ];
    TABLE.with(columns)
}
