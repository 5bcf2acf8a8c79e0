//! Errors of plans and sweeps for the user, each with its exit code and next step.

use crate::exit::{Status, Trouble};
use anyhow::anyhow;
use fsdyno_sweep::{FitError, PlanError, SweepError};
use fsdyno_testbed::{GuardRefusal, TestbedError};

/// An error of a plan for the user.
pub fn of_plan(error: PlanError) -> Trouble {
    let hint = error.hint();
    let trouble = Trouble::new(Status::Usage, error);
    match hint {
        Some(hint) => trouble.hint(hint),
        None => trouble,
    }
}

/// The error of a plan that does not fit.
pub fn of_fit(error: FitError) -> Trouble {
    let hint = error.hint();
    match error {
        FitError::Plan(error) => of_plan(error),
        other => {
            let trouble = Trouble::new(Status::Usage, other);
            hint.into_iter().fold(trouble, Trouble::hint)
        }
    }
}

/// Everything that is in the way of a sweep, with the next step: once where several have the same.
pub fn refused(refusals: &[GuardRefusal]) -> String {
    let together = refusals.chunk_by(|one, next| (&one.device, &one.hint) == (&next.device, &next.hint));
    let lines = together.flat_map(|same| {
        let reasons = same.iter().map(|one| format!("'{}' {}", one.device.display(), one.reason));
        reasons.chain(same.first().map(|one| format!("  hint: {}", one.hint)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// An error of a sweep for the user.
pub fn of_sweep(error: SweepError) -> Trouble {
    match error {
        SweepError::Testbed(TestbedError::Refused { refusals }) => {
            let error = anyhow!("refused, nothing was written\n{}", refused(&refusals));
            Trouble::new(Status::Refused, error)
        }
        other => {
            let hint = other.hint();
            let status = match other {
                SweepError::NeedsRoot { .. }
                | SweepError::Testbed(TestbedError::Powerless { .. })
                | SweepError::HooksNotAllowed { .. }
                | SweepError::RefusedByMachines { .. } => Status::Refused,
                SweepError::Interrupted => Status::Interrupted,
                _ => Status::Usage,
            };
            let trouble = Trouble::new(status, other);
            match hint {
                Some(hint) => trouble.hint(hint),
                None => trouble,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_step_for_several_reasons_stands_once() {
        let refusal = |reason: &str, hint: &str| GuardRefusal {
            device: "/dev/sdb".into(),
            reason: reason.to_string(),
            hint: hint.to_string(),
        };
        let all = [
            refusal("carries a signature of gpt", "confirm both"),
            refusal("carries a signature of PMBR", "confirm both"),
            refusal("is not confirmed", "confirm it"),
        ];
        let expected = "'/dev/sdb' carries a signature of gpt\n'/dev/sdb' carries a signature of PMBR\n  \
                        hint: confirm both\n'/dev/sdb' is not confirmed\n  hint: confirm it";
        assert_eq!(refused(&all), expected);
    }
}
