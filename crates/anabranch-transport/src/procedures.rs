//! Rules in which implementations differ and that no other setting names. Each is either followed or not, by
//! profile.

/// Declares `Config`, in which a scenario may set each rule, and `Procedures` with the value of every one.
/// The values of a rule are those of the profiles, in the order of the columns; `Config::resolve` is told
/// which column counts.
macro_rules! procedures {
    (
        $title:literal,
        $(#[$about:meta])*
        $columns:literal columns:
        $($(#[$doc:meta])* $name:ident: $values:expr;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[schemars(rename = $title)]
        pub struct Config {
            $($(#[$doc])*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $name: Option<bool>,)*
        }

        /// The rules, each with its value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct Procedures {
            $($(#[$doc])*
            pub(super) $name: bool,)*
        }

        impl Config {
            /// The value of every rule: the one that is set, or that of the profile in this column.
            pub(super) fn resolve(&self, column: usize) -> Procedures {
                $(const _: [bool; $columns] = $values;)*
                Procedures { $($name: self.$name.unwrap_or($values[column]),)* }
            }
        }
    };
}

pub(crate) use procedures;
