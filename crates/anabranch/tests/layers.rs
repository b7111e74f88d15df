//! The layers of each crate: which module imports which, read from the sources without their tests. The
//! compiler sees to it that `anabranch-transport` knows nothing of `anabranch`.
//!
//! Each module may import those that its line names, and all of these stand above it, so there is no circle.
//! A new arrow is written down here or, better, not drawn. Within a module, whose files know each other more
//! freely, there is no circle of files but those that are listed here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of `anabranch-transport`.
const TRANSPORT: [(&str, &str); 26] = [
    ("time", ""),
    ("plugin", "time"),
    ("units", "time"),
    ("rng", "time"),
    ("report", ""),
    ("procedures", ""),
    ("dscp", ""),
    ("flow", ""),
    ("secret", "rng"),
    ("wire", "dscp flow secret time"),
    ("packet_pool", "wire"),
    ("timer", "rng time"),
    ("quality", "time"),
    ("cc", "flow plugin rng time units"),
    // The policy `echo` rates a call, hence `quality`.
    ("path", "flow plugin quality time units"),
    // A rate sample is what controls take.
    ("recovery", "cc time timer units"),
    ("endpoint", "cc flow path rng secret time units wire"),
    ("observed", "endpoint flow path report time units"),
    ("capabilities", ""),
    ("listener", "endpoint flow rng secret time wire"),
    (
        "sctp",
        "capabilities cc endpoint flow listener observed path procedures recovery report rng secret packet_pool time timer units wire",
    ),
    (
        "tcp",
        "capabilities cc endpoint flow listener observed path procedures recovery report rng secret packet_pool time timer units wire",
    ),
    (
        "mptcp",
        "capabilities cc endpoint flow listener observed path report rng secret tcp time timer units wire",
    ),
    (
        "quic",
        "capabilities cc endpoint flow listener observed path recovery report rng secret packet_pool time timer units wire",
    ),
    ("udp", "capabilities endpoint flow listener observed report time wire"),
    ("rtp", "capabilities cc endpoint flow observed path report rng time udp units wire"),
];

/// The modules of `anabranch`: links, applications, simulation and scenarios.
const ANABRANCH: [(&str, &str); 14] = [
    ("outside", ""),
    ("transports", "outside"),
    ("text_file", ""),
    ("parallel", ""),
    ("schedule", "text_file"),
    ("net", "schedule"),
    ("app", "schedule transports"),
    ("trace", "app net"),
    ("scenario", "app net text_file trace transports"),
    ("capture", "app net scenario transports"),
    ("sim", "app capture net outside scenario trace transports"),
    ("results", "app net sim trace transports"),
    ("study", "parallel scenario sim text_file"),
    ("batch", "parallel scenario sim study trace"),
];

/// The modules of `net`: the parts of a link know neither the link nor its configuration.
const NET: [(&str, &str); 20] = [
    ("packets", ""),
    ("ring", ""),
    ("sojourns", ""),
    ("asked", ""),
    ("ledger", "asked packets"),
    ("capacity", ""),
    ("backlog", "capacity packets ring"),
    ("impairments", ""),
    ("loss", ""),
    ("cross_traffic", "capacity"),
    ("counted", "asked cross_traffic"),
    ("qdisc", "capacity packets sojourns"),
    ("stays", "backlog capacity packets"),
    ("server", "asked backlog capacity counted cross_traffic packets qdisc stays"),
    ("radio", "capacity packets qdisc sojourns"),
    ("config", "capacity cross_traffic impairments packets loss qdisc radio"),
    ("one_way", "asked capacity config cross_traffic packets impairments ledger loss radio server stays"),
    ("queued", "capacity config cross_traffic packets qdisc sojourns"),
    ("medium", "config packets queued radio"),
    ("duplex", "asked config packets loss one_way radio"),
];

/// The modules of `anabranch-live`: neither protocol knows the other, nor a socket.
const LIVE: [(&str, &str); 16] = [
    ("clock", ""),
    ("incoming", ""),
    ("outgoing", ""),
    ("route", ""),
    ("secrets", ""),
    ("outbox", "route"),
    ("stack", "outbox route"),
    ("ports", "route"),
    ("table", "outbox route stack"),
    ("sctp", "outbox outgoing ports route stack table"),
    ("quic", "incoming outbox outgoing route stack table"),
    ("stream", "incoming outbox outgoing ports route table"),
    ("udp", "outbox route stack"),
    ("raw", "outbox route udp"),
    ("tun", "outbox route udp"),
    ("driver", "clock outbox raw route sctp secrets stack tun udp"),
];

/// The modules of `anabranch-emulate`.
const EMULATE: [(&str, &str); 16] = [
    ("clock", ""),
    ("duty_cycle", ""),
    ("elsewhere", ""),
    ("flows", ""),
    ("lateness", ""),
    ("system", ""),
    ("veth", "system"),
    ("plan", "veth"),
    ("capture", "plan"),
    ("device", "veth"),
    ("space", "device plan system veth"),
    ("kernel", "plan space system"),
    ("carrier", "capture clock device duty_cycle flows kernel lateness system veth"),
    ("results", "carrier kernel lateness"),
    ("emulator", "capture carrier clock device duty_cycle kernel plan space"),
    ("testbed", "clock emulator kernel space"),
];

/// The modules of `anabranch-capture`.
const CAPTURE: [(&str, &str); 15] = [
    ("bytes", ""),
    ("chain", ""),
    ("fragments", ""),
    ("columns", "fragments"),
    ("journeys", ""),
    ("sender", ""),
    ("acknowledged", "sender"),
    ("source", ""),
    ("link", "bytes"),
    ("quic", "columns"),
    ("tables", "link quic source"),
    ("formats", "bytes source tables"),
    ("packet", "bytes link tables"),
    ("transport", "bytes columns packet"),
    ("reader", "columns formats fragments link packet source tables transport"),
];

/// The modules of `anabranch-drill`.
const DRILL: [(&str, &str); 11] = [
    ("script", ""),
    ("parser", "script"),
    ("verdict", ""),
    ("shell", "verdict"),
    ("python", "verdict"),
    ("executor", "python script verdict"),
    ("sockets", "executor script verdict"),
    ("tcp", "executor python script sockets verdict"),
    ("sctp", "executor python script sockets verdict"),
    ("protocols", "executor script sctp tcp verdict"),
    ("run", "executor protocols python script shell verdict"),
];

/// Files with a type whose procedures are in files of their own, each with an `impl` of it: these import the
/// type, and its file what it calls and keeps of theirs. An arrow to such a file makes no circle.
const TYPES_IN_PARTS: [(&str, &str); 5] = [
    ("anabranch", "sim/network"),
    ("anabranch-drill", "tcp/connection"),
    ("anabranch-transport", "mptcp/connection"),
    ("anabranch-transport", "quic/connection"),
    ("anabranch-transport", "tcp/connection"),
];

/// The circles of files that exist.
const CIRCLES: [(&str, &str); 1] = [
    // The control of a path is one of a group, whose settings say what control it would have by itself.
    ("anabranch-transport", "cc/controller cc/coupled"),
];

type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_import_what_stands_above_them() {
    check(&TRANSPORT, &arrows(&sources("anabranch-transport"), &[]));
    let engine = sources("anabranch");
    check(&ANABRANCH, &arrows(&engine, &[]));
    check(&NET, &arrows(&engine, &["net"]));
    check(&CAPTURE, &arrows(&sources("anabranch-capture"), &[]));
    check(&LIVE, &arrows(&sources("anabranch-live"), &[]));
    check(&EMULATE, &arrows(&sources("anabranch-emulate"), &[]));
    check(&DRILL, &arrows(&sources("anabranch-drill"), &[]));
}

/// Checks that the arrows are those of the table, and point to earlier lines.
fn check(table: &[(&str, &str)], found: &Arrows) {
    let mut above = BTreeSet::new();
    for &(module, line) in table {
        let allowed: BTreeSet<&str> = line.split_whitespace().collect();
        let below: Vec<_> = allowed.difference(&above).collect();
        assert!(below.is_empty(), "the line of `{module}` names {below:?}, which do not stand above it");
        let imported: BTreeSet<&str> = found[module].iter().map(String::as_str).collect();
        let new: Vec<_> = imported.difference(&allowed).collect();
        assert!(new.is_empty(), "`{module}` imports {new:?}, which its line does not allow");
        let gone: Vec<_> = allowed.difference(&imported).collect();
        assert!(gone.is_empty(), "`{module}` imports {gone:?} no longer: take them off its line");
        above.insert(module);
    }
    let missing: Vec<_> = found.keys().filter(|&module| !above.contains(module.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?} have no line");
}

#[test]
fn files_import_each_other_in_no_circle() {
    for name in [
        "anabranch",
        "anabranch-capture",
        "anabranch-drill",
        "anabranch-emulate",
        "anabranch-live",
        "anabranch-transport",
    ] {
        let mut files = arrows_of_files(&sources(name));
        for (_, file) in TYPES_IN_PARTS.iter().filter(|(krate, _)| *krate == name) {
            let parts = files.iter().filter(|(_, imported)| imported.contains(*file)).count();
            assert!(parts > 0, "{name}: no file imports `{file}`, take it off the list");
            for imported in files.values_mut() {
                imported.remove(*file);
            }
        }
        let allowed = CIRCLES.iter().filter(|(krate, _)| *krate == name).map(|(_, files)| *files);
        let found = circles(&files);
        assert_eq!(found, allowed.map(str::to_owned).collect(), "circles of files in {name}");
    }
}

/// For each file of a crate, named by its module, the others that it imports.
fn arrows_of_files(sources: &[Source]) -> Arrows {
    let modules: BTreeSet<&[String]> = sources.iter().map(|source| source.module.as_slice()).collect();
    let mut handed = BTreeMap::new();
    for Source { module, text } in sources {
        let uses = text.split(';').filter_map(|statement| statement.split_once("use "));
        // `pub use`, `pub(crate) use` and `pub(super) use`.
        let public = uses.filter(|(before, _)| {
            before.trim_end().rsplit(char::is_whitespace).next().is_some_and(|word| word.starts_with("pub"))
        });
        for path in public.flat_map(|(_, path)| paths(path)) {
            let own = [module.as_slice(), &[path[0].to_owned()]].concat();
            let target = match path[0] {
                "crate" | "super" => absolute(module, &path),
                _ if modules.contains(own.as_slice()) => {
                    module.iter().cloned().chain(path.iter().map(|&name| name.to_owned())).collect()
                }
                _ => continue,
            };
            if let Some(name) = target.last() {
                handed.insert([module.as_slice(), std::slice::from_ref(name)].concat(), target);
            }
        }
    }
    let file = |path: &[String]| path.join("/");
    let mut arrows = Arrows::new();
    for Source { module, text } in sources {
        let homes = imports(module, text).into_iter().map(|path| home(path, &modules, &handed));
        let others = homes.filter(|home| home != module).map(|home| file(&home));
        arrows.insert(file(module), others.collect());
    }
    arrows
}

/// The module of the file that has what a path names, also where others hand it on.
fn home(
    mut path: Vec<String>,
    modules: &BTreeSet<&[String]>,
    handed: &BTreeMap<Vec<String>, Vec<String>>,
) -> Vec<String> {
    let mut depth = 0;
    while depth < path.len() {
        let next = &path[..=depth];
        if modules.contains(next) {
            depth += 1;
        } else if let Some(target) = handed.get(next) {
            path = [target.as_slice(), &path[depth + 1..]].concat();
            depth = 0;
        } else {
            break;
        }
    }
    path.truncate(depth);
    path
}

/// The sets of files that lead to each other.
fn circles(arrows: &Arrows) -> BTreeSet<String> {
    let reached: Arrows = arrows
        .keys()
        .map(|from| {
            let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
            while let Some(file) = left.pop() {
                let imported = arrows.get(file).into_iter().flatten();
                left.extend(imported.filter(|file| reached.insert((*file).clone())));
            }
            (from.clone(), reached)
        })
        .collect();
    let circle = |file: &String| {
        let own =
            reached[file].iter().filter(|other| reached.get(*other).is_some_and(|it| it.contains(file)));
        own.map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    arrows.keys().filter(|file| reached[*file].contains(*file)).map(circle).collect()
}

/// A module of the crate, by its path, and its source.
struct Source {
    module: Vec<String>,
    text: String,
}

/// All modules of a crate that are not tests.
fn sources(name: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    read(&root.join("lib.rs"), &root, Vec::new(), &mut sources);
    sources
}

fn read(file: &Path, folder: &Path, module: Vec<String>, sources: &mut Vec<Source>) {
    let text = without_tests(&fs::read_to_string(file).unwrap());
    let declared = text.lines().filter_map(|line| line.strip_suffix(';')?.split_once("mod "));
    for (_, name) in declared.filter(|(before, _)| matches!(*before, "" | "pub " | "pub(crate) ")) {
        let below = folder.join(name);
        let [flat, nested]: [PathBuf; 2] = [below.with_extension("rs"), below.join("mod.rs")];
        let path = module.iter().cloned().chain([name.to_owned()]).collect();
        read(if flat.exists() { &flat } else { &nested }, &below, path, sources);
    }
    sources.push(Source { module, text });
}

/// The source without comments, and without modules of tests, which stand at the end of their file or in one
/// of their own.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            match lines.next() {
                Some(inner) if inner.starts_with("mod ") && inner.ends_with('{') => break,
                Some(item) if item.ends_with(';') => continue,
                item => kept.extend(item),
            }
        } else if line == "#[cfg(doc)]" {
            lines.next();
        } else {
            kept.push_str(line.split("//").next().unwrap_or_default());
        }
        kept.push('\n');
    }
    kept
}

/// For each module directly below `root`, the others there that it imports.
fn arrows(sources: &[Source], root: &[&str]) -> Arrows {
    let depth = root.len();
    let is_below = |path: &[String]| path.len() > depth && path.iter().zip(root).all(|(a, b)| a == b);
    let inside: Vec<_> = sources.iter().filter(|source| is_below(&source.module)).collect();
    let mut arrows: Arrows =
        inside.iter().map(|source| (source.module[depth].clone(), BTreeSet::new())).collect();
    let mut homes: BTreeMap<String, String> =
        arrows.keys().map(|name| (name.clone(), name.clone())).collect();
    for source in sources.iter().filter(|source| source.module == root) {
        homes.extend(handed_on(&source.text).filter(|(_, module)| arrows.contains_key(module)));
    }
    for Source { module, text } in inside {
        let own = &module[depth];
        let targets = imports(module, text).into_iter().filter(|path| is_below(path));
        let named = targets.filter_map(|path| homes.get(&path[depth]).cloned());
        arrows.get_mut(own).unwrap().extend(named.filter(|name| name != own));
    }
    arrows
}

/// The names that a folder's `mod.rs` hands on, each with the module that it comes from.
fn handed_on(text: &str) -> impl Iterator<Item = (String, String)> {
    let uses = text.split(';').filter_map(|statement| statement.split_once("use ")).map(|(_, path)| path);
    uses.flat_map(paths).filter_map(|path| {
        let [module, .., name] = path[..] else { return None };
        Some((name.to_owned(), module.to_owned()))
    })
}

/// Every path in the source that begins with `crate` or `super`, from the crate's root on.
fn imports(module: &[String], text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c == ':' || c == '_' || c.is_alphanumeric()) {
                continue;
            }
            found.extend(paths(&text[at..]).iter().map(|path| absolute(module, path)));
        }
    }
    found
}

/// The paths that the text begins with: one, or one for each member of a group in braces.
fn paths(text: &str) -> Vec<Vec<&str>> {
    if let Some(group) = text.strip_prefix('{') {
        return members(group).iter().flat_map(|member| paths(member.trim_start())).collect();
    }
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(more) = rest.strip_prefix("::") else { return vec![vec![name]] };
    paths(more).into_iter().map(|path| [vec![name], path].concat()).collect()
}

/// The members of a group whose opening brace has been read.
fn members(text: &str) -> Vec<&str> {
    let (mut members, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => {
                members.push(&text[start..at]);
                return members;
            }
            ',' if depth == 0 => {
                members.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    panic!("a group does not end: {text}")
}

fn absolute(module: &[String], path: &[&str]) -> Vec<String> {
    let ups = path.iter().take_while(|name| **name == "super").count();
    let base = if ups > 0 { &module[..module.len() - ups] } else { &[] };
    let rest = &path[ups.max(1)..];
    base.iter().cloned().chain(rest.iter().map(|&name| name.to_owned())).collect()
}

#[test]
fn what_a_folder_hands_on_belongs_to_the_module_it_comes_from() {
    let source = |module: &[&str], text: &str| Source {
        module: module.iter().map(|&name| name.to_owned()).collect(),
        text: text.to_owned(),
    };
    let sources = [
        source(
            &["net"],
            "mod high;\nmod low;\npub use high::High;\npub(crate) use low::{Low, deep::{Deep}};\n",
        ),
        source(&["net", "high"], "use super::{Deep, Low};\nuse super::High;\n"),
        source(&["net", "low"], "fn low(_: crate::net::High) {}\n"),
    ];
    let [high, low] = ["high", "low"].map(str::to_owned);
    let expected = Arrows::from([(high.clone(), [low.clone()].into()), (low, [high].into())]);
    assert_eq!(arrows(&sources, &["net"]), expected);
}

#[test]
fn imports_are_read_in_every_form() {
    let text = without_tests(
        "use super::a;\nuse super::super::{b::{C, D}, e};\nuse crate::{f, g::H};\n#[cfg(doc)]\nuse crate::x;\n\
         #[cfg(test)]\nmod y;\nfn z() { crate::i::j() } // crate::k\n#[cfg(test)]\nmod tests {\nuse crate::l;\n}\n",
    );
    let module = ["net".to_owned(), "radio".to_owned(), "part".to_owned()];
    let found: BTreeSet<String> = imports(&module, &text).iter().map(|path| path.join("::")).collect();
    let expected = ["f", "g::H", "i::j", "net::b::C", "net::b::D", "net::e", "net::radio::a"];
    assert_eq!(found, expected.map(str::to_owned).into());
}

#[test]
fn a_circle_of_files_is_found_through_what_a_folder_hands_on() {
    let source = |module: &[&str], text: &str| Source {
        module: module.iter().map(|&name| name.to_owned()).collect(),
        text: text.to_owned(),
    };
    let sources = [
        source(&[], "mod net;\nmod sim;\n"),
        source(&["net"], "mod high;\nmod low;\npub use high::High;\npub use low::Low;\n"),
        source(&["net", "high"], "use super::Low;\n"),
        source(&["net", "low"], "use crate::net::{High, Low};\n"),
        source(&["sim"], "use crate::net::High;\n"),
    ];
    let arrows = arrows_of_files(&sources);
    assert_eq!(arrows["sim"], ["net/high".to_owned()].into());
    assert_eq!(circles(&arrows), ["net/high net/low".to_owned()].into());
}
