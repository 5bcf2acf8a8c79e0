-- How full the filesystem was made before the load, and how the files lay on it afterwards.
ALTER TABLE trials ADD COLUMN filled TEXT; -- JSON, where it was filled
ALTER TABLE trials ADD COLUMN layout TEXT; -- JSON, where it is known
