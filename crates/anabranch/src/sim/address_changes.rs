//! A host's addresses come and go, and NATs forget them: what the scenario says about it, as commands for the
//! flow's side A.

use std::collections::VecDeque;

use anabranch_transport::endpoint::Command;
use anabranch_transport::flow::PathId;
use anabranch_transport::time::Time;

use crate::scenario::FlowConfig;

/// A change that a host makes at a given time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressChange {
    pub(super) at: Time,
    pub(super) commands: Vec<Command>,
}

/// The changes of a flow, and the paths that do not exist at first.
///
/// # Errors
/// One sentence with key, value and what is allowed.
pub(super) fn read(flow: &FlowConfig) -> Result<(VecDeque<AddressChange>, Vec<PathId>), String> {
    let position = |key: &str, name: &Option<String>| {
        let Some(name) = name else { return Ok(None) };
        match flow.paths.iter().position(|path| path == name) {
            Some(index) => Ok(Some(index)),
            None => {
                Err(format!("{key} = \"{name}\" is no path of this flow; it has {}", flow.paths.join(", ")))
            }
        }
    };
    // Whether a path exists after the changes so far; `None` before its first change, which reveals whether
    // it existed from the start.
    let mut present: Vec<Option<bool>> = vec![None; flow.paths.len()];
    let mut absent = Vec::new();
    let mut changes = VecDeque::new();
    let mut last = Time::ZERO;
    for (number, change) in flow.addresses.iter().enumerate() {
        let in_change = |error: String| format!("addresses.{number}.{error}");
        let at = Time::ZERO + change.at;
        if at < last {
            return Err(in_change(format!(
                "at = \"{}\" is before the change above it; write them in order",
                change.at
            )));
        }
        last = at;
        let mut commands = Vec::new();
        if let Some(index) = position("add", &change.add).map_err(in_change)? {
            if present[index] == Some(true) {
                return Err(in_change(format!(
                    "add = \"{}\" is there already; delete it first",
                    flow.paths[index]
                )));
            }
            let path = PathId(index as u8);
            if present[index].is_none() {
                absent.push(path);
            }
            present[index] = Some(true);
            commands.push(Command::AddAddress(path));
        }
        if let Some(index) = position("set_primary", &change.set_primary).map_err(in_change)? {
            if present[index] == Some(false) {
                let path = &flow.paths[index];
                return Err(in_change(format!("set_primary = \"{path}\" is not there; add it first")));
            }
            // A path whose first change makes it primary is there from the start.
            present[index] = Some(true);
            let path = PathId(index as u8);
            commands.extend([Command::SetPrimary(path), Command::SetPeerPrimary(path)]);
        }
        if let Some(index) = position("delete", &change.delete).map_err(in_change)? {
            if present[index] == Some(false) {
                return Err(in_change(format!(
                    "delete = \"{}\" is not there; add it first",
                    flow.paths[index]
                )));
            }
            present[index] = Some(false);
            commands.push(Command::DeleteAddress(PathId(index as u8)));
        }
        for (key, name, address) in
            [("rebind_port", &change.rebind_port, false), ("rebind_address", &change.rebind_address, true)]
        {
            if let Some(index) = position(key, name).map_err(in_change)? {
                commands.push(Command::Rebind { path: PathId(index as u8), address });
            }
        }
        if commands.is_empty() {
            return Err(in_change(format!(
                "at = \"{}\" changes nothing; use add, set_primary, delete, rebind_port or rebind_address",
                change.at
            )));
        }
        changes.push_back(AddressChange { at, commands });
    }
    Ok((changes, absent))
}
