-- How long a guest took to answer. Earlier trials do not tell, and those on the machine itself have no guest.
ALTER TABLE trials ADD COLUMN boot_ns INTEGER;
