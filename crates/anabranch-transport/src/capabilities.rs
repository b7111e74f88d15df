//! What a kind of transport can do, declared beside its settings: messages say what to use instead by it, and
//! tools choose figures, names and advice by it.

use serde::Serialize;

/// What a kind of transport can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else")]
pub struct Capabilities {
    /// Its name for people.
    pub title: &'static str,
    /// Whether it is a connection, whose sender waits for the network and for its peer: it has time accounts.
    pub flow_control: bool,
    /// Whether messages stay apart.
    pub messages: Messages,
    /// Whether paths can be added to a connection.
    pub several_paths: bool,
    /// Whether addresses come and go while a connection lives.
    pub changing_addresses: bool,
    /// Whether a connection lives on where a NAT gives its client another port or address.
    pub rebinding: bool,
    /// Whether an application can stop reading ([`Command::PauseReading`](crate::endpoint::Command)).
    pub pauses_reading: bool,
    /// Whether the congestion control can be chosen.
    pub choice_of_control: bool,
    /// What its packets count.
    pub numbering: Numbering,
    /// Whether every path has numbers of its own.
    pub numbers_by_path: bool,
}

/// Whether a transport keeps messages apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    /// Always.
    Always,
    /// Never: it carries bytes.
    Never,
    /// With this setting.
    With(&'static str),
}

/// What the numbers of a transport's packets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbering {
    /// Bytes of a stream.
    Bytes,
    /// Chunks of data.
    Chunks,
    /// Nothing: packets have no numbers.
    Nothing,
    /// Packets.
    Packets,
}
