//! Dense identifiers. Ids are handed out in order from zero, so tables are plain vectors.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            /// Makes the id of the `n`-th thing of its kind.
            ///
            /// # Panics
            /// When `n` is beyond `u32`, which no table of the simulator reaches.
            #[must_use]
            pub fn new(n: usize) -> Self {
                Self(u32::try_from(n).expect("tables hold fewer than 2^32 rows"))
            }

            /// The position in its table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}#{}", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A request, numbered in order of arrival.
    RequestId
}
id! {
    /// An instance: one engine replica over TP × PP GPUs.
    InstanceId
}
id! {
    /// A pool: the instances of one role.
    PoolId
}
id! {
    /// A row of the table of live requests; reused after the request has ended.
    SlotId
}
