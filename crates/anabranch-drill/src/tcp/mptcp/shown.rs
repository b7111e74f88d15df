//! Options of a segment that was sent, in the words of a script, and statements in which names are replaced
//! by their values.

use anabranch_transport::flow::{IpVersion, Payload};
use anabranch_transport::wire::mptcp::keys::{join_code, short_join_code};
use anabranch_transport::wire::mptcp::{Handshake, Join, Options, Reset, Signal};

use super::{Proof, Told, address, needs, number, set, set_word, token, word};
use crate::script::{Tcp, TcpOption, Term, setting};
use crate::verdict::Step;

/// The options of a segment that was sent, in the words of a script, laid out in this many bytes as on the
/// wire.
pub(in crate::tcp) fn shown(
    told: &Told,
    proof: Proof,
    options: &Options,
    bytes: u32,
    payload: Payload,
) -> Vec<TcpOption> {
    let mut shown = Vec::new();
    let mut used = 0;
    if let Some(Signal::AddAddress { address, is_echo, .. }) = options.signal {
        shown.push(TcpOption::Mptcp("add_address".into(), shown_address(told, address, is_echo)));
    }
    let is_implied = matches!(options.handshake, Some(Handshake::Capable { .. }));
    match options.handshake {
        Some(Handshake::Capable { sender_key, receiver_key }) => {
            let keys: Vec<u64> = [sender_key, receiver_key].into_iter().flatten().collect();
            let mut terms = vec![word("v1"), Term::Element("flags".into(), vec![word("flag_h")])];
            used = 4 + 8 * keys.len() as u32;
            terms.push(if keys.is_empty() {
                word("nokey")
            } else {
                Term::Element("key".into(), keys.iter().map(|key| Term::Number(*key as i64)).collect())
            });
            if payload.length > 0 {
                terms.extend([word("mpcdatalen"), Term::Number(i64::from(payload.length))]);
                used += 2;
            }
            shown.push(TcpOption::Mptcp("mpcapable".into(), terms));
        }
        Some(Handshake::Join(join)) => {
            used = match join {
                Join::Syn { .. } => 12,
                Join::Answer { .. } => 16,
                Join::Third { .. } => 24,
            };
            shown.push(shown_join(proof, join));
        }
        None => {}
    }
    let signal_bytes = options.signal.map_or(0, |signal| signal.wire_bytes(IpVersion::Ipv4));
    let has_mapping = !is_implied && (options.data_position.is_some() || options.data_fin.is_some());
    if options.data_ack.is_some() || has_mapping {
        // Numbers are as long as there is room for (`wire::mptcp`).
        let size = |ack: u32, sequence: u32| {
            let ack = if options.data_ack.is_some() { ack } else { 0 };
            4 + ack + if has_mapping { sequence + 6 } else { 0 }
        };
        let room = bytes.saturating_sub(signal_bytes + used);
        let widths = [(8, 8), (4, 8), (8, 4), (4, 4)];
        let fits = |(ack, sequence): &(u32, u32)| size(*ack, *sequence) <= room;
        let (ack, sequence) = widths.into_iter().find(fits).unwrap_or((4, 4));
        used += size(ack, sequence);
        let mut terms = Vec::new();
        if let Some(position) = options.data_ack {
            terms.push(set(if ack == 8 { "dack8" } else { "dack4" }, position + 1));
        }
        if has_mapping {
            let start = options.data_position.or(options.data_fin).unwrap_or(0);
            let length = u64::from(payload.length) + u64::from(options.data_fin.is_some());
            let place = if options.data_position.is_some() { payload.offset + 1 } else { 0 };
            terms.push(set(if sequence == 8 { "dsn8" } else { "dsn4" }, start + 1));
            terms.extend([set("ssn", place), set("dll", length)]);
        }
        if options.data_fin.is_some() {
            terms.push(word("fin"));
        }
        shown.push(TcpOption::Mptcp("dss".into(), terms));
    }
    used += signal_bytes;
    match options.signal {
        Some(Signal::Fail { .. }) => shown.push(TcpOption::Mptcp("mp_fail".into(), Vec::new())),
        Some(Signal::FastClose) => shown.push(TcpOption::Mptcp("mp_fastclose".into(), Vec::new())),
        Some(Signal::Priority { is_backup }) => {
            shown.push(TcpOption::Mptcp("mp_prio".into(), vec![set("backup", u64::from(is_backup))]));
        }
        Some(Signal::RemoveAddress { .. }) => {
            shown.push(TcpOption::Mptcp("remove_address".into(), Vec::new()));
        }
        Some(Signal::AddAddress { .. }) | None => {}
    }
    if let Some(reset) = options.reset {
        shown.push(TcpOption::Mptcp("mp_reset".into(), vec![Term::Number(reset.reason.into())]));
        used += Reset::BYTES;
    }
    shown.extend((used..bytes).map(|_| TcpOption::Nop));
    shown
}

/// The terms for an address: its identifier, its name, and whether there is an HMAC or an echo.
fn shown_address(told: &Told, identifier: u8, is_echo: bool) -> Vec<Term> {
    let name = told.addresses[usize::from(is_echo)].get(&identifier);
    let code = if is_echo { word("addr_echo") } else { set_word("hmac", "auto") };
    vec![set("address_id", identifier.into()), word(name.map_or("addr", String::as_str)), code]
}

/// The option of a join, in which a code that is right is shown as `auto`.
fn shown_join(Proof { keys, nonces }: Proof, join: Join) -> TcpOption {
    let backup = |is_backup: bool| is_backup.then(|| set("backup", 1));
    let code = |is_right: bool| set_word("sender_hmac", if is_right { "auto" } else { "wrong" });
    let (name, terms): (_, Vec<Term>) = match join {
        Join::Syn { token, address, is_backup, .. } => {
            let rest = [set("address_id", address.into()), set("token", token.into())];
            ("mp_join_syn", backup(is_backup).into_iter().chain(rest).collect())
        }
        Join::Answer { code: given, is_backup, .. } => {
            let is_right = given == short_join_code(keys, nonces);
            ("mp_join_syn_ack", backup(is_backup).into_iter().chain([code(is_right)]).collect())
        }
        Join::Third { code: given } => ("mp_join_ack", vec![code(given == join_code(keys, nonces))]),
    };
    TcpOption::Mptcp(name.into(), terms)
}

/// A statement about a packet that was sent, with the values of its variables. A key that has no value yet
/// gets that of the packet. [`None`] if it has no MPTCP options.
pub(in crate::tcp) fn resolved(told: &mut Told, wanted: &Tcp, sent: &[TcpOption]) -> Step<Option<Tcp>> {
    let Some(options) = &wanted.options else { return Ok(None) };
    if !options.iter().any(|option| matches!(option, TcpOption::Mptcp(..))) {
        return Ok(None);
    }
    let sent_keys: Vec<u64> = sent.iter().flat_map(keys).collect();
    let mut resolved = Vec::new();
    for option in options {
        let TcpOption::Mptcp(name, terms) = option else {
            resolved.push(option.clone());
            continue;
        };
        resolved.push(match name.as_str() {
            "mpcapable" | "mp_capable" => {
                let terms = terms.iter().map(|term| match term {
                    Term::Element(word, parts) if word == "key" => {
                        let values = parts.iter().enumerate().map(|(index, part)| {
                            let name = part.to_string();
                            let own = sent_keys.get(index).copied();
                            let value = told.variables.get(&name).copied().or(own).unwrap_or(0);
                            told.variables.insert(name, value);
                            Term::Number(value as i64)
                        });
                        Term::Element(word.clone(), values.collect())
                    }
                    other => other.clone(),
                });
                TcpOption::Mptcp("mpcapable".into(), terms.collect())
            }
            "dss" => {
                // Without a sequence number there is no mapping, whatever the other keys say.
                let is_mapped = setting(terms, "dsn8").or(setting(terms, "dsn4")).is_some();
                let kept = terms.iter().filter(|term| match term {
                    Term::Setting(key, _) => is_mapped || !matches!(key.name(), Some("dll" | "ssn")),
                    other => other.word() != Some("nocs"),
                });
                let mut kept: Vec<Term> = kept.cloned().collect();
                if is_mapped && setting(terms, "ssn").is_none() {
                    // The position of the mapping on the subflow is not stated.
                    let length = kept.iter().position(|term| is_set(term, "dll")).unwrap_or(kept.len());
                    kept.splice(length..length, sent_term(sent, "dss", "ssn"));
                }
                TcpOption::Mptcp(name.clone(), kept)
            }
            "add_address" => {
                let identifier = terms.iter().find(|term| is_set(term, "address_id")).cloned();
                let identifier = identifier.or_else(|| sent_term(sent, name, "address_id"));
                let named = address(terms).map(|name| word(&name));
                let code = terms.iter().filter(|term| is_set(term, "hmac") || term.word().is_some());
                let terms = identifier.into_iter().chain(named).chain(code.cloned());
                TcpOption::Mptcp(name.clone(), terms.collect())
            }
            // The identifier in the answer is not compared: the suites' own tool takes the packet's.
            "mp_join_syn" | "mp_join_syn_ack" | "mp_join_ack" => {
                let has_identifier = name == "mp_join_syn";
                let identifier = terms.iter().find(|term| is_set(term, "address_id")).cloned();
                let identifier = identifier.or_else(|| sent_term(sent, name, "address_id"));
                let token = setting(terms, "token").and_then(|term| token(&told.variables, term));
                let code = terms.iter().find(|term| is_set(term, "sender_hmac")).cloned();
                let backup = number(terms, "backup").filter(|backup| *backup != 0);
                let terms = backup.map(|backup| set("backup", backup)).into_iter();
                let terms = terms.chain(identifier.filter(|_| has_identifier));
                let terms = terms.chain(token.map(|token| set("token", token.into()))).chain(code);
                TcpOption::Mptcp(name.clone(), terms.collect())
            }
            "mp_fastclose" | "mp_prio" | "mp_reset" => TcpOption::Mptcp(name.clone(), terms.clone()),
            _ => return Err(needs(name, terms)),
        });
    }
    Ok(Some(Tcp { options: Some(resolved), ..wanted.clone() }))
}

fn is_set(term: &Term, key: &str) -> bool {
    matches!(term, Term::Setting(name, _) if name.name() == Some(key))
}

/// The value of a key in an option of a packet that was sent.
fn sent_term(sent: &[TcpOption], name: &str, key: &str) -> Option<Term> {
    sent.iter().find_map(|option| match option {
        TcpOption::Mptcp(known, terms) if known == name => {
            terms.iter().find(|term| is_set(term, key)).cloned()
        }
        _ => None,
    })
}

/// The keys in an option.
fn keys(option: &TcpOption) -> Vec<u64> {
    let TcpOption::Mptcp(_, terms) = option else { return Vec::new() };
    let element = terms.iter().find(|term| matches!(term, Term::Element(word, _) if word == "key"));
    element.map_or(Vec::new(), |element| {
        element.parts().iter().filter_map(Term::number).map(|number| number as u64).collect()
    })
}
