# What a user runs. scripts/install-tools installs what these targets need, if it may.

CARGO ?= cargo
# sudo finds programs here: it is in the secure_path of sudoers(5).
PREFIX ?= /usr/local

.PHONY: help build install uninstall deb static demo test check unit docs book bench soak clean

help:
	@echo "make demo    build, sweep real filesystems on a scratch image, print the tables, write a report"
	@echo "make test    everything that must hold: format, lints, tests; all but what make soak adds"
	@echo "make check   formatting and lints"
	@echo "make unit    every test but doc examples and those on real devices: the machine suite and host's local"
	@echo "make docs    docs/reference, written from the program"
	@echo "make book    the documentation as a site in target/book, with mdBook; needs no network"
	@echo "make bench   what fsdyno itself costs, against plain loops"
	@echo "make soak    the long run before a release: random plans, real sweeps ended in every way, packages; as root"
	@echo "make build   target/release/fsdyno"
	@echo "make install what make build built, with man pages, completions and docs, in PREFIX ($(PREFIX)); as root"
	@echo "make deb     a Debian package in target/debian"
	@echo "make static  a program that needs no library and runs on any Linux"

build:
	$(CARGO) build --release --locked --bin fsdyno

# Builds nothing, so that sudo leaves no files of root in target/.
install uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install $@

deb: build
	@scripts/install-tools deb
	@scripts/deb

static:
	@scripts/install-tools static
	@scripts/static

demo: build
	@scripts/install-tools demo
	@scripts/demo

test:
	@scripts/install-tools test
	@scripts/test

check:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# As in scripts/test: all but `machine` (crates/fsdyno) and `local` (crates/host), which work on real devices.
unit:
	$(CARGO) test --locked --workspace --lib --bins --test '[!lm]*' --test 'l[!o]*' --test 'm[!a]*'

docs:
	$(CARGO) run --locked -p fsdyno -- reference docs/reference

book:
	@command -v mdbook >/dev/null || { echo "make book needs mdBook: cargo install --locked mdbook" >&2; exit 2; }
	mdbook build

bench:
	@scripts/install-tools test
	$(CARGO) bench --locked -p fsdyno-engine --bench overhead -- --keep
	$(CARGO) bench --locked -p fsdyno-engine --bench flow -- --keep
	$(CARGO) bench --locked -p fsdyno-engine --bench streaming -- --keep
	$(CARGO) bench --locked -p fsdyno --bench trial_cost
	$(CARGO) bench --locked -p fsdyno --bench report

soak:
	@scripts/install-tools soak
	@scripts/soak all

clean:
	$(CARGO) clean
