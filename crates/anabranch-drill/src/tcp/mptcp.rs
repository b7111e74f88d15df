//! Options of MPTCP: read from a script's words, and told in them.
//!
//! Numbers of the connection are relative in scripts, and count from 1; the endpoint's positions count from
//! 0. Keys are variables: a packet that comes in may give one a value (`key[ckey=2]`), one that is sent gives
//! the endpoint's key its name (`key[skey]`). There is one path here: a script that names further addresses
//! stops with `Stop::Needs`.

use std::collections::BTreeMap;

use anabranch_transport::ground::{IpVersion, Payload};
use anabranch_transport::wire::Body;
use anabranch_transport::wire::mptcp::{Handshake, Options, Segment, Signal};
use anabranch_transport::wire::tcp;

use crate::script::{Tcp, TcpOption, Term, setting};
use crate::verdict::{Step, Stop};

/// Values that a script names.
pub(super) type Variables = BTreeMap<String, u64>;

/// A segment with options of MPTCP or without.
pub(super) fn body(tcp: tcp::Segment, options: Option<Options>) -> Body {
    match options {
        // What they take is of no interest to who receives them.
        Some(options) => Body::Mptcp(Segment { tcp, options, option_bytes: 0 }),
        None => Body::Tcp(tcp),
    }
}

fn needs(name: &str, terms: &[Term]) -> Stop {
    let words: Vec<String> = terms.iter().map(|term| format!(" {term}")).collect();
    Stop::needs(format!("MPTCP: {name}{}", words.concat()))
}

fn number(terms: &[Term], key: &str) -> Option<u64> {
    setting(terms, key).and_then(Term::number).and_then(|number| u64::try_from(number).ok())
}

/// The options of a packet that comes in; `payload`: what it carries of the subflow's stream.
pub(super) fn options(
    variables: &mut Variables,
    tcp: &Tcp,
    payload: Option<Payload>,
) -> Step<Option<Options>> {
    let mut options = Options::default();
    let mut has_any = false;
    for option in tcp.options.iter().flatten() {
        let TcpOption::Mptcp(name, terms) = option else { continue };
        has_any = true;
        match name.as_str() {
            "mpcapable" | "mp_capable" => capable(variables, name, terms, &mut options)?,
            "dss" => data(name, terms, tcp, payload, &mut options)?,
            // With another key than that of the end that gets it, it is not believed (RFC 8684 section 3.5).
            "mp_fastclose" => {
                let own = variables.get("skey").copied();
                let is_believed = number(terms, "ckey").is_none_or(|key| Some(key) == own);
                options.signal = is_believed.then_some(Signal::FastClose);
            }
            "mp_prio" if setting(terms, "address_id").is_none() => {
                let is_backup = number(terms, "backup") == Some(1);
                options.signal = Some(Signal::Priority { is_backup });
            }
            _ => return Err(needs(name, terms)),
        }
    }
    let is_empty = options == Options::default();
    Ok((has_any && !is_empty).then_some(options))
}

/// `mpcapable v1 flags[flag_h] key[ckey=2, skey] mpcdatalen 100`.
fn capable(variables: &mut Variables, name: &str, terms: &[Term], options: &mut Options) -> Step<()> {
    let mut keys = Vec::new();
    let mut has_length = false;
    // If it is of another version, has a flag that stands for an extension, or has no code that is known, it
    // is as if it had not come (RFC 8684 section 3.1).
    let mut is_known = true;
    let mut terms_left = terms.iter();
    while let Some(term) = terms_left.next() {
        match term {
            Term::Word(word) if matches!(word.as_str(), "nokey" | "v1") => {}
            Term::Word(word) if word == "v0" => is_known = false,
            Term::Word(word) if word == "mpcdatalen" => {
                // It is that of the segment.
                terms_left.next();
                has_length = true;
            }
            Term::Word(word) if word == "flags" => {
                let flags = terms_left.next().and_then(Term::number).ok_or_else(|| needs(name, terms))?;
                is_known &= flags == 1;
            }
            Term::Element(word, flags) if word == "flags" => {
                if flags.contains(&Term::Word("flag_a".into())) {
                    return Err(Stop::needs("checksums of MPTCP"));
                }
                is_known &= flags == &[Term::Word("flag_h".into())];
            }
            Term::Element(word, parts) if word == "key" => {
                for part in parts {
                    keys.push(match part {
                        Term::Setting(key, value) => {
                            let value = value.number().ok_or_else(|| needs(name, terms))? as u64;
                            variables.insert(key.to_string(), value);
                            value
                        }
                        other => variables.get(&other.to_string()).copied().unwrap_or(0),
                    });
                }
            }
            _ => return Err(needs(name, terms)),
        }
    }
    if !is_known {
        return Ok(());
    }
    if has_length {
        options.data_position = Some(0);
    }
    let (sender_key, receiver_key) = (keys.first().copied(), keys.get(1).copied());
    options.handshake = Some(Handshake::Capable { sender_key, receiver_key });
    Ok(())
}

/// `dss dack8=1 dsn8=1 ssn=1 dll=100 nocs fin`.
fn data(name: &str, terms: &[Term], tcp: &Tcp, payload: Option<Payload>, options: &mut Options) -> Step<()> {
    let position = |number: u64| number.checked_sub(1).ok_or_else(|| needs(name, terms));
    let has = |word: &str| terms.iter().any(|term| term.word() == Some(word));
    if !has("nocs") {
        return Err(Stop::needs("checksums of MPTCP"));
    }
    if let Some(ack) = number(terms, "dack8").or(number(terms, "dack4")) {
        options.data_ack = Some(position(ack)?);
    }
    let Some(start) = number(terms, "dsn8").or(number(terms, "dsn4")) else { return Ok(()) };
    let (start, length) = (position(start)?, number(terms, "dll").unwrap_or(0));
    let bytes = length.saturating_sub(u64::from(has("fin")));
    if has("fin") {
        options.data_fin = Some(start + bytes);
    }
    if bytes > 0 {
        let offset = payload.map_or(0, |payload| payload.offset);
        let is_own = bytes == u64::from(tcp.length) && number(terms, "ssn") == Some(offset + 1);
        if !is_own {
            return Err(Stop::needs("a mapping of other bytes than those of its segment"));
        }
        options.data_position = Some(start);
    }
    Ok(())
}

fn set(key: &str, value: u64) -> Term {
    Term::Setting(Box::new(Term::Word(key.into())), Box::new(Term::Number(value as i64)))
}

fn word(text: &str) -> Term {
    Term::Word(text.into())
}

/// The options of a segment that was sent, in the words of a script, laid out in so many bytes as on the
/// wire.
pub(super) fn shown(options: &Options, bytes: u32, payload: Payload) -> Vec<TcpOption> {
    let mut shown = Vec::new();
    let mut used = 0;
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
        Some(Handshake::Join(_)) => shown.push(TcpOption::Mptcp("mp_join".into(), Vec::new())),
        None => {}
    }
    let signal_bytes = options.signal.map_or(0, |signal| signal.wire_bytes(IpVersion::Ipv4));
    let has_mapping = !is_implied && (options.data_position.is_some() || options.data_fin.is_some());
    if options.data_ack.is_some() || has_mapping {
        // As long as there is room for (`wire::mptcp`).
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
        Some(Signal::AddAddress { .. }) => shown.push(TcpOption::Mptcp("add_address".into(), Vec::new())),
        Some(Signal::RemoveAddress { .. }) => {
            shown.push(TcpOption::Mptcp("remove_address".into(), Vec::new()));
        }
        None => {}
    }
    shown.extend((used..bytes).map(|_| TcpOption::Nop));
    shown
}

/// A statement about a packet out with the values of its variables; a key that has no value yet gets that of
/// the packet. None where it has no options of MPTCP.
pub(super) fn resolved(variables: &mut Variables, wanted: &Tcp, sent: &[TcpOption]) -> Step<Option<Tcp>> {
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
                            let value = variables.get(&name).copied().or(own).unwrap_or(0);
                            variables.insert(name, value);
                            Term::Number(value as i64)
                        });
                        Term::Element(word.clone(), values.collect())
                    }
                    other => other.clone(),
                });
                TcpOption::Mptcp("mpcapable".into(), terms.collect())
            }
            "dss" => {
                // Without a sequence number there is no mapping, whatever else is said of it.
                let is_mapped = setting(terms, "dsn8").or(setting(terms, "dsn4")).is_some();
                let kept = terms.iter().filter(|term| match term {
                    Term::Setting(key, _) => is_mapped || !matches!(key.name(), Some("dll" | "ssn")),
                    other => other.word() != Some("nocs"),
                });
                TcpOption::Mptcp(name.clone(), kept.cloned().collect())
            }
            "mp_fastclose" | "mp_prio" => TcpOption::Mptcp(name.clone(), terms.clone()),
            _ => return Err(needs(name, terms)),
        });
    }
    Ok(Some(Tcp { options: Some(resolved), ..wanted.clone() }))
}

/// The keys in an option.
fn keys(option: &TcpOption) -> Vec<u64> {
    let TcpOption::Mptcp(_, terms) = option else { return Vec::new() };
    let element = terms.iter().find(|term| matches!(term, Term::Element(word, _) if word == "key"));
    element.map_or(Vec::new(), |element| {
        element.parts().iter().filter_map(Term::number).map(|number| number as u64).collect()
    })
}
