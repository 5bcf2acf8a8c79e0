//! Tools that must succeed.

use crate::Result;
use crate::error::TestbedError;
use fsdyno_host::{Command, Host, Output};

/// Runs a tool that must succeed.
pub(crate) fn run_to_success(host: &mut dyn Host, step: &'static str, command: &Command) -> Result<Output> {
    let output = host.run(command).map_err(TestbedError::at(step))?;
    if output.status == 0 {
        return Ok(output);
    }
    let said = [output.stderr.trim(), output.stdout.trim()].join("\n");
    Err(TestbedError::Tool {
        step,
        command: command.line(),
        status: output.status,
        output: said.trim().to_string(),
    })
}

/// Returns the error for a plan that asks for something impossible.
pub(crate) fn contradiction(why: String) -> TestbedError {
    TestbedError::Contradiction { contradictions: vec![why] }
}
