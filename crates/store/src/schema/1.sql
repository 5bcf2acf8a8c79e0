-- A sweep is one execution of a plan. Times of day are RFC 3339, UTC.
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    plan_toml TEXT NOT NULL,
    overrides TEXT NOT NULL,        -- JSON list of path=value
    seed TEXT NOT NULL,             -- decimal; the whole range of 64 bits without a sign
    measure TEXT NOT NULL,          -- what the summary ranks by
    environment TEXT,               -- JSON, at the start of the sweep
    cases INTEGER NOT NULL,
    trials INTEGER NOT NULL,        -- as planned
    state TEXT NOT NULL CHECK (state IN ('running', 'interrupted', 'finished')),
    process TEXT NOT NULL,          -- boot:pid:start of the process that runs it
    started TEXT NOT NULL,
    finished TEXT
) STRICT;

CREATE INDEX sweeps_by_name ON sweeps (name);

-- A trial is one execution of a case, written once, when it has ended.
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    sweep_id INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    trial INTEGER NOT NULL,         -- position in the sweep, from 0
    block INTEGER NOT NULL,
    case_index INTEGER NOT NULL,
    sentinel INTEGER NOT NULL,
    seed TEXT NOT NULL,             -- decimal, as in sweeps
    outcome TEXT NOT NULL CHECK (outcome IN ('measured', 'skipped', 'failed')),
    unmet TEXT,                     -- JSON list, where skipped
    error TEXT,                     -- JSON, where failed
    configuration TEXT NOT NULL,
    filesystem TEXT NOT NULL,
    settings TEXT NOT NULL,         -- JSON {axis: level}
    device TEXT NOT NULL,           -- JSON
    workload TEXT NOT NULL,         -- its kind
    parameters TEXT NOT NULL,       -- JSON, the workload whole
    timer TEXT,                     -- source, as timer_read_ns absent when the engine never ran
    timer_read_ns REAL,
    timer_overhead_ns_per_op REAL,
    mkfs_ns INTEGER,
    mount_ns INTEGER,
    prepare_ns INTEGER,
    umount_ns INTEGER,
    check_ns INTEGER,
    total_ns INTEGER,
    mkfs_command TEXT NOT NULL,
    mount_command TEXT NOT NULL,
    mount_options_in_force TEXT NOT NULL,
    scheduler_in_force TEXT NOT NULL,
    check_result TEXT,              -- JSON
    tree_files INTEGER NOT NULL,
    tree_directories INTEGER NOT NULL,
    tree_bytes INTEGER NOT NULL,
    environment TEXT NOT NULL,      -- JSON
    started TEXT NOT NULL,
    finished TEXT NOT NULL,
    UNIQUE (sweep_id, trial)
) STRICT;

CREATE TABLE warnings (
    trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (trial_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE phases (
    id INTEGER PRIMARY KEY,
    trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    ramp_ns INTEGER NOT NULL,
    window_ns INTEGER NOT NULL,
    drain_ns INTEGER NOT NULL,
    UNIQUE (trial_id, position)
) STRICT;

CREATE TABLE roles (
    id INTEGER PRIMARY KEY,
    phase_id INTEGER NOT NULL REFERENCES phases (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    workers INTEGER NOT NULL,
    longest_stall_ns INTEGER NOT NULL,
    time_over_100ms REAL NOT NULL,  -- share of the window
    time_over_1s REAL NOT NULL,
    blocked_at_start TEXT NOT NULL, -- JSON list
    data_bytes_per_s REAL,
    with_overhead_bytes_per_s REAL,
    aggregate_bytes_per_s REAL NOT NULL,
    operations_per_s REAL NOT NULL,
    bytes INTEGER NOT NULL,
    UNIQUE (phase_id, position)
) STRICT;

CREATE TABLE workers (
    role_id INTEGER NOT NULL REFERENCES roles (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    spanning INTEGER NOT NULL,
    longest_stall_ns INTEGER NOT NULL,
    time_over_100ms REAL NOT NULL,
    time_over_1s REAL NOT NULL,
    rounds INTEGER NOT NULL,
    unfinished TEXT,                -- JSON
    PRIMARY KEY (role_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    id INTEGER PRIMARY KEY,
    role_id INTEGER NOT NULL REFERENCES roles (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    operation TEXT NOT NULL,
    count INTEGER NOT NULL,
    censored INTEGER NOT NULL,      -- of which only a lower bound is known
    lat_ns_min INTEGER NOT NULL,
    lat_ns_max INTEGER NOT NULL,
    lat_ns_mean REAL NOT NULL,
    lat_ns_stddev REAL NOT NULL,
    lat_ns_median INTEGER NOT NULL,
    lat_ns_p90 INTEGER NOT NULL,
    lat_ns_p99 INTEGER NOT NULL,
    lat_ns_p999 INTEGER NOT NULL,
    lat_ns_p9999 INTEGER NOT NULL,
    lat_ns_at_least_from INTEGER,   -- values from here up are lower bounds
    histogram BLOB NOT NULL,        -- HdrHistogram V2, compressed
    timeline TEXT NOT NULL,         -- JSON
    slowest TEXT NOT NULL,          -- JSON list
    UNIQUE (role_id, position)
) STRICT;

-- For people with sqlite3: every latency with all that it belongs to.
CREATE VIEW latencies AS
SELECT sweep_id, trial, configuration, workload, phases.name AS phase, role, operation, count, censored,
       lat_ns_median, lat_ns_p90, lat_ns_p99, lat_ns_p999, lat_ns_p9999, lat_ns_max, lat_ns_at_least_from
FROM operations
JOIN roles ON roles.id = role_id
JOIN phases ON phases.id = phase_id
JOIN trials ON trials.id = trial_id;

-- And every rate.
CREATE VIEW rates AS
SELECT sweep_id, trial, configuration, workload, phases.name AS phase, role, workers,
       aggregate_bytes_per_s, data_bytes_per_s, with_overhead_bytes_per_s, operations_per_s, longest_stall_ns
FROM roles
JOIN phases ON phases.id = phase_id
JOIN trials ON trials.id = trial_id;
