//! Tests on the real machine: loop devices, FUSE, the built binary. They run in one process, one test at a
//! time on the machine itself, in parallel with those that run entirely in guests.
//!
//! Each test declares what it requires. Everything missing is printed, and the test counts as ignored, so
//! that the closing line of the suite says how many were skipped. After each test the harness checks that no
//! loop device, mount, scheduler change or sysctl change is left, and that the kernel log has no new
//! complaint.

#[macro_use]
mod support;

mod ask_by_time;
mod auto;
mod axes;
mod bonnie;
mod cache;
mod clients;
mod clock;
mod collection;
mod command_line;
mod commit_log;
mod confinement;
mod device_read;
mod durability;
mod durability_guests;
mod durability_stacks;
mod edges;
mod engine_fuse;
mod engine_tree;
mod external;
mod first_hour;
mod fleet;
mod flows;
mod full_disk;
mod guards;
mod guards_confirmed;
mod guards_partitions;
mod guests;
mod guests_deaf;
mod guests_disks;
mod guests_filesystems;
mod guests_power;
mod guests_resumed;
mod guests_stacks;
mod hooks;
mod hostile_labels;
mod images;
mod in_force;
mod io_errors;
mod kill;
mod lifecycle;
mod memory;
mod modelled;
mod named_disks;
mod open_loop;
mod ordinary_user;
mod package;
mod places;
mod pools;
mod postmark;
mod preallocated;
mod race;
mod recommend;
mod reuse;
mod room;
mod scan;
mod selfcheck;
mod serve;
mod sick_devices;
mod streaming;
mod studies;
mod telemetry;
mod trust;
mod verification;
mod watch;
mod write_rate;

use support::Test;

fn main() {
    let tests: Vec<Test> = [
        ask_by_time::tests(),
        auto::tests(),
        axes::tests(),
        bonnie::tests(),
        cache::tests(),
        clients::tests(),
        clock::tests(),
        collection::tests(),
        command_line::tests(),
        commit_log::tests(),
        confinement::tests(),
        device_read::tests(),
        durability::tests(),
        durability_guests::tests(),
        durability_stacks::tests(),
        edges::tests(),
        engine_fuse::tests(),
        engine_tree::tests(),
        external::tests(),
        first_hour::tests(),
        fleet::tests(),
        flows::tests(),
        full_disk::tests(),
        guards::tests(),
        guards_confirmed::tests(),
        guards_partitions::tests(),
        guests::tests(),
        guests_deaf::tests(),
        guests_disks::tests(),
        guests_filesystems::tests(),
        guests_power::tests(),
        guests_resumed::tests(),
        guests_stacks::tests(),
        hooks::tests(),
        hostile_labels::tests(),
        images::tests(),
        in_force::tests(),
        io_errors::tests(),
        kill::tests(),
        lifecycle::tests(),
        memory::tests(),
        modelled::tests(),
        named_disks::tests(),
        open_loop::tests(),
        ordinary_user::tests(),
        package::tests(),
        places::tests(),
        pools::tests(),
        postmark::tests(),
        preallocated::tests(),
        race::tests(),
        recommend::tests(),
        reuse::tests(),
        room::tests(),
        scan::tests(),
        selfcheck::tests(),
        serve::tests(),
        sick_devices::tests(),
        streaming::tests(),
        studies::tests(),
        telemetry::tests(),
        trust::tests(),
        verification::tests(),
        watch::tests(),
        write_rate::tests(),
    ]
    .concat();
    support::run(tests);
}
