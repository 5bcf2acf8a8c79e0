-- Sweeps and their trials, as of release 0.2.0. Times of day are RFC 3339, UTC.

-- A sweep is one execution of a plan.
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

-- A trial is one execution of a case, written once, when it has ended: its public JSON, compressed with zstd, and beside
-- it what is long.
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    sweep_id INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    trial INTEGER NOT NULL,         -- position in the sweep, from 0
    case_index INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('measured', 'skipped', 'failed')),
    configuration TEXT NOT NULL,
    workload TEXT NOT NULL,         -- its kind
    document BLOB NOT NULL,         -- zstd: JSON without what is in bulk
    bulk BLOB NOT NULL,             -- zstd: histograms, timelines, slow operations, samples of telemetry
    UNIQUE (sweep_id, trial)
) STRICT;

-- Lists count outcomes and reports read one case after the other, neither of them whole rows.
CREATE INDEX trials_by_outcome ON trials (sweep_id, outcome);
CREATE INDEX trials_by_case ON trials (sweep_id, case_index, trial);
