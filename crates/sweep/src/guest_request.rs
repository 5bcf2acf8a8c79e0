//! The guest that a case needs.

use crate::plan::{Case, Plan};
use fsdyno_core::Devices;
use fsdyno_core::workload::Need;
use fsdyno_host::guest::{GuestProgram, GuestRequest};
use fsdyno_testbed::serve;

/// A client of the server that a case needs; `None` if the filesystem is not served.
pub(crate) fn client(plan: &Plan, case: &Case) -> Option<GuestRequest> {
    let protocol = plan.serve.as_ref()?.protocol;
    Some(GuestRequest {
        kernel: plan.kernels.get(case.configuration.guest_kernel()?)?.clone(),
        shape: plan.guest,
        modules: serve::modules_of_client(protocol),
        programs: serve::programs_of_client(),
        disks: Vec::new(),
    })
}

/// The guest that a case needs; `None` if it runs on the host itself.
pub(crate) fn request(plan: &Plan, case: &Case) -> Option<GuestRequest> {
    request_for(plan, case, &plan.devices)
}

/// The same with images in other places than the plan says.
pub(crate) fn request_for(plan: &Plan, case: &Case, devices: &Devices) -> Option<GuestRequest> {
    let kernel = plan.kernels.get(case.configuration.guest_kernel()?)?.clone();
    let tools = fsdyno_testbed::guest::programs(&case.configuration, devices);
    let tools = tools.into_iter().map(|tool| (tool.program, tool.package));
    let of_workload = case.workload.load().needs().iter().filter_map(|need| match need {
        Need::Program(tool) => Some((tool.program, tool.package)),
        Need::Device | Need::IoUring | Need::Recorder => None,
    });
    let program =
        |(name, package): (&str, &str)| GuestProgram { name: name.to_string(), package: package.to_string() };
    let images = fsdyno_testbed::guest::images(&case.configuration, devices);
    let mut modules = fsdyno_testbed::guest::modules(&case.configuration, devices);
    let mut programs: Vec<GuestProgram> = tools.chain(of_workload).map(program).collect();
    if let Some(served) = &plan.serve {
        modules.extend(serve::modules_of_server(served.protocol));
        programs.extend(serve::programs_of_server(served.protocol));
    }
    Some(GuestRequest {
        kernel,
        shape: plan.guest,
        modules,
        programs,
        disks: images.into_iter().map(|spec| spec.path().to_path_buf()).collect(),
    })
}
