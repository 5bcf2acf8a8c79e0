//! Modelled disks are held against what follows from their parameters without any simulation.

use fsdyno_disk::{DiskCompletion, DiskModel, DiskOperation, DiskRequest, Measured, Mechanism, Simulation};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SIZE: u64 = 64 << 30;

fn model(name: &str) -> DiskModel {
    let text = DiskModel::own_text(name).unwrap_or_else(|| panic!("no model '{name}'"));
    DiskModel::parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The same with another value of some parameters.
fn changed(name: &str, changes: &[(&str, &str)]) -> DiskModel {
    let mut text = DiskModel::own_text(name).expect("a model").to_string();
    for (parameter, value) in changes {
        let line = text.lines().find(|line| line.starts_with(&format!("{parameter} = "))).expect("its line");
        let new = format!("{parameter} = {{ value = {value}, basis = \"assumed\", source = \"a test\" }}");
        text = text.replace(line, &new);
    }
    DiskModel::parse(name, &text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Keeps this many requests of `next` in flight until `count` have ended; returns how long that took.
fn closed_loop(
    simulation: &mut Simulation,
    depth: u64,
    count: u64,
    mut next: impl FnMut(u64) -> DiskRequest,
) -> f64 {
    let (mut begun, mut ended, mut now_ns) = (0, 0, 0.0);
    while begun < depth {
        simulation.arrive(next(begun), now_ns);
        begun += 1;
    }
    while ended < count {
        let Some(at_ns) = simulation.next_ns() else { panic!("{ended} of {count} ended") };
        now_ns = at_ns;
        for DiskCompletion { .. } in simulation.advance(now_ns) {
            ended += 1;
            simulation.arrive(next(begun), now_ns);
            begun += 1;
        }
    }
    now_ns
}

/// Requests of 4 KiB at random places.
fn random(kind: DiskOperation, seed: u64) -> impl FnMut(u64) -> DiskRequest {
    random_within(SIZE, kind, seed)
}

fn random_within(size: u64, kind: DiskOperation, seed: u64) -> impl FnMut(u64) -> DiskRequest {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    move |id| DiskRequest { id, kind, offset: random.random_range(0..size / 4096) * 4096, length: 4096 }
}

fn per_second(count: u64, took_ns: f64) -> f64 {
    count as f64 / took_ns * 1e9
}

fn close(found: f64, expected: f64, within: f64, what: &str) {
    let ratio = found / expected;
    assert!((ratio - 1.0).abs() <= within, "{what}: {found} for {expected}, {ratio:.4}");
}

/// One at a time, a random read takes the overhead, a seek, half a revolution and its transfer. More data is
/// on the outer tracks, so the mean seek over random bytes is not quite that over random cylinders.
#[test]
fn random_reads_one_at_a_time_take_what_their_parts_take() {
    let names = ["sata-7200-2009", "sata-7200-today"];
    for (name, span) in names.into_iter().flat_map(|name| [0.1, 0.5, 1.0].map(|span| (name, span))) {
        let text = DiskModel::own_text(name).expect("a model");
        let model = DiskModel::parse(name, &DiskModel::with_span(text, span)).expect("a part of it");
        let Mechanism::HardDisk(disk) = &model.mechanism else { panic!("{name} is a hard disk") };
        let (count, mut simulation) = (20_000, Simulation::new(&model, SIZE));
        let took_ns = closed_loop(&mut simulation, 1, count, random(DiskOperation::Read, 1));

        let ms = |time: fsdyno_core::Nanos| time.0 as f64 / 1e6;
        let revolution = 60e3 / disk.rpm;
        // The radius up to which this share of the bytes is: found by halving, from the integral of the rate.
        let before = |radius: f64| {
            (disk.outer_rate * radius + (disk.inner_rate - disk.outer_rate) * radius * radius / 2.0)
                / ((disk.outer_rate + disk.inner_rate) / 2.0)
        };
        let halved = (0..50).fold([0.0, 1.0], |[low, high], _| {
            let middle = (low + high) / 2.0;
            if before(middle) < span { [middle, high] } else { [low, middle] }
        });
        let innermost = disk.outer_rate + (disk.inner_rate - disk.outer_rate) * halved[0];
        let transfer = 4096.0 / ((disk.outer_rate + innermost) / 2.0 * 1e6) * 1e3;
        let seek = mean_seek(
            disk.outer_rate,
            innermost,
            halved[0],
            [disk.seek_track, disk.seek_mean, disk.seek_full].map(ms),
        );
        let expected = 1e3 / (ms(disk.overhead) + seek + revolution / 2.0 + transfer);
        close(per_second(count, took_ns), expected, 0.01, &format!("{name}, {span} of it"));
    }
}

/// The mean of the curve through the three seek times over two places, each as likely as there are bytes
/// there, by summing over a grid on this share of the radius.
fn mean_seek(outer: f64, inner: f64, share: f64, [track, mean, full]: [f64; 3]) -> f64 {
    let root = ((mean - track) - (full - track) / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
    let linear = (full - track) - root;
    let steps = 1000;
    let weight = |radius: f64| outer + (inner - outer) * radius;
    let (mut sum, mut weights) = (0.0, 0.0);
    for from in 0..steps {
        for to in 0..steps {
            let [a, b] = [from, to].map(|step| (f64::from(step) + 0.5) / f64::from(steps));
            let distance = (a - b).abs() * share;
            let together = weight(a) * weight(b);
            sum += together * (track + root * distance.sqrt() + linear * distance);
            weights += together;
        }
    }
    sum / weights
}

/// Read in a row, every zone delivers its rate.
#[test]
fn sequential_reads_have_the_rate_of_their_zone() {
    let model = model("sata-7200-2009");
    let Mechanism::HardDisk(disk) = &model.mechanism else { panic!("a hard disk") };
    let block = 1 << 20;
    // The bytes before a radius are the integral of the rate up to it.
    let before = |radius: f64| {
        (disk.outer_rate * radius + (disk.inner_rate - disk.outer_rate) * radius * radius / 2.0)
            / ((disk.outer_rate + disk.inner_rate) / 2.0)
    };
    for radius in [0.01, 0.25, 0.5, 0.75, 0.97] {
        // The middle of one of 24 zones.
        let radius = ((radius * 24.0_f64).floor() + 0.5) / 24.0;
        let first = (before(radius) * SIZE as f64) as u64 / 4096 * 4096;
        let (count, mut simulation) = (200, Simulation::new(&model, SIZE));
        let next =
            |id| DiskRequest { id, kind: DiskOperation::Read, offset: first + id * block, length: block };
        let took_ns = closed_loop(&mut simulation, 1, count, next);
        let rate = (count * block) as f64 / took_ns * 1e3;
        let expected = disk.outer_rate + (disk.inner_rate - disk.outer_rate) * radius;
        close(rate, expected, 0.01, &format!("at {radius:.3} of the radius"));
    }
}

/// With a cache, a write takes the overhead and the interface; a flush then takes what the writes have left.
#[test]
fn a_flush_takes_what_the_cache_has_left() {
    let model = model("sata-7200-2009");
    let mut simulation = Simulation::new(&model, SIZE);
    let mut requests = random(DiskOperation::Write, 3);
    let mut now_ns = 0.0;
    for id in 0..64 {
        simulation.arrive(requests(id), now_ns);
        let at_ns = simulation.next_ns().expect("its end");
        assert_eq!(simulation.advance(at_ns).len(), 1, "it ends in the cache");
        now_ns = at_ns;
    }
    assert!(now_ns < 64.0 * 0.2e6, "64 writes took {now_ns}");
    let begun_ns = now_ns;
    simulation.arrive(DiskRequest { id: 64, kind: DiskOperation::Flush, offset: 0, length: 0 }, now_ns);
    let mut ended = Vec::new();
    while ended.is_empty() {
        now_ns = simulation.next_ns().expect("it ends");
        ended = simulation.advance(now_ns);
    }
    let flush_ms = (now_ns - begun_ns) / 1e6;
    // Between one revolution for every third of them, and as if each were alone.
    assert!((64.0 * 8.3 / 3.0..64.0 * 14.0).contains(&flush_ms), "{flush_ms} ms");
    simulation.arrive(DiskRequest { id: 65, kind: DiskOperation::Flush, offset: 0, length: 0 }, now_ns);
    let clean_ns = simulation.next_ns().expect("its end") - now_ns;
    assert!(clean_ns < 0.2e6, "nothing is left: {clean_ns}");
}

/// Without a cache, every write waits for the platters: in a row, a write of one block misses its place and
/// takes a revolution.
#[test]
fn writes_without_a_cache_take_a_revolution_each() {
    let model = changed("sata-7200-2009", &[("write_cache", "\"0\"")]);
    let mut simulation = Simulation::new(&model, SIZE);
    let next = |id| DiskRequest { id, kind: DiskOperation::Write, offset: id * 4096, length: 4096 };
    let took_ns = closed_loop(&mut simulation, 1, 500, next);
    close(per_second(500, took_ns), 7200.0 / 60.0, 0.03, "writes per second");
}

/// More requests in flight are served in a better order: more per second, up to the depth of the queue.
#[test]
fn a_longer_queue_serves_more() {
    let rate = |model: &DiskModel, depth| {
        let mut simulation = Simulation::new(model, SIZE);
        let took_ns = closed_loop(&mut simulation, depth, 4000, random(DiskOperation::Read, 5));
        per_second(4000, took_ns)
    };
    let whole = model("sata-7200-2009");
    let [one, four, all, more] = [1, 4, 31, 128].map(|depth| rate(&whole, depth));
    assert!(one < 0.85 * four && four < 0.7 * all, "{one} {four} {all}");
    close(more, all, 0.02, "what the queue does not take waits");
    let short = changed("sata-7200-2009", &[("queue_depth", "1")]);
    close(rate(&short, 31), one, 0.02, "without NCQ");
}

/// A simulation of its own, in another language, has these figures for the same disk
/// (`tests/witness/queue.py`).
#[test]
fn a_second_simulation_of_the_queue_has_the_same_rates() {
    let model = model("sata-7200-2009");
    for (depth, witness) in [(1, 78.9), (4, 106.9), (16, 151.3), (31, 155.8)] {
        let mut simulation = Simulation::new(&model, SIZE);
        let took_ns = closed_loop(&mut simulation, depth, 20_000, random(DiskOperation::Read, 13));
        close(per_second(20_000, took_ns), witness, 0.03, &format!("{depth} at a time"));
    }
}

/// Random reads by many keep all disks busy, each as many as one with a share of the queue; and one at a time
/// takes what it takes one disk, and the controller.
#[test]
fn an_array_reads_from_all_its_disks() {
    let model = model("raid6-7x-bbu");
    let Mechanism::Array(array, _) = &model.mechanism else { panic!("an array") };
    let alone = |name| {
        let mut simulation = Simulation::new(&self::model(name), SIZE / 5);
        let next = random_within(SIZE / 5, DiskOperation::Read, 11);
        closed_loop(&mut simulation, 1, 4000, next) / 4000.0
    };
    let mut simulation = Simulation::new(&model, SIZE);
    let took = closed_loop(&mut simulation, 1, 4000, random(DiskOperation::Read, 11)) / 4000.0;
    let expected = alone("sata-7200-2009") + array.overhead.0 as f64 + 4096.0 / array.interface_rate * 1e3;
    close(took, expected, 0.02, "ns of a read, one at a time");
    // With 7 requests for each disk, no disk is ever idle for long.
    let rate = |depth| {
        let mut simulation = Simulation::new(&model, SIZE);
        per_second(20_000, closed_loop(&mut simulation, depth, 20_000, random(DiskOperation::Read, 13)))
    };
    let (one, many) = (rate(1), rate(49));
    assert!((7.0..12.0).contains(&(many / one)), "{one} and {many}");
}

/// The cache takes writes at the speed of the interface until it is full. From then on random ones of 4 KiB
/// cost three reads and three writes each in RAID 6, of which a disk does one in each revolution or so.
#[test]
fn random_writes_to_an_array_cost_what_their_parity_costs() {
    let model = changed("raid6-7x-bbu", &[("cache", "\"16M\"")]);
    let mut simulation = Simulation::new(&model, SIZE);
    let fits = 1000;
    let took_ns = closed_loop(&mut simulation, 1, fits, random(DiskOperation::Write, 3));
    close(took_ns / fits as f64, 150e3 + 4096.0 / 600e6 * 1e9, 0.001, "ns of a write into the cache");
    let mut simulation = Simulation::new(&model, SIZE);
    let count = 40_000;
    let took_ns = closed_loop(&mut simulation, 32, count, random(DiskOperation::Write, 3));
    // What is still in the cache at the end costs nothing yet.
    let rate = per_second(count - (16 << 20) / 4096, took_ns);
    let each_disk = rate * 6.0 / 7.0;
    // In the order of their places and with a queue, a disk does 100 to 300 such requests per second.
    assert!(
        (100.0..300.0).contains(&each_disk),
        "{rate} writes per second, {each_disk} requests of each disk"
    );
}

/// Rows that are written whole need no reads: RAID 6 of seven disks writes what five of them write.
#[test]
fn whole_rows_are_written_at_the_rate_of_the_disks_with_data() {
    for parity in [0, 1, 2] {
        let model = changed("raid6-7x-bbu", &[("parity", &parity.to_string()), ("interface_rate", "5000")]);
        let Mechanism::Array(_, disk) = &model.mechanism else { panic!("an array") };
        let mut simulation = Simulation::new(&model, SIZE);
        let length = 1 << 20;
        let count = 6000;
        let next = |id| DiskRequest { id, kind: DiskOperation::Write, offset: id * length, length };
        let took_ns = closed_loop(&mut simulation, 4, count, next);
        let written = (count * length - (256 << 20)) as f64;
        // The outermost tracks.
        let expected = disk.outer_rate * 1e6 * f64::from(7 - parity);
        close(written / took_ns * 1e9, expected, 0.08, &format!("bytes per second with {parity}"));
    }
}

/// A protected cache is safe: a write and a flush take two commands and a transfer. Without a cache, what a
/// write replaces is read first, and comes round again after a revolution at the earliest.
#[test]
fn a_battery_makes_flushes_cheap() {
    let mean_ns = |model: &DiskModel| {
        let mut simulation = Simulation::new(model, SIZE);
        let mut next = random(DiskOperation::Write, 3);
        let count = 200;
        let pairs = |id| match id % 2 {
            0 => next(id),
            _ => DiskRequest { id, kind: DiskOperation::Flush, offset: 0, length: 0 },
        };
        closed_loop(&mut simulation, 1, 2 * count, pairs) / count as f64
    };
    close(mean_ns(&model("raid6-7x-bbu")), 2.0 * 150e3 + 4096.0 / 600e6 * 1e9, 0.001, "ns with a battery");
    let without = mean_ns(&changed("raid6-7x-bbu", &[("cache", "\"0\"")]));
    let turn_ns = 60e9 / 7200.0;
    assert!((1.2 * turn_ns..4.8 * turn_ns).contains(&without), "{without} ns without one");
}

/// Every request ends, once, whatever comes in whatever order.
#[test]
fn every_request_to_an_array_ends_once() {
    for (parity, cache) in [("2", "\"1M\""), ("1", "\"0\""), ("0", "\"4M\""), ("2", "\"16k\"")] {
        let model = changed("raid6-7x-bbu", &[("parity", parity), ("cache", cache)]);
        let mut simulation = Simulation::new(&model, SIZE);
        let mut draw = Xoshiro256PlusPlus::seed_from_u64(5);
        let (count, mut now_ns) = (4000, 0.0);
        let mut ended = std::collections::BTreeSet::new();
        let mut note = |completions: Vec<DiskCompletion>| {
            for DiskCompletion { id, .. } in completions {
                assert!(ended.insert(id), "{id} ended twice");
            }
        };
        for id in 0..count {
            let kind = match draw.random_range(0..20) {
                0 => DiskOperation::Flush,
                1 => DiskOperation::Discard,
                2..10 => DiskOperation::Read,
                _ => DiskOperation::Write,
            };
            let length = if kind == DiskOperation::Flush { 0 } else { draw.random_range(1..=600) * 512 };
            let offset = draw.random_range(0..1 << 17) * 512;
            now_ns += f64::from(draw.random_range(0..4_000_000));
            note(simulation.advance(now_ns));
            simulation.arrive(DiskRequest { id, kind, offset, length }, now_ns);
        }
        // What is in the cache is written in time, and then nothing happens any more.
        for _ in 0..1_000_000 {
            let Some(at_ns) = simulation.next_ns() else { break };
            note(simulation.advance(at_ns));
        }
        assert_eq!(simulation.next_ns(), None, "it never comes to rest");
        assert_eq!(ended.len() as u64, count, "{parity} {cache}");
    }
}

/// A volume delivers its limits, after the burst that it begins with.
#[test]
fn a_volume_delivers_exactly_its_limits() {
    let model = model("ebs-gp3");
    let mut simulation = Simulation::new(&model, SIZE);
    let count = 30_000;
    let took_ns = closed_loop(&mut simulation, 64, count, random(DiskOperation::Read, 7));
    // 30 may begin at once.
    close(per_second(count - 30, took_ns - 600e3), 3000.0, 0.0001, "operations");
    let mut simulation = Simulation::new(&model, SIZE);
    let length = 256 << 10;
    let count = 5000;
    let next = |id| DiskRequest { id, kind: DiskOperation::Write, offset: id * length, length };
    let took_ns = closed_loop(&mut simulation, 64, count, next);
    let bytes = (count * length - (1 << 20)) as f64;
    close(bytes / (took_ns - 800e3) * 1e3, 131.072, 0.0001, "MB per second");
}

/// A volume that lives on credits delivers its peak until they are used up, and its base from then on.
#[test]
fn credits_last_as_long_as_they_are_used_faster_than_they_come_back() {
    let model = changed("ebs-gp2", &[("operation_credits", "27000"), ("operation_burst", "1")]);
    let mut simulation = Simulation::new(&model, SIZE);
    // 27,000 of 3,000 per second, of which 300 come back: 10 s.
    let took_ns = closed_loop(&mut simulation, 64, 33_000, random(DiskOperation::Read, 7));
    close(took_ns / 1e9, 10.0 + 3000.0 / 300.0, 0.001, "seconds");
    // A minute of rest gives back 18,000 of them.
    let rested_ns = took_ns + 60e9;
    assert!(simulation.advance(rested_ns).len() == 64, "what was in flight ends");
    let mut ended_ns = 0.0;
    for id in 0..19_000 {
        simulation.arrive(DiskRequest { id, kind: DiskOperation::Read, offset: 0, length: 4096 }, rested_ns);
    }
    while let Some(at_ns) = simulation.next_ns() {
        ended_ns = simulation.advance(at_ns).last().map_or(ended_ns, |last| last.at_ns);
    }
    // They take 2,700 more per second than come back: 17,100 of the 18,000, of which others have taken 64.
    close((ended_ns - rested_ns) / 1e9, 19_000.0 / 3000.0, 0.002, "seconds after a rest");
}

/// A volume of hard disks counts a short read like one of a MiB, unless it is one of a row.
#[test]
fn a_row_of_requests_counts_as_what_it_has_and_any_other_request_as_a_unit() {
    let model = model("ebs-st1");
    let mut simulation = Simulation::new(&model, SIZE);
    let took_ns = closed_loop(&mut simulation, 32, 2500, random(DiskOperation::Read, 3));
    close(per_second(2500 - 4, took_ns - 5e6), 250.0, 0.001, "random reads");
    for (length, expected) in [(64 << 10, 262.144), (16 << 10, 250.0 * (16 << 10) as f64 / 1e6)] {
        let mut simulation = Simulation::new(&model, SIZE);
        let next = |id| DiskRequest { id, kind: DiskOperation::Read, offset: id * length, length };
        let count = (1 << 30) / length.max(64 << 10);
        let took_ns = closed_loop(&mut simulation, 32, count, next);
        close((count * length) as f64 / took_ns * 1e3, expected, 0.01, &format!("{length} bytes each"));
    }
}

/// One channel serves one read at a time, and all of them as many times more, until the interface is full.
#[test]
fn channels_work_at_the_same_time() {
    let model = model("sata-ssd");
    let Mechanism::Flash(flash) = &model.mechanism else { panic!("flash") };
    let rate = |depth| {
        let mut simulation = Simulation::new(&model, SIZE);
        per_second(20_000, closed_loop(&mut simulation, depth, 20_000, random(DiskOperation::Read, 9)))
    };
    let alone_s = flash.read_latency.0 as f64 / 1e9 + 4096.0 / (flash.read_rate * 1e6);
    let interface_s = 4096.0 / (flash.interface_rate * 1e6);
    close(rate(1), 1.0 / (alone_s + interface_s), 0.001, "one at a time");
    let all = (flash.channels as f64 / alone_s).min(1.0 / interface_s);
    close(rate(31), all, 0.01, "31 at a time");
}

/// All channels share a long request, so that one at a time is as fast as the interface, but for the first of
/// its parts.
#[test]
fn one_long_request_is_served_by_all_channels() {
    let model = model("sata-ssd");
    let Mechanism::Flash(flash) = &model.mechanism else { panic!("flash") };
    let rate = megabytes_per_second(&mut Simulation::new(&model, SIZE), DiskOperation::Read, 0);
    let part = flash.stripe.0 as f64;
    let first_s = flash.read_latency.0 as f64 / 1e9 + part / (flash.read_rate * 1e6);
    let whole = f64::from(1 << 20);
    close(rate, whole / (first_s + whole / (flash.interface_rate * 1e6)) / 1e6, 0.01, "MB per second");
}

/// The least that the SD Association allows for its class A1.
#[test]
fn a_card_does_what_its_class_promises() {
    let model = model("sd-card-a1");
    let rate = |kind| {
        let mut simulation = Simulation::new(&model, SIZE);
        per_second(2000, closed_loop(&mut simulation, 1, 2000, random(kind, 5)))
    };
    close(rate(DiskOperation::Read), 1500.0, 0.03, "reads");
    close(rate(DiskOperation::Write), 500.0, 0.03, "writes");
    let written = megabytes_per_second(&mut Simulation::new(&model, SIZE), DiskOperation::Write, 0);
    close(written, 10.0, 0.03, "MB per second");
}

/// A cache of fast flash that runs out: from then on the disk writes as fast as it makes room.
#[test]
fn flash_writes_fast_until_its_room_is_used_up() {
    let changes = [("fast_size", "\"256M\""), ("slow_rate", "50")];
    let model = changed("sata-ssd", &changes);
    let mut simulation = Simulation::new(&model, SIZE);
    let length = 1 << 20;
    let next = |id| DiskRequest { id, kind: DiskOperation::Write, offset: id * length, length };
    let count = 2000;
    let took_s = closed_loop(&mut simulation, 8, count, next) / 1e9;
    let expected_s = (count * length - (256 << 20)) as f64 / 50e6;
    close(took_s, expected_s, 0.01, "seconds");
}

/// Each figure that others have published is met within 10 %, without having been fitted.
#[test]
fn published_figures_are_met() {
    let mut held = 0;
    for name in DiskModel::own_names() {
        let model = model(name);
        for figure in &model.figures {
            let mut simulation = Simulation::new(&model, SIZE);
            let found = match figure.what {
                Measured::RandomReads1 => {
                    per_second(5000, closed_loop(&mut simulation, 1, 5000, random(DiskOperation::Read, 11)))
                }
                Measured::RandomReads32 => {
                    per_second(5000, closed_loop(&mut simulation, 32, 5000, random(DiskOperation::Read, 11)))
                }
                Measured::RandomWrites32 => per_second(
                    20_000,
                    closed_loop(&mut simulation, 32, 20_000, random(DiskOperation::Write, 11)),
                ),
                Measured::SequentialOuter => megabytes_per_second(&mut simulation, DiskOperation::Read, 0),
                Measured::SequentialInner => {
                    megabytes_per_second(&mut simulation, DiskOperation::Read, SIZE - (256 << 20))
                }
                Measured::SequentialWrite => megabytes_per_second(&mut simulation, DiskOperation::Write, 0),
            };
            close(found, figure.value, 0.1, &format!("{name}, {:?}", figure.what));
            held += 1;
        }
    }
    assert!(held > 0);
}

fn megabytes_per_second(simulation: &mut Simulation, kind: DiskOperation, first: u64) -> f64 {
    let (count, length) = (200, 1 << 20);
    let next = |id| DiskRequest { id, kind, offset: first + id * length, length };
    (count * length) as f64 / closed_loop(simulation, 1, count, next) * 1e3
}
