//! Enums with one word per variant.

/// Declares an enum with one word per variant: `as_str`, `parse`, `ALL`, `Display` and serde use the words.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// All variants.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// Returns the variant's word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }

            /// Returns the variant with this word.
            #[must_use]
            pub fn parse(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|known| known.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
