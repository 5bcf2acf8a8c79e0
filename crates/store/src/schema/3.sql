-- What the machine did in the window of a phase, and what looking costs.
CREATE TABLE telemetry (
    phase_id INTEGER PRIMARY KEY REFERENCES phases (id) ON DELETE CASCADE,
    telemetry TEXT NOT NULL         -- JSON: differences of the kernel's counters, per sample and for the whole window
) STRICT;

ALTER TABLE trials ADD COLUMN timer_overhead_with_telemetry_ns_per_op REAL;
