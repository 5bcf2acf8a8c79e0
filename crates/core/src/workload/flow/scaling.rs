//! A role that is measured with several numbers of workers, one after the other in the same trial: how far
//! its rate grows with them.

use super::{Flow, FlowRole, PHASE};
use crate::workload::parameter::{Inside, Literal, Parameter, ParameterError, Refusal, Surroundings};
use crate::workload::plural;

/// The most numbers of workers: each takes a ramp, a window, and file sets of its own.
const MOST: usize = 16;

/// The numbers of workers of a role that a plan states: one number, or several.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkerCounts(pub(super) Vec<u32>);

impl Parameter for WorkerCounts {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let Literal::Array(all) = literal else {
            return Ok(WorkerCounts(vec![u32::read(literal, surroundings)?]));
        };
        let counts: Result<Vec<u32>, _> = all.iter().map(|one| u32::read(one, surroundings)).collect();
        let grow = |counts: &Vec<u32>| {
            (2..=MOST).contains(&counts.len()) && counts.windows(2).all(|pair| pair[0] < pair[1])
        };
        let expected =
            || format!("a number of workers, or 2 to {MOST} numbers in ascending order, such as [1, 2, 4]");
        let counts = counts.ok().filter(grow).ok_or_else(|| ParameterError::Expected(expected()));
        counts.map(WorkerCounts)
    }

    fn written(&self) -> String {
        match &self.0[..] {
            [one] => one.to_string(),
            all => format!("{all:?}"),
        }
    }
}

impl Flow {
    /// The role that is measured with several numbers of workers, if there is one.
    pub fn scaled(&self) -> Option<&FlowRole> {
        self.roles.0.iter().find(|role| !role.counts.is_empty())
    }

    /// Returns the stages that run one after the other: the name of each phase, and a flow with one number of
    /// workers. The phase with the most workers is the last, and has the name that the phase of every flow
    /// has.
    pub fn stages(&self) -> Vec<(String, Flow)> {
        let Some(scaled) = self.scaled() else { return vec![(PHASE.to_string(), self.clone())] };
        let stage = |workers: &u32| {
            let mut flow = self.clone();
            for role in flow.roles.0.iter_mut().filter(|role| role.role == scaled.role) {
                role.workers = *workers;
                role.counts = Vec::new();
            }
            let name = match scaled.counts.last() == Some(workers) {
                true => PHASE.to_string(),
                false => format!("{PHASE}, {}", plural(*workers, scaled.role.name())),
            };
            (name, flow)
        };
        scaled.counts.iter().map(stage).collect()
    }
}

/// Checks that the numbers of workers fit the rest of the flow, each of whose stages is checked by itself.
pub(super) fn check(flow: &Flow) -> Result<(), Refusal> {
    let mut scaled = flow.roles.0.iter().filter(|role| !role.counts.is_empty());
    let Some(role) = scaled.next() else { return Ok(()) };
    let refuse = |role: &FlowRole, key: &str, text: String| {
        let place = [role.role.name(), key].map(|key| Inside::Key(key.to_string())).to_vec();
        Err(Refusal::sentence("roles", place, text))
    };
    if let Some(other) = scaled.next() {
        let text = format!(
            "role '{}' has several numbers of workers already; give this one a single one",
            role.role
        );
        return refuse(other, "workers", text);
    }
    if let Some(paced) = flow.roles.0.iter().find(|one| one.rate.is_some()) {
        let text = format!(
            "a rate does not grow with the workers of role '{}'; remove it, or give that role a single number \
             of workers",
            role.role
        );
        return refuse(paced, "rate", text);
    }
    if flow.verify {
        let text = "with `verify`, a role has a single number of workers".to_string();
        return refuse(role, "workers", text);
    }
    flow.stages().iter().try_for_each(|(_, stage)| super::check::check(stage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use crate::workload::Load;
    use crate::workload::flow::tests::{flow, open, refused, table, text};
    use crate::workload::parameter::{Nowhere, Parameters};

    #[test]
    fn a_role_can_be_measured_with_several_numbers_of_workers() {
        let numbers = |all: &[i128]| Literal::Array(all.iter().copied().map(Literal::Integer).collect());
        let read = table([("read", text("whole")), ("size", text("4k"))]);
        let mut flow = flow(vec![open(), read, text("close")]);
        let set = |flow: &mut Flow, workers: Literal| {
            flow.set("roles", &table([("client", table([("workers", workers)]))]), &Nowhere)
        };
        set(&mut flow, numbers(&[1, 2, 5])).unwrap();
        assert_eq!(flow.check(), Ok(()));
        assert!(flow.title().starts_with("flow, 1, 2 and 5 clients, window 30s"), "{}", flow.title());
        assert_eq!(flow.in_words()[1], "each of 1, 2 and 5 clients, over and over:");
        assert_eq!((flow.timing().windows, flow.parts(), flow.prepares()), (3, 4, Bytes(5 * 8192)));
        assert_eq!(flow.moves(), Bytes(2 * 5 * 8192), "the sets are created twice more");
        let stages: Vec<(String, u32)> =
            flow.stages().into_iter().map(|(name, stage)| (name, stage.roles.0[0].workers)).collect();
        let expected = [("flow, 1 client", 1), ("flow, 2 clients", 2), (PHASE, 5)];
        assert_eq!(stages, expected.map(|(name, workers)| (name.to_string(), workers)));
        assert!(flow.stages().iter().all(|(_, stage)| stage.scaled().is_none() && stage.check().is_ok()));

        // As JSON it comes back; a single number takes the place of the list.
        let json = serde_json::to_value(&flow).unwrap();
        assert_eq!(serde_json::from_value::<Flow>(json).unwrap(), flow);
        let mut single = flow.clone();
        set(&mut single, Literal::Integer(3)).unwrap();
        assert_eq!(single.stages(), [(PHASE.to_string(), single.clone())]);

        for wrong in [&[][..], &[4], &[2, 1], &[1, 1], &[-1, 2]] {
            let error = format!("{:?}", set(&mut flow, numbers(wrong)).unwrap_err());
            assert!(
                error.contains("or 2 to 16 numbers in ascending order, such as [1, 2, 4]"),
                "{wrong:?}: {error}"
            );
        }
        set(&mut flow, numbers(&[0, 2])).unwrap();
        assert!(refused(&flow).contains("from 1 to 1024 workers, not 0"), "{}", refused(&flow));
        set(&mut flow, numbers(&[1, 2000])).unwrap();
        assert!(refused(&flow).contains("from 1 to 1024 workers, not 2000"), "{}", refused(&flow));
        set(&mut flow, numbers(&[1, 2])).unwrap();
        let mut verified = flow.clone();
        verified.verify = true;
        assert_eq!(
            refused(&verified),
            "roles.client.workers: with `verify`, a role has a single number of workers"
        );
        let mut paced = flow.clone();
        let rate = table([("client", table([("rate", Literal::Integer(3))]))]);
        paced.set("roles", &rate, &Nowhere).unwrap();
        assert!(refused(&paced).starts_with("roles.client.rate: a rate does not grow with the workers"));
        let other =
            table([("workers", numbers(&[1, 2])), ("steps", Literal::Array(vec![open(), text("close")]))]);
        flow.set("roles", &table([("reader", other)]), &Nowhere).unwrap();
        assert!(refused(&flow).starts_with("roles.reader.workers: role 'client' has several numbers"));
    }
}
