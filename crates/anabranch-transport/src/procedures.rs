//! Rules in which implementations differ and that no other setting names: each a yes or a no, by profile.

/// Declares `Config`, in which a scenario may set each rule, and `Procedures` with the value of every one.
/// The values of a rule are those of the profiles, in the order of the columns that `Config::resolve` is
/// told.
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

        /// The rules, all of them set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct Procedures {
            $($(#[$doc])*
            pub(super) $name: bool,)*
        }

        impl Config {
            /// Every rule: as it is set, or as the profile of this column has it.
            pub(super) fn resolve(&self, column: usize) -> Procedures {
                $(const _: [bool; $columns] = $values;)*
                Procedures { $($name: self.$name.unwrap_or($values[column]),)* }
            }
        }
    };
}

pub(crate) use procedures;
