-- Processor time of workers in the window, the bytes of each, the items (files, transactions, seeks) that a workload
-- counts, the longest of them, and what it counts beside them.
ALTER TABLE roles ADD COLUMN cpu_user_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE roles ADD COLUMN cpu_system_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE roles ADD COLUMN items INTEGER NOT NULL DEFAULT 0;
ALTER TABLE roles ADD COLUMN items_per_s REAL NOT NULL DEFAULT 0;
ALTER TABLE roles ADD COLUMN longest_item_ns INTEGER; -- NULL where the workload does not measure it
ALTER TABLE roles ADD COLUMN counts TEXT NOT NULL DEFAULT '{}'; -- JSON {name: count}
ALTER TABLE workers ADD COLUMN cpu_user_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN cpu_system_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
