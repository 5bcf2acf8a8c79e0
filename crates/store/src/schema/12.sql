-- The looks at the trials of a sweep that decided how many there are, as JSON; absent if they decided nothing.
ALTER TABLE sweeps ADD COLUMN looks TEXT;
