-- How long each worker worked: to the end of the window, or until its work was done.
ALTER TABLE workers ADD COLUMN active_ns INTEGER NOT NULL DEFAULT 0;
