-- Notes, where a sweep comes from, and measures as rows. What others may rely on are the views: a later version of the
-- schema may change the tables, and keeps the columns of the views.
ALTER TABLE sweeps ADD COLUMN note TEXT;
ALTER TABLE sweeps ADD COLUMN origin TEXT NOT NULL DEFAULT 'run' CHECK (origin IN ('run', 'import', 'pack'));
UPDATE sweeps SET origin = 'import' WHERE plan_toml LIKE '# imported from %';

-- The number of a deleted sweep is never used again.
CREATE TABLE numbers (last INTEGER NOT NULL) STRICT;
INSERT INTO numbers SELECT coalesce(max(id), 0) FROM sweeps;

-- Written with the trial; of older trials by store/src/measures.rs in the same transaction as this script.
CREATE TABLE measures (
    sweep_id INTEGER NOT NULL,
    trial INTEGER NOT NULL,
    measure TEXT NOT NULL,
    unit TEXT NOT NULL,
    value REAL NOT NULL,
    at_least INTEGER NOT NULL,      -- 1 where the value is only a lower bound
    PRIMARY KEY (sweep_id, trial, measure),
    FOREIGN KEY (sweep_id, trial) REFERENCES trials (sweep_id, trial) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE VIEW fsdyno_sweeps AS
    SELECT id AS sweep, name, note, started, finished, state, origin, measure, seed, cases, trials AS planned_trials,
        plan_toml AS plan, overrides
    FROM sweeps;

CREATE VIEW fsdyno_trials AS
    SELECT sweep_id AS sweep, trial, case_index AS case_number, configuration, workload, outcome
    FROM trials;

CREATE VIEW fsdyno_measures AS
    SELECT trials.sweep_id AS sweep, trials.trial AS trial, configuration, workload, measure, unit, value, at_least
    FROM measures JOIN trials ON trials.sweep_id = measures.sweep_id AND trials.trial = measures.trial;
