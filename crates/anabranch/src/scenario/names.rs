//! Which of several names was probably meant.

use strsim::osa_distance;

/// Longer names are typing errors of nothing.
const LONGEST: usize = 64;

/// The name that is nearest to the given one, if one is near: a third of its letters may differ, or it may be
/// a name's beginning.
pub(crate) fn closest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let letters = given.chars().take(LONGEST + 1).count();
    if !(2..=LONGEST).contains(&letters) {
        return None;
    }
    let most = (letters / 3).max(1);
    let nearest = names
        .iter()
        .map(|name| (osa_distance(given, &name.chars().take(LONGEST).collect::<String>()), *name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, name)| (*distance, !name.starts_with(given)));
    nearest.map(|(_, name)| name).or_else(|| names.iter().find(|name| name.starts_with(given)).copied())
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
    }
}
