//! The operations that the roles of a workload perform, declared once, with the position of each in its list.

use crate::operation::{Operation, Role};

/// Position of an operation in the list that its role performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepIndex(pub u32);

/// A phase of one role, as plans and results name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseSpec {
    /// Name of the phase.
    pub name: &'static str,
    /// Who works in it.
    pub role: Role,
    /// The operations that they perform.
    pub steps: &'static [Operation],
}

impl PhaseSpec {
    /// The name of the measure that is the 99.9th percentile of one of its operations.
    pub(crate) fn p999(self, operation: Operation) -> String {
        format!("{}/{}/{operation}/p99.9", self.name, self.role)
    }
}

/// The beginning of a list, up to and including this step, for a role that performs only these. The positions
/// of the steps stay the same.
pub const fn up_to(steps: &'static [Operation], last: StepIndex) -> &'static [Operation] {
    steps.split_at(last.0 as usize + 1).0
}

/// Declares the operations of a role: a module with the list and, for each operation, its position. A
/// position typed by hand could file one system call under the name of another.
macro_rules! steps {
    ($($(#[$doc:meta])* $module:ident { $($step:ident = $operation:ident),+ $(,)? })+) => {$(
        $(#[$doc])*
        pub mod $module {
            use crate::operation::Operation;
            use crate::workload::steps::StepIndex;

            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Index { $($step),+ }

            /// The operations in order.
            pub const STEPS: &[Operation] = &[$(Operation::$operation),+];
            $(
                #[doc = concat!("The position of [`Operation::", stringify!($operation), "`].")]
                pub const $step: StepIndex = StepIndex(Index::$step as u32);
            )+
        }
    )+};
}

pub(crate) use steps;

#[cfg(test)]
mod tests {
    use super::*;

    steps! {
        /// A list to test.
        declared { READ = Read, CREATE = Create, UNLINK = Unlinkat }
    }

    #[test]
    fn a_step_is_the_position_of_its_operation() {
        assert_eq!(declared::READ, StepIndex(0));
        assert_eq!(declared::STEPS[declared::CREATE.0 as usize], Operation::Create);
        assert_eq!(declared::STEPS[declared::UNLINK.0 as usize], Operation::Unlinkat);
        assert_eq!(up_to(declared::STEPS, declared::CREATE), [Operation::Read, Operation::Create]);
    }
}
