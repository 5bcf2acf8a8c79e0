-- How to build the same on another device.
ALTER TABLE trials ADD COLUMN recipe TEXT; -- JSON, where something was made
