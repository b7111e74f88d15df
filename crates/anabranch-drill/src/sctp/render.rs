//! A packet that was sent, in the words of a script.

use super::form::next;
use super::names::{CAUSES, CHUNKS, PARAMETERS, name};
use super::statement::Numbers;

/// A packet, from behind the common header on.
pub(super) fn packet(mut chunks: &[u8], numbers: &Numbers) -> String {
    let mut words = Vec::new();
    while let Some(([kind, flags], value)) = next(&mut chunks) {
        words.push(chunk(kind, flags, value, numbers));
    }
    format!("> sctp: {}", words.join("; "))
}

/// The numbers of these widths with which bytes begin; zero for those that are missing.
fn numbers<const N: usize>(bytes: &mut &[u8], widths: [usize; N]) -> [u32; N] {
    widths.map(|width| {
        let (number, rest) = bytes.split_at(width.min(bytes.len()));
        *bytes = rest;
        number.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
    })
}

fn letters(flags: u8, letters: &[(u8, char)]) -> String {
    let text: String =
        letters.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| *letter).collect();
    if text.is_empty() { flags.to_string() } else { text }
}

fn chunk(kind: u8, flags: u8, value: &[u8], known: &Numbers) -> String {
    let Some(name) = name(&CHUNKS, kind) else {
        return format!("CHUNK[type=0x{kind:02x}, flgs={flags}, len={}, val=...]", value.len() + 4);
    };
    let mut rest = value;
    let length = value.len() + 4;
    let data = [(4, 'U'), (2, 'B'), (1, 'E'), (8, 'I')];
    match name {
        "ABORT" | "ERROR" => {
            let mut text = format!("{name}[flgs={}", letters(flags, &[(1, 'T')]));
            while let Some(cause) = item(&mut rest, &CAUSES) {
                text = format!("{text}, {cause}");
            }
            text + "]"
        }
        "COOKIE_ECHO" => format!("{name}[flgs={flags}, len={length}, val=...]"),
        "DATA" => {
            let [tsn, sid, ssn, ppid] = numbers(&mut rest, [4, 2, 2, 4]);
            let (flags, tsn) = (letters(flags, &data), known.script_tsn(tsn));
            format!("{name}[flgs={flags}, len={length}, tsn={tsn}, sid={sid}, ssn={ssn}, ppid={ppid}]")
        }
        "FORWARD_TSN" => {
            let [tsn] = numbers(&mut rest, [4]);
            let mut ids = Vec::new();
            while rest.len() >= 4 {
                let [sid, ssn] = numbers(&mut rest, [2, 2]);
                ids.push(format!("{{{sid},{ssn}}}"));
            }
            format!("{name}[flgs={flags}, cum_tsn={}, ids=[{}]]", known.script_tsn(tsn), ids.join(", "))
        }
        "INIT" | "INIT_ACK" => {
            let [tag, window, os, is, tsn] = numbers(&mut rest, [4, 4, 2, 2, 4]);
            let tag = if tag == known.tag { known.script_tag } else { tag };
            let tsn = known.script_tsn(tsn);
            let mut text =
                format!("{name}[flgs={flags}, tag={tag}, a_rwnd={window}, os={os}, is={is}, tsn={tsn}");
            while let Some(parameter) = item(&mut rest, &PARAMETERS) {
                text = format!("{text}, {parameter}");
            }
            text + "]"
        }
        "I_DATA" => {
            let [tsn, sid, _, mid, last] = numbers(&mut rest, [4, 2, 2, 4, 4]);
            let (letters, tsn) = (letters(flags, &data), known.script_tsn(tsn));
            let last = if flags & 2 != 0 { format!("ppid={last}") } else { format!("fsn={last}") };
            format!("{name}[flgs={letters}, len={length}, tsn={tsn}, sid={sid}, mid={mid}, {last}]")
        }
        "NR_SACK" | "SACK" => {
            let [tsn, window, gaps] = numbers(&mut rest, [4, 4, 2]);
            let renegable = name == "SACK";
            let non_renegable = if renegable { 0 } else { numbers(&mut rest, [2])[0] };
            let [duplicates] = numbers(&mut rest, [2]);
            if !renegable {
                numbers(&mut rest, [2]);
            }
            let mut blocks = |count: u32| {
                let block = |_| {
                    let [from, to] = numbers(&mut rest, [2, 2]);
                    format!("{from}:{to}")
                };
                (0..count).map(block).collect::<Vec<_>>().join(", ")
            };
            let mut text =
                format!("{name}[flgs={flags}, cum_tsn={tsn}, a_rwnd={window}, gaps=[{}]", blocks(gaps));
            if !renegable {
                text = format!("{text}, nr_gaps=[{}]", blocks(non_renegable));
            }
            let tsns = (0..duplicates).map(|_| numbers(&mut rest, [4])[0].to_string());
            text + &format!(", dups=[{}]]", tsns.collect::<Vec<_>>().join(", "))
        }
        "SHUTDOWN" => format!("{name}[flgs={flags}, cum_tsn={}]", numbers(&mut rest, [4])[0]),
        "SHUTDOWN_COMPLETE" => format!("{name}[flgs={}]", letters(flags, &[(1, 'T')])),
        "HEARTBEAT" | "HEARTBEAT_ACK" => {
            format!("{name}[flgs={flags}, HEARTBEAT_INFORMATION[len={}, val=...]]", value.len())
        }
        _ => format!("{name}[flgs={flags}]"),
    }
}

/// The next parameter or error cause; [`None`] if there is none left.
fn item(bytes: &mut &[u8], table: &[(&'static str, u16)]) -> Option<String> {
    let (kind, value) = next(bytes)?;
    let (kind, length) = (u16::from_be_bytes(kind), value.len() + 4);
    let Some(name) = name(table, kind) else {
        return Some(format!("0x{kind:04x}[len={length}, val=...]"));
    };
    Some(match name {
        "SUPPORTED_EXTENSIONS" => {
            let types = value.iter().map(|kind| {
                super::names::name(&CHUNKS, *kind).map_or_else(|| format!("0x{kind:02x}"), String::from)
            });
            format!("{name}[types=[{}]]", types.collect::<Vec<_>>().join(", "))
        }
        "SUPPORTED_ADDRESS_TYPES" => {
            let types = value.chunks(2).map(|kind| match kind {
                [0, 5] => "IPv4",
                [0, 6] => "IPv6",
                _ => "...",
            });
            format!("{name}[types=[{}]]", types.collect::<Vec<_>>().join(", "))
        }
        "NO_USER_DATA" | "STALE_COOKIE_ERROR" | "INVALID_STREAM_IDENTIFIER" | "STATE_COOKIE" => {
            let bytes: Vec<String> = value.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("{name}[len={length}, val={}...]", bytes.join(" "))
        }
        "PROTOCOL_VIOLATION" => format!("{name}[info=\"{}\"]", String::from_utf8_lossy(value)),
        _ if value.is_empty() => format!("{name}[]"),
        _ => format!("{name}[...]"),
    })
}
