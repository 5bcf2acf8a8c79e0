//! Programs that fsdyno runs, and the packages that have them.

/// A program that a filesystem, a layer or a workload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub program: &'static str,
    /// The Debian package that has it; empty if Debian 12 has none.
    pub package: &'static str,
    /// The argument with which it prints its version and does nothing else, if there is one.
    pub version_argument: Option<&'static str>,
}

/// Returns the step to install a program of this package; see [`Tool::package`].
pub fn how_to_install(package: &str) -> String {
    match package {
        "" => "Debian 12 has no package of it; see docs/guide/guests.md".to_string(),
        package => format!("apt-get install {package}"),
    }
}

impl Tool {
    /// A program that prints its version.
    pub const fn new(program: &'static str, package: &'static str, version_argument: &'static str) -> Self {
        Tool { program, package, version_argument: Some(version_argument) }
    }

    /// Programs of one package that print their versions with the same argument.
    pub(crate) const fn of_package<const N: usize>(
        package: &'static str,
        version_argument: &'static str,
        programs: [&'static str; N],
    ) -> [Tool; N] {
        let mut tools = [Tool::new("", package, version_argument); N];
        // Iterators do not work in constants.
        let mut index = 0;
        while index < N {
            tools[index].program = programs[index];
            index += 1;
        }
        tools
    }
}
