-- A workload may have the filesystem unmounted and mounted again within the load. Earlier trials had neither.
ALTER TABLE trials ADD COLUMN umount_between_ns INTEGER;
ALTER TABLE trials ADD COLUMN mount_between_ns INTEGER;
