//! Shell commands in back quotes: the part of a shell's language with which scripts change settings, one
//! command per line.

use crate::verdict::{Step, Stop};

/// Splits a text into commands, and these into words: lines and `;` separate commands, a backslash joins
/// lines, quotes hold words together, `#` begins a comment, redirections are dropped, and `$((2*3))` is
/// computed.
pub(crate) fn commands(text: &str) -> Step<Vec<Vec<String>>> {
    let text = text.replace("\\\n", " ");
    let mut commands = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("if ") && only_computes(lines.clone()) {
            let mut open = 1;
            while open > 0
                && let Some(line) = lines.next()
            {
                open += depth_of(line);
            }
            continue;
        }
        if ["if ", "let ", "for ", "while "].iter().any(|word| line.trim_start().starts_with(word)) {
            return Err(Stop::needs(format!("a shell's \"{}\"", line.trim())));
        }
        let mut words: Vec<String> = Vec::new();
        let mut word = String::new();
        let mut quote = None;
        let mut rest = line.chars().peekable();
        let mut has_word = false;
        let end = |words: &mut Vec<String>, word: &mut String, has_word: &mut bool| {
            if std::mem::take(has_word) {
                words.push(std::mem::take(word));
            }
        };
        while let Some(next) = rest.next() {
            match (next, quote) {
                (mark, Some(open)) if mark == open => quote = None,
                ('"' | '\'', None) => (quote, has_word) = (Some(next), true),
                ('$', _) if rest.peek() == Some(&'(') => {
                    let inner: String = rest.by_ref().take_while(|character| *character != ')').collect();
                    rest.next();
                    word.push_str(&product(inner.trim_start_matches('(')).ok_or_else(|| {
                        Stop::needs(format!("the arithmetic of a shell in \"{}\"", line.trim()))
                    })?);
                    has_word = true;
                }
                ('#', None) if !has_word => break,
                (';', None) => {
                    end(&mut words, &mut word, &mut has_word);
                    commands.push(std::mem::take(&mut words));
                }
                (space, None) if space.is_whitespace() => end(&mut words, &mut word, &mut has_word),
                (character, _) => {
                    word.push(character);
                    has_word = true;
                }
            }
        }
        end(&mut words, &mut word, &mut has_word);
        commands.push(words);
    }
    Ok(commands.into_iter().map(without_redirections).filter(|words| !words.is_empty()).collect())
}

/// The change in the nesting depth of conditions that a line causes.
fn depth_of(line: &str) -> i32 {
    match line.split_whitespace().next() {
        Some("if") => 1,
        Some("fi") => -1,
        _ => 0,
    }
}

/// Whether what follows a condition's first line does nothing, up to its end, but give values to variables or
/// exit, such as to find the name of an address, which is a name here whatever it is. Such a block changes no
/// setting.
fn only_computes(lines: std::str::Lines<'_>) -> bool {
    let mut open = 1;
    for line in lines {
        let line = line.trim();
        let first = line.split_whitespace().next().unwrap_or("");
        let is_assignment = first.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_')
        });
        let words = ["", "if", "elif", "else", "then", "fi", "let", "echo", "exit"];
        // Whatever else a line might do follows such a mark.
        let is_harmless = (words.contains(&first) || is_assignment || first.starts_with('#'))
            && !line.contains(['>', '`', '|', '&'])
            && !line.replace("$(printf ", "").contains("$(");
        if !is_harmless {
            return false;
        }
        open += depth_of(line);
        if open == 0 {
            return true;
        }
    }
    false
}

/// `2*3` as `6`.
fn product(text: &str) -> Option<String> {
    let mut product: i64 = 1;
    for factor in text.split('*') {
        product = product.checked_mul(factor.trim().parse().ok()?)?;
    }
    Some(product.to_string())
}

fn without_redirections(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut skips = false;
    for word in words {
        let is_redirection = ["/dev/null", "2>&1", "&>"].iter().any(|text| word.contains(text));
        if std::mem::take(&mut skips) || is_redirection {
            skips = matches!(word.as_str(), "&>" | "2>" | ">");
            continue;
        }
        if word == ">" && kept.first().is_some_and(|command: &String| command != "echo") {
            skips = true;
            continue;
        }
        kept.push(word);
    }
    kept
}

/// The settings of `sysctl -q a=1 b/c=2` and of the suites' script that writes files below `/proc/sys`: names
/// with points, and their values. [`None`] if it is another command.
pub(crate) fn settings(words: &[String]) -> Option<Vec<(String, String)>> {
    let command = words.first()?.rsplit('/').next()?;
    if command != "sysctl" && command != "set_sysctls.py" {
        return None;
    }
    let mut settings = Vec::new();
    for word in words[1..].iter().filter(|word| !word.starts_with('-')) {
        let (name, value) = word.split_once('=')?;
        let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
        settings.push((name, value.trim().to_string()));
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_computes_sets_nothing() {
        let computes = "if [[ $A = \"b\" ]]; then\n  if [[ $C =~ ([0-9]+) ]]; then\n let n=${D[1]}+1\n h=\"x$n\"\n \
                        else\n echo \"no\"\n exit 1\n fi\nelse # other\n h=5\nfi\nip mptcp endpoint add $h signal\n";
        let commands = commands(computes).expect("it is passed over");
        assert_eq!(commands, [["ip", "mptcp", "endpoint", "add", "$h", "signal"]]);
        for acts in [
            "if true; then\n ip link del x\nfi",
            "if true; then\n a=1\n",
            "if true; then\n echo 1 > /proc/sys/x\nfi",
            "if true; then\n a=1\nfi && reboot",
            "if true; then\n a=$(reboot)\nfi",
        ] {
            assert!(super::commands(acts).is_err(), "{acts}");
        }
    }

    #[test]
    fn commands_are_words() {
        let text = "# all\nsysctl -q net.a=\"1 $((2*3)) 4\" net/b=5 > /dev/null 2>&1\n\n../x/set_sysctls.py \\\n /proc/sys/net/c=6; nstat > /dev/null\necho 3 > /sys/d";
        let commands = commands(text).expect("they can be read");
        assert_eq!(commands.len(), 4);
        let of = |index: usize| settings(&commands[index]).expect("these are settings");
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(of(0), [pair("net.a", "1 6 4"), pair("net.b", "5")]);
        assert_eq!(of(1), [pair("net.c", "6")]);
        assert_eq!(commands[2], ["nstat"]);
        assert_eq!(commands[3], ["echo", "3", ">", "/sys/d"]);
        assert_eq!(settings(&commands[2]), None);
    }
}
