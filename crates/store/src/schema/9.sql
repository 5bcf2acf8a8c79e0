-- A trial is one row: its public JSON, compressed with zstd, and beside it what is long. The tables of version 8 are read
-- and removed by store/src/older.rs in the same transaction.
CREATE TABLE whole_trials (
    id INTEGER PRIMARY KEY,
    sweep_id INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    trial INTEGER NOT NULL,         -- position in the sweep, from 0
    case_index INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('measured', 'skipped', 'failed')),
    configuration TEXT NOT NULL,
    workload TEXT NOT NULL,         -- its kind
    document BLOB NOT NULL,         -- zstd: JSON without what is in bulk; empty where version 8 had damaged rows
    bulk BLOB NOT NULL,             -- zstd: histograms, timelines, slow operations, samples of telemetry
    UNIQUE (sweep_id, trial)
) STRICT;
