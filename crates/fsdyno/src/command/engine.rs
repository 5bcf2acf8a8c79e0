//! `fsdyno engine` (hidden): the engine process. One request on stdin, events on stdout.

use super::Result;
use fsdyno_core::glance::MachineGlance;
use fsdyno_core::{Telemetry, TelemetryRequest};
use fsdyno_engine::Observer;
use fsdyno_telemetry::Sampler;

/// The sampler for the engine: the engine knows when to sample, the sampler what.
struct Looking(Sampler);

impl Observer for Looking {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn look(&mut self) {
        self.0.sample();
    }

    fn latest(&self) -> Option<MachineGlance> {
        self.0.latest()
    }

    fn end(&mut self) -> Option<Telemetry> {
        Some(self.0.end())
    }
}

fn observer(request: &TelemetryRequest) -> Box<dyn Observer> {
    Box::new(Looking(Sampler::new(request.interval, request.devices.clone())))
}

pub fn run() -> Result {
    let code = fsdyno_engine::serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock(), &observer);
    // Not a return: a worker that is stuck in the kernel must not keep the process from ending.
    std::process::exit(code)
}
