//! Finds out which protocol a script is about.

use crate::executor::Executor;
use crate::script::{Action, Body, Script};
use crate::verdict::{Step, Stop};
use crate::{Options, sctp, tcp};

/// The executor of the protocol that a script is about.
pub(crate) fn executor_of(script: &Script, options: &Options<'_>) -> Step<Box<dyn Executor>> {
    let opens = |name: &str| {
        script.statements.iter().any(|statement| match &statement.action {
            Action::Call(call) => {
                call.name == "socket" && call.arguments.iter().any(|term| term.word() == Some(name))
            }
            _ => false,
        })
    };
    let sends_sctp = script.statements.iter().any(
        |statement| matches!(&statement.action, Action::Packet(packet) if matches!(packet.body, Body::Sctp(_))),
    );
    if sends_sctp || opens("IPPROTO_SCTP") {
        return Ok(Box::new(sctp::SctpExecutor::new(script, options)?));
    }
    if opens("IPPROTO_UDP") || opens("SOCK_DGRAM") {
        return Err(Stop::needs("UDP"));
    }
    Ok(Box::new(tcp::TcpExecutor::new(script, options)?))
}
