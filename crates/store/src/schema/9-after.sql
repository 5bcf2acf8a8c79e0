DROP VIEW IF EXISTS latencies;
DROP VIEW IF EXISTS rates;
DROP TABLE telemetry;
DROP TABLE operations;
DROP TABLE workers;
DROP TABLE roles;
DROP TABLE phases;
DROP TABLE warnings;
DROP TABLE trials;
ALTER TABLE whole_trials RENAME TO trials;

-- Lists count outcomes and reports read one case after the other, neither of them whole rows.
CREATE INDEX trials_by_outcome ON trials (sweep_id, outcome);
CREATE INDEX trials_by_case ON trials (sweep_id, case_index, trial);
