//! The flows that come with fsdyno: those of `plans/flows/`, each a plan whose workload others can use.

/// A flow that comes with fsdyno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShippedFlow {
    /// Its name.
    pub name: &'static str,
    /// The whole plan.
    pub text: &'static str,
}

macro_rules! flows {
    ($($name:literal),+ $(,)?) => {
        /// Every one: filebench's first.
        pub const FLOWS: &[ShippedFlow] = &[$(ShippedFlow {
            name: $name,
            text: include_str!(concat!("../../../plans/flows/", $name, ".toml")),
        }),+];
    };
}

flows![
    "varmail",
    "webserver",
    "webproxy",
    "filebench-fileserver",
    "videoserver",
    "oltp",
    "metadata",
    "mdtest",
    "fs-mark",
    "dbench",
    "maildir",
    "wal-database",
    "sqlite",
    "sqlite-wal",
    "git-checkout",
    "build",
    "vm-image",
    "backup",
    "desktop-prompt",
];

/// The flow of this name.
pub(crate) fn named(name: &str) -> Option<ShippedFlow> {
    FLOWS.iter().copied().find(|flow| flow.name == name)
}
