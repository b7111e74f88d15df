//! Which of several names was probably meant.

/// Longer names are typing errors of nothing.
const LONGEST: usize = 64;

/// The name that is nearest to the given one, if one is near: a third of its letters may differ, or it may be
/// a name's beginning.
pub(super) fn closest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let given: Vec<char> = given.chars().take(LONGEST + 1).collect();
    if given.len() < 2 || given.len() > LONGEST {
        return None;
    }
    let most = (given.len() / 3).max(1);
    let text: String = given.iter().collect();
    let nearest = names
        .iter()
        .map(|name| (distance(&given, &name.chars().take(LONGEST).collect::<Vec<_>>()), *name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, name)| (*distance, !name.starts_with(&text)));
    nearest.map(|(_, name)| name).or_else(|| names.iter().find(|name| name.starts_with(&text)).copied())
}

/// How many letters have to be inserted, left out, replaced or swapped with their neighbour to make one word
/// of the other (optimal string alignment).
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

/// Names as a message lists them.
pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognised_and_another_word_is_not() {
        let keys = ["delay", "jitter", "queue", "rate", "duplicate"];
        for (given, meant) in [
            ("dealy", Some("delay")),
            ("dleay", Some("delay")),
            ("dely", Some("delay")),
            ("jiter", Some("jitter")),
            ("dup", Some("duplicate")),
            ("speed", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(given, &keys), meant, "{given}");
        }
        assert_eq!(closest("ad", &["at", "add", "delete"]), Some("add"));
        assert_eq!(closest("g7", &["amr", "g711", "g722"]), Some("g711"));
        assert_eq!(closest(&"delay".repeat(10_000), &keys), None);
        assert_eq!(distance(&['a', 'b'], &['b', 'a']), 1);
    }
}
