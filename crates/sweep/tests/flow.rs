//! Flows in plans: what is wrong is said with its line and column, and a shipped flow can be changed key by
//! key.

use fsdyno_core::Workload;
use fsdyno_core::workload::Flow;
use fsdyno_sweep::{FLOWS, Plan, PlanError};

const HEAD: &str = "[device]\ndirectory = \"/tmp\"\n[[workloads]]\nkind = \"flow\"\n";
const FILES: &str =
    "[workloads.files.mail]\ncount = 100\nsize = \"4k\"\n[workloads.roles.client]\nworkers = 2\n";

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(text, "plan.toml", &[])
}

fn flow(plan: &Plan) -> &Flow {
    match &plan.workloads[0] {
        Workload::Flow(flow) => flow,
        other => panic!("{other:?}"),
    }
}

#[test]
fn mistakes_are_told_with_line_and_column() {
    for (steps, expected) in [
        ("[\"fsnyc\"]", "10:10: unknown step 'fsnyc'; did you mean 'fsync'?"),
        ("[{ opne = \"mail\" }]", "10:12: unknown step 'opne'; did you mean 'open'?"),
        ("[\"open\"]", "10:10: 'roles.client.steps.0' must be a table, such as { open = ... }"),
        (
            "[{ open = \"mail\", chose = \"zipf\" }]",
            "10:27: unknown key 'chose' in roles.client.steps.0; did you mean",
        ),
        ("[{ open = \"mail\", choose = \"zpif\" }]", "10:36: unknown choice 'zpif'; did you mean 'zipf'?"),
        ("[{ stat = \"mial\" }]", "10:10: unknown file set 'mial'; did you mean 'mail'?"),
        (
            "[{ stat = \"mail\", probability = 1.5 }]",
            "10:41: 'roles.client.steps.0.probability' must be a share from 0 to 1",
        ),
        (
            "[{ stat = \"mail\", probability = 0 }]",
            "10:41: 'roles.client.steps.0.probability' must be a share greater",
        ),
        ("[{ stat = \"mail\" }, \"fsync\"]", "10:29: nothing has opened 'file' before"),
        ("[{ unlink = \"mail\" }]", "10:9: an iteration of role 'client' removes 1 files of set 'mail'"),
        ("[{ open = \"mail\" }, { append = \"4x\" }, \"close\"]", "10:40: 'roles.client.steps.1.append': "),
        (
            "[{ repeat = 3, steps = [{ stat = \"mail\" }, \"clsoe\"] }]",
            "10:52: unknown step 'clsoe'; did you mean 'close'?",
        ),
        (
            "[{ repeat = 99, steps = [{ unlink = \"mail\" }] }]",
            "10:10: it removes more files of set 'mail' than there are for each of 2 workers",
        ),
    ] {
        let error = parse(&format!("{HEAD}{FILES}steps = {steps}\n")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("plan.toml:{expected}")), "{error}");
    }
    let error = parse(&format!("{HEAD}{FILES}")).unwrap_err().to_string();
    assert!(error.contains("role 'client' has no timed step"), "{error}");
    let error = parse(HEAD).unwrap_err().to_string();
    assert!(error.contains("'roles' must be a table with at least one role"), "{error}");
    let error = parse(&format!("{HEAD}[workloads.roles.cleint]\nworkers = 1\n")).unwrap_err().to_string();
    assert!(error.starts_with("plan.toml:5:18: unknown role 'cleint'; did you mean 'client'?"), "{error}");
    let error = parse(&format!("{HEAD}[workloads.files.\"no name\"]\n")).unwrap_err().to_string();
    assert!(error.contains("must be a name of lower-case letters"), "{error}");
    let error = parse(&format!("{HEAD}[workloads.files.mail]\ncount = 0\n")).unwrap_err().to_string();
    assert!(error.starts_with("plan.toml:6:9: set 'mail' must have from 1 to"), "{error}");
    let empty = FILES.replace("size = \"4k\"", "size = \"4k\"\nprefill = 0");
    let error = parse(&format!("{HEAD}{empty}steps = [{{ stat = \"mail\" }}]\n")).unwrap_err().to_string();
    assert!(
        error.starts_with("plan.toml:11:10: it chooses a file of set 'mail' before any can exist"),
        "{error}"
    );
}

#[test]
fn a_shipped_flow_is_changed_key_by_key() {
    let text = format!(
        "{HEAD}flow = \"varmail\"\nwindow = \"9s\"\n[workloads.files.mail]\ncount = 5000\n\
         [workloads.roles.client]\nworkers = 4\n"
    );
    let plan = parse(&text).unwrap();
    let changed = flow(&plan);
    let shipped = FLOWS.iter().find(|flow| flow.name == "varmail").unwrap();
    let original = parse(shipped.text).unwrap();
    let original = flow(&original);
    assert_eq!((changed.files.0[0].count, changed.roles.0[0].workers), (5000, 4));
    assert_eq!(changed.roles.0[0].steps, original.roles.0[0].steps);
    assert_eq!(changed.files.0[0].size, original.files.0[0].size);
    assert_eq!((changed.window.as_secs_f64(), changed.ramp), (9.0, original.ramp));
    assert_eq!(changed.flow, "varmail");
    // From the command line as well.
    let set = ["workloads.flow=varmail", "workloads.roles.client.workers=3"].map(str::to_string);
    let plan = Plan::parse(HEAD, "plan.toml", &set).unwrap();
    assert_eq!(flow(&plan).roles.0[0].workers, 3);
    let error = parse(&format!("{HEAD}flow = \"varmial\"\n")).unwrap_err().to_string();
    assert!(error.starts_with("plan.toml:5:8: unknown flow 'varmial'; did you mean 'varmail'?"), "{error}");
    // What no longer fits is told where it was changed, if that is where it is.
    let error = parse(&format!("{HEAD}flow = \"varmail\"\n[workloads.roles.client]\nworkers = 2000\n"));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("plan.toml:7:11: role 'client' must have from 1 to"), "{error}");
    let error = parse(&format!("{HEAD}flow = \"varmail\"\n[workloads.files.mail]\nprefill = 0\n"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("roles.client.steps.0: it chooses a file of set 'mail' before any"), "{error}");
}

#[test]
fn a_flow_of_another_plan_is_used_and_its_mistakes_are_told_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("load.toml", &format!("{HEAD}{FILES}steps = [{{ stat = \"mail\" }}]\n"));
    let user = format!("{HEAD}flow = \"load.toml\"\n[workloads.roles.client]\nworkers = 7\n");
    let load = || Plan::load(&path("user.toml"), &[]);
    write("user.toml", &user);
    assert_eq!(flow(&load().unwrap()).roles.0[0].workers, 7);
    write("load.toml", &format!("{HEAD}{FILES}steps = [{{ stat = \"mial\" }}]\n"));
    let error = load().unwrap_err().to_string();
    assert!(error.contains("load.toml:10:10: unknown file set 'mial'"), "{error}");
    write("load.toml", &format!("{HEAD}flow = \"./user.toml\"\n"));
    let error = load().unwrap_err().to_string();
    assert!(error.contains("at most 8 deep and never in a circle"), "{error}");
    write("load.toml", "[device]\ndirectory = \"/tmp\"\n[[workloads]]\nkind = \"null\"\n");
    let error = load().unwrap_err().to_string();
    assert!(error.contains("has no workload of the kind flow"), "{error}");
    std::fs::remove_file(path("load.toml")).unwrap();
    let error = load().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:5:8: cannot read", path("user.toml").display())), "{error}");
}

#[test]
fn every_shipped_flow_is_a_plan_of_its_own() {
    for shipped in FLOWS {
        let plan = parse(shipped.text).unwrap_or_else(|error| panic!("{}: {error}", shipped.name));
        assert_eq!(plan.name, shipped.name);
        assert!(flow(&plan).flow.is_empty(), "{}", shipped.name);
        assert!(shipped.text.contains("\n# Source  "), "{} does not say where it comes from", shipped.name);
        assert!(!fsdyno_core::workload::Load::in_words(flow(&plan)).is_empty());
    }
}
