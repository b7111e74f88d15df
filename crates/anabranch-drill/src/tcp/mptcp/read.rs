//! Options of an incoming packet, from the words of its statement.

use std::collections::BTreeMap;

use anabranch_transport::flow::Payload;
use anabranch_transport::wire::mptcp::keys::{join_code, short_join_code};
use anabranch_transport::wire::mptcp::{Handshake, Join, Options, Reset, Signal};

use super::{Proof, Told, address, has, needs, number, token};
use crate::script::{Tcp, TcpOption, Term, setting};
use crate::verdict::{Step, Stop};

/// The options of a packet that comes in; `payload` is the part of the subflow's stream that it carries.
pub(in crate::tcp) fn options(
    told: &mut Told,
    proof: Proof,
    tcp: &Tcp,
    payload: Option<Payload>,
) -> Step<Option<Options>> {
    let mut options = Options::default();
    let mut has_any = false;
    for option in tcp.options.iter().flatten() {
        let TcpOption::Mptcp(name, terms) = option else { continue };
        has_any = true;
        match name.as_str() {
            "add_address" => options.signal = Some(add_address(told, name, terms)?),
            "mpcapable" | "mp_capable" => capable(&mut told.variables, name, terms, &mut options)?,
            "dss" => data(name, terms, tcp, payload, &mut options)?,
            // It is ignored if its key is not the receiver's (RFC 8684 section 3.5).
            "mp_fastclose" => {
                let is_believed = number(terms, "ckey").is_none_or(|key| key == proof.keys[0]);
                options.signal = is_believed.then_some(Signal::FastClose);
            }
            "mp_join_syn" | "mp_join_syn_ack" | "mp_join_ack" => {
                let join = join(&told.variables, proof.of_peer(), name, terms)?;
                options.handshake = Some(Handshake::Join(join));
            }
            // With an identifier it is an option of version 0, which is unknown here.
            "mp_prio" if setting(terms, "address_id").is_some() => {}
            "mp_prio" => {
                let is_backup = number(terms, "backup") == Some(1);
                options.signal = Some(Signal::Priority { is_backup });
            }
            "mp_reset" => {
                let reason =
                    terms.first().and_then(Term::number).and_then(|reason| u8::try_from(reason).ok());
                let reason = reason.ok_or_else(|| needs(name, terms))?;
                options.reset = Some(Reset { reason, is_transient: false });
            }
            _ => return Err(needs(name, terms)),
        }
    }
    let is_empty = options == Options::default();
    Ok((has_any && !is_empty).then_some(options))
}

/// `add_address address_id=1 addr[saddr1] hmac=auto`, or with `addr_echo` in place of a code.
fn add_address(told: &mut Told, name: &str, terms: &[Term]) -> Step<Signal> {
    let is_echo = has(terms, "addr_echo");
    let is_known = |term: &Term| match term {
        Term::Element(word, _) => word == "addr",
        Term::Setting(key, value) => match key.name() {
            Some("address_id") => value.number().is_some_and(|number| u8::try_from(number).is_ok()),
            Some("hmac") => value.word() == Some("auto"),
            _ => false,
        },
        other => other.word() == Some("addr_echo"),
    };
    let named = address(terms).filter(|_| terms.iter().all(is_known));
    let named = named.ok_or_else(|| needs(name, terms))?;
    // An echo names one of our addresses; an announcement names one of the peer's.
    let names = &mut told.addresses[usize::from(!is_echo)];
    let known = names.iter().find(|(_, known)| **known == named).map(|(identifier, _)| *identifier);
    let next = names.last_key_value().map_or(1, |(last, _)| last.saturating_add(1));
    let address = number(terms, "address_id").map(|number| number as u8).or(known).unwrap_or(next);
    if !is_echo {
        names.insert(address, named.clone());
        told.announced.push((named, address));
    }
    Ok(Signal::AddAddress { address, is_echo, port: None })
}

/// `mp_join_syn backup=1 address_id=1 token=sha256_32(skey)`, `mp_join_syn_ack address_id=1 sender_hmac=auto`
/// and `mp_join_ack sender_hmac=auto`; `proof` is that of the end that sends it.
fn join(variables: &BTreeMap<String, u64>, proof: Proof, name: &str, terms: &[Term]) -> Step<Join> {
    let is_known = |term: &Term| match term {
        Term::Setting(key, value) => match key.name() {
            Some("address_id" | "backup" | "token") => true,
            Some("sender_hmac") => value.word() == Some("auto"),
            _ => false,
        },
        _ => false,
    };
    if !terms.iter().all(is_known) {
        return Err(needs(name, terms));
    }
    let address = number(terms, "address_id").unwrap_or(0) as u8;
    let is_backup = number(terms, "backup") == Some(1);
    let Proof { keys, nonces } = proof;
    let nonce = nonces[0];
    Ok(match name {
        "mp_join_syn" => {
            let token = setting(terms, "token").and_then(|term| token(variables, term));
            let token = token.ok_or_else(|| needs(name, terms))?;
            Join::Syn { token, nonce, address, is_backup }
        }
        "mp_join_syn_ack" => Join::Answer { code: short_join_code(keys, nonces), nonce, address, is_backup },
        _ => Join::Third { code: join_code(keys, nonces) },
    })
}

/// `mpcapable v1 flags[flag_h] key[ckey=2, skey] mpcdatalen 100`.
fn capable(
    variables: &mut BTreeMap<String, u64>,
    name: &str,
    terms: &[Term],
    options: &mut Options,
) -> Step<()> {
    let mut keys = Vec::new();
    let mut has_length = false;
    // With another version, a flag for an extension, or no known algorithm, the option is ignored (RFC 8684
    // section 3.1).
    let mut is_known = true;
    let mut terms_left = terms.iter();
    while let Some(term) = terms_left.next() {
        match term {
            Term::Word(word) if matches!(word.as_str(), "nokey" | "v1") => {}
            Term::Word(word) if word == "v0" => is_known = false,
            Term::Word(word) if word == "mpcdatalen" => {
                // The checksum is that of the segment.
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
    if !has(terms, "nocs") && setting(terms, "dll").is_some() {
        return Err(Stop::needs("checksums of MPTCP"));
    }
    if let Some(ack) = number(terms, "dack8").or(number(terms, "dack4")) {
        options.data_ack = Some(position(ack)?);
    }
    let Some(start) = number(terms, "dsn8").or(number(terms, "dsn4")) else { return Ok(()) };
    options.has_short_number = number(terms, "dsn8").is_none();
    let (start, length) = (position(start)?, number(terms, "dll").unwrap_or(0));
    let bytes = length.saturating_sub(u64::from(has(terms, "fin")));
    if has(terms, "fin") {
        options.data_fin = Some(start + bytes);
    }
    // A mapping for data that is not in the segment is not kept (`wire::mptcp`).
    if bytes > 0 && tcp.length > 0 {
        let offset = payload.map_or(0, |payload| payload.offset);
        let is_own = bytes == u64::from(tcp.length) && number(terms, "ssn") == Some(offset + 1);
        if !is_own {
            return Err(Stop::needs("a mapping of other bytes than those of its segment"));
        }
        options.data_position = Some(start);
    }
    Ok(())
}
